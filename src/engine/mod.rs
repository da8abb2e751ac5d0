//! The engine behind all front doors: from a request's view to a decision, and from
//! the end of its response to a settlement.
//!
//! A front door describes a request as a [`RequestView`] and carries out the
//! decision. It decides nothing itself.

mod auth;
mod authorized;
mod explain;
mod named_key;
mod passwords;
mod placed;
mod question;
mod refusal;
mod settlement;
mod store_call;
mod view;
mod warnings;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tollgate_core::decision::{
    Decision, Ending, Headroom, KnownClaim, Lease, Outcome, RateLimiter,
};
use tollgate_core::meter::{Spent, Unsettled};
use tollgate_core::policy::{
    AccessStep, AccessVerdicts, AuthRefusal, Denial, DenialAnswer, DenialCause, Policy, Subject,
};
use tollgate_core::request::{Ambiguity, Content, Malformed, RequestView};
use tollgate_core::routes::{Destination, Route, Rules};
use tollgate_core::time::{Clock, Moment, Timestamp};

use crate::boxed::boxed;
use crate::telemetry::{
    BudgetWarnings, DecisionTimer, StoreMetrics, UnitMetrics, UnsettledWarnings, WorkerForwarders,
    WorkerMetrics, WorkerRefusals, WorkerTop,
};

use auth::EarlierCheck;
pub use auth::{AskedPolicies, Authentication, Credential, SharedAuth};
pub use explain::{
    Asked, Description, DescriptionError, EstimatedTokens, Explaining, Explanation, Fields,
    ListVerdict, PolicyVerdict, Reason, Wait, explain, preset,
};
pub use named_key::NamedKey;
pub use passwords::Passwords;
pub use placed::{Again, Placed};
pub use question::{Described, Judges, body_values, describe};
pub use settlement::{Settled, Settlement};
pub use store_call::StoreCall;
pub use view::{PeerView, failure_in, failure_of, view};

/// One worker's limiter and its clock.
#[derive(Clone, Debug)]
pub struct Engine {
    deciding: Rc<Deciding>,
    clock: Clock,
}

#[derive(Debug)]
struct Deciding {
    limiter: RateLimiter,
    auth: Authentication,
    timer: DecisionTimer,
    metrics: StoreMetrics,
    units: UnitMetrics,
    seen: Seen,
}

/// What an engine tells of requests, beside metrics.
#[derive(Debug)]
pub struct Seen {
    /// The clients with the most requests.
    pub top: WorkerTop,
    /// The last refusals.
    pub refusals: WorkerRefusals,
    /// Peers that name clients and are not trusted.
    pub forwarders: WorkerForwarders,
    /// Requests whose cost is not known in the end.
    pub unsettled: UnsettledWarnings,
    /// Shares of limits that clients have passed.
    pub budgets: Arc<BudgetWarnings>,
}

/// What few requests name.
#[derive(Debug)]
pub struct Named<'r> {
    /// The agent that has signed the request.
    pub agent: Option<&'r str>,
    /// The model, if a policy reserves units for a language model.
    pub model: Option<Box<str>>,
}

impl<'r> Named<'r> {
    /// None if neither is named.
    fn of(agent: Option<&'r str>, model: Option<Box<str>>) -> Option<Box<Self>> {
        (agent.is_some() || model.is_some()).then(|| Box::new(Self { agent, model }))
    }
}

/// The decision on a request, and further results from its view.
#[derive(Debug)]
pub struct Judgement<'r> {
    /// The route's index.
    pub route: usize,
    /// The index of the branch of the route's split, or 0.
    pub branch: usize,
    /// The client's address.
    pub client_ip: IpAddr,
    /// The client's class, if it is in one.
    pub class: Option<&'r str>,
    /// The key by which its upstream chooses an endpoint, if it uses one.
    pub affinity: Option<u64>,
    /// What the access lists of its route have said.
    pub access: AccessVerdicts,
    /// What it has proved of its client.
    pub credential: Credential<'r>,
    /// The decision of its policies.
    pub decision: Decision<&'r Arc<Policy>>,
    /// Which of them were asked.
    pub asked: AskedPolicies,
    /// The time of the decision.
    pub now: Timestamp,
    /// How long the decision took, if a server was asked, in microseconds.
    pub store_us: Option<u64>,
    /// Whether it is a preflight that the gateway answers.
    pub is_preflight: bool,
    /// What few requests name. Apart, because a judgement is moved several times.
    pub named: Option<Box<Named<'r>>>,
    /// Whether its body must be read first. Nothing was decided then.
    pub awaits_body: bool,
    /// Whether a wrong password of the request was counted.
    pub has_failed: bool,
}

/// What the credentials of a request have proved.
#[derive(Default)]
struct Proved<'r> {
    credential: Credential<'r>,
    /// None: the request passes.
    refusal: Option<AuthRefusal>,
    /// Whether a wrong password was counted.
    has_failed: bool,
}

impl Judgement<'_> {
    /// Whether the client must not learn that there is a route.
    pub const fn hides_route(&self) -> bool {
        matches!(
            self.decision.outcome,
            Outcome::Denied(Denial { cause: DenialCause::Rule(DenialAnswer::NotFound), .. })
        )
    }
}

impl Seen {
    /// Tells of the decision on a request of this route, and of the proxy that has sent it.
    fn observe(
        &self,
        decision: &Decision<&Arc<Policy>>,
        subject: &Subject<'_, '_>,
        route: &Route,
        request: &RequestView<'_>,
        wall: Timestamp,
    ) {
        self.observe_forwarder(subject);
        self.top.observe(decision, subject, wall);
        if let Outcome::Refuse(_) | Outcome::Unavailable(_) = decision.outcome {
            refusal::keep(&self.refusals, decision, subject, route, request, wall);
        }
    }

    /// Tells of the proxy that has sent a request, if it is not believed.
    fn observe_forwarder(&self, subject: &Subject<'_, '_>) {
        if let Some(unbelieved) = subject.unbelieved() {
            self.forwarders.observe(&unbelieved);
        }
    }
}

/// Why a request has no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecidable {
    /// No route matches.
    #[error("no route matches")]
    NoRoute,
    /// Backends may interpret the request in two ways.
    #[error(transparent)]
    Ambiguous(#[from] Ambiguity),
    /// A field has a name that some backends take for the name of another field.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// The refusal of a request by those of its policies that need no body, if one refuses. Those whose
/// refusal leads to another route do not refuse alone: the policies that need the body are asked, too.
async fn refused_before_body<'r>(
    limiter: &RateLimiter,
    route: &Route,
    policies: impl Iterator<Item = &'r Arc<Policy>> + Clone,
    subject: &Subject<'r, '_>,
    now: Timestamp,
) -> Option<Decision<&'r Arc<Policy>>> {
    let policies = policies.filter(|policy| AskedPolicies::WithoutBody.contain(policy));
    policies.clone().next()?;
    let is_final = |policy: &Policy| !route.overflow.as_ref().is_some_and(|it| it.has(policy));
    Box::pin(limiter.refuse_known(policies, subject, is_final, now)).await
}

impl Engine {
    /// Decides by this limiter after `auth`, measures how long decisions take, and tells of requests
    /// in `seen`.
    pub fn new(
        limiter: RateLimiter,
        auth: Authentication,
        clock: Clock,
        metrics: &Rc<WorkerMetrics>,
        seen: Seen,
    ) -> Self {
        let timer = DecisionTimer::new(metrics, limiter.store());
        let units = UnitMetrics::new(metrics);
        let metrics = StoreMetrics::new(metrics);
        let deciding = Deciding { limiter, auth, timer, metrics, units, seen };
        Self { deciding: Rc::new(deciding), clock }
    }

    /// The clock of decisions.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Lets the access lists and then the policies of its route judge a request that arrives at
    /// `moment`. It counts when its credentials are known. `headroom` returns the headroom of an
    /// upstream. Policies that do not apply, take no part. If a policy needs the body, and it can be
    /// read, the judgement says only that it must be, unless the request is refused in any case.
    pub async fn judge<'r>(
        &self,
        rules: &'r Rules,
        placed: &Placed<'r, '_>,
        moment: Moment,
        headroom: impl FnOnce(Destination) -> Headroom,
        applies: impl Fn(&Policy) -> bool,
    ) -> Judgement<'r> {
        let Placed { request, route: index, ref subject, .. } = *placed;
        let Moment { mut now, wall, .. } = moment;
        let route = rules.route(index);
        let is_preflight = route.answers_preflights && request.is_preflight();
        let awaits_body =
            route.reads_body && !is_preflight && matches!(request.values(), Content::Unread);
        let mut access = AccessVerdicts::default();
        if let Some(denial) = access.ask(&route.access, AccessStep::BeforeAuth, subject) {
            return self.denied(index, subject, access, denial, Credential::default(), now);
        }
        let Deciding { limiter, auth, timer, seen, .. } = &*self.deciding;
        // It takes longer than decisions, and belongs to none. Boxed, because few gateways have users.
        if subject.has_passwords() && !is_preflight {
            Box::pin(auth.check_password(route, subject, now)).await;
        }
        let begun = timer.begin();
        let policies = route.policies.iter().filter(|policy| applies(policy));
        let mut proved = Proved { has_failed: placed.has_failed, ..Proved::default() };
        now = self.look_up_key(rules, index, subject, now).await;
        // A preflight has no credentials, and is no request of its client alone.
        if !is_preflight {
            proved = self.check_credentials(rules, placed, now, awaits_body);
        }
        let Proved { credential, refusal, has_failed } = proved;
        if refusal.is_none()
            && !is_preflight
            && let Some(denial) = access.ask(&route.access, AccessStep::AfterAuth, subject)
        {
            return self.denied(index, subject, access, denial, credential, now);
        }
        // Its key can be a credential: a user, or an API key that was looked up.
        let destination = rules.destination(index, subject, || fastrand::u64(..));
        let headroom = headroom(destination);
        let policies = policies.filter(|it| !(route.has_authorizer && it.needs_authorizer()));
        let mut is_undecided = false;
        // Boxed, because few requests are refused here, few routes have an authorizer, and a decision
        // in memory needs no future.
        let mut decision = match refusal {
            None if awaits_body => {
                let known = refused_before_body(limiter, route, policies, subject, now).await;
                is_undecided = known.is_none();
                known.unwrap_or_else(|| Decision::uncounted(Outcome::Admit))
            }
            Some(refusal) => Box::pin(auth::refuse(limiter, policies, subject, refusal, now)).await,
            None if route.may_give_back() && !is_preflight => {
                Box::pin(limiter.decide_open(policies, subject, headroom, now)).await
            }
            None => match limiter.memory() {
                Some(memory) => RateLimiter::decide_now(memory, policies, subject, headroom, now),
                None => boxed(|| limiter.decide(policies, subject, headroom, now)).await,
            },
        };
        let store_us = timer.end(begun);
        if !is_undecided {
            seen.observe(&decision, subject, route, request, wall);
            self.warn(&mut decision);
        }
        let model = if route.reads_body { subject.requested_model(&route.policies) } else { None };
        Judgement {
            route: index,
            branch: destination.branch,
            client_ip: subject.client_ip(),
            class: subject.class(),
            affinity: route.affinity(destination.branch).and_then(|key| subject.affinity(key)),
            access,
            credential,
            decision,
            asked: AskedPolicies::of(refusal, awaits_body),
            now,
            store_us,
            is_preflight,
            named: Named::of(subject.agent(), model),
            awaits_body: is_undecided,
            has_failed,
        }
    }

    /// What a request has proved. A wrong password counts once for each request.
    fn check_credentials<'r>(
        &self,
        rules: &'r Rules,
        placed: &Placed<'r, '_>,
        now: Timestamp,
        awaits_body: bool,
    ) -> Proved<'r> {
        let Placed { route: index, ref subject, mut has_failed, .. } = *placed;
        let auth = &self.deciding.auth;
        let route = rules.route(index);
        let mut proved = Proved::default();
        if subject.has_passwords()
            && !has_failed
            && let Some(failure) = auth.count_password(route, subject, now)
        {
            has_failed = true;
            proved.refusal = failure.refusal;
        }
        if proved.refusal.is_none() && rules.asks_for_credentials(index) {
            let earlier = EarlierCheck { again: awaits_body, has_failed };
            (proved.credential, proved.refusal) = auth.check(route, subject, now, earlier);
        }
        Proved { has_failed, ..proved }
    }

    /// The judgement of a request that an access list denies. No policy is asked.
    #[cold]
    fn denied<'r>(
        &self,
        route: usize,
        subject: &Subject<'r, '_>,
        access: AccessVerdicts,
        denial: Denial,
        credential: Credential<'r>,
        now: Timestamp,
    ) -> Judgement<'r> {
        self.deciding.seen.observe_forwarder(subject);
        let decision = Decision::uncounted(Outcome::Denied(denial));
        let client_ip = subject.client_ip();
        Judgement {
            route,
            branch: 0,
            client_ip,
            class: subject.class(),
            affinity: None,
            access,
            credential,
            decision,
            asked: AskedPolicies::All,
            now,
            store_us: None,
            is_preflight: false,
            named: Named::of(subject.agent(), None),
            awaits_body: false,
            has_failed: false,
        }
    }

    /// Looks up the key of a request of the route with this index, if it needs that. Its password was
    /// checked before. Returns the time at which its credentials are known: both may take seconds.
    async fn look_up_key(
        &self,
        rules: &Rules,
        index: usize,
        subject: &Subject<'_, '_>,
        now: Timestamp,
    ) -> Timestamp {
        let auth = &self.deciding.auth;
        if rules.asks_for_credentials(index) {
            auth.look_up_key(subject, now).await;
        }
        match auth.knows_at_once(rules.clients()) {
            true => now,
            false => self.clock.now(),
        }
    }

    /// Whether [`judge`](Self::judge) under these rules waits for nothing: its future is ready at its
    /// first poll.
    pub fn judges_at_once(&self, rules: &Rules) -> bool {
        let Deciding { limiter, auth, .. } = &*self.deciding;
        limiter.memory().is_some() && auth.knows_at_once(rules.clients())
    }

    /// Lets policies judge a question whose keys and costs are known without a request. Routes
    /// and upstreams have no part in it. If `counts_all`, each claim is judged alone and counted
    /// in any case, see [`RateLimiter::count_known`]. The store has until `until` at most.
    pub async fn judge_known<'r>(
        &self,
        claims: impl IntoIterator<Item = KnownClaim<'r>>,
        counts_all: bool,
        until: Option<Instant>,
    ) -> Decision<&'r Arc<Policy>> {
        let Deciding { limiter, timer, .. } = &*self.deciding;
        let begun = timer.begin();
        let now = self.clock.now();
        let mut decision = match counts_all {
            true => limiter.count_known_by(claims, now, until).await,
            false => limiter.decide_known_by(claims, Headroom::default(), now, until).await,
        };
        timer.end(begun);
        self.warn(&mut decision);
        decision
    }

    /// See [`RateLimiter::give_back_known`].
    pub fn give_back_known(&self, claim: KnownClaim<'_>) {
        self.deciding.limiter.give_back_known(claim, self.clock.now());
    }

    /// Gives back what this decision has charged, because the request is refused for another reason.
    pub fn give_back_decided(&self, decision: &mut Decision<&Arc<Policy>>) {
        decision.lease.open_all(&decision.reports);
        self.deciding.limiter.give_back(&decision.lease, self.clock.now());
    }

    /// A request with this lease begins, which [`end`](Self::end) settles.
    fn begin(&self, lease: &Lease) {
        self.deciding.units.begins(lease);
    }

    /// Gives back what was charged for a request that was not processed. Returns the time.
    fn give_back_all(&self, lease: &Lease) -> Timestamp {
        let now = self.clock.now();
        self.deciding.units.given_back(lease);
        self.deciding.limiter.give_back(lease, now);
        now
    }

    /// The response has not settled the cost of a request under `policy`.
    fn unsettled(&self, policy: &Policy, cause: Unsettled) {
        let Deciding { units, seen, .. } = &*self.deciding;
        units.unsettled(policy, cause);
        seen.unsettled.observe(&policy.name, cause);
    }

    /// Counts the tokens of a request with this lease, and the units that they have cost.
    fn spent(&self, lease: &Lease, ending: &Ending<'_>, spent: Option<&Spent>) {
        if let Some(spent) = spent {
            self.deciding.units.spent(lease, ending, spent);
        }
    }

    /// Settles a request after it has ended. Returns the time of the settlement.
    fn end(&self, lease: &Lease, ending: &Ending<'_>) -> Timestamp {
        let now = self.clock.now();
        self.deciding.units.ends(lease, ending);
        self.settle(lease, ending, now);
        now
    }

    /// Does the periodic maintenance of the store, which does not depend on requests.
    pub fn housekeep(&self) {
        let Deciding { limiter, auth, metrics, seen, .. } = &*self.deciding;
        limiter.housekeep(self.clock.now());
        auth.housekeep(self.clock.now());
        metrics.observe(limiter.store(), limiter.override_lookups());
        seen.top.housekeep(self.clock.wall());
    }

    /// Closes this worker's part of the store, after its last response.
    pub async fn close(&self) {
        self.deciding.limiter.close(self.clock.now()).await;
    }
}

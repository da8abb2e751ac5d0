//! The life of a request whose route has an authorizer, from the first decision on: the
//! question, the decision of the policies that need its answer, and the dispatch.
//!
//! What the first decision has charged is held meanwhile. It is given back if the request is not
//! processed for a reason that is not its own: the authorizer fails, or the second decision
//! refuses the request. If the authorizer refuses the request, it stays charged.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use http::Response;
use http::request::Parts;
use hyper::body::Body as _;
use tokio::time::timeout_at;
use tollgate_core::decision::{Decision, LimitFields, Outcome, OwnedDecision};
use tollgate_core::policy::Policy;
use tollgate_core::request::Content;
use tollgate_core::time::{Span, monotonic};

use super::body::ResponseBody;
use super::dispatch::Admission;
use super::exchange::Exchange;
use super::refusing::Refused;
use super::{Client, Gateway};
use crate::engine::{self, Again, AskedPolicies, Credential, Judgement, PeerView};
use crate::message::{
    Answered, AuthorizerQuestion, AuthorizerSettings, Failure, QuestionOrigin, Taken,
    authorizer_question, recycle,
};
use crate::server::ClientBody;

/// The outcome of a request that its authorizer refuses.
const DENIED: &str = "authorizer_denied";
/// The outcome of a request that passes because its authorizer gives no answer.
const FAILED_OPEN: &str = "authorizer_failed_open";

/// The first decision on a request, which admits it.
pub struct First {
    decision: OwnedDecision,
    credential: Credential<'static>,
    admission: Admission,
    /// Whether a wrong password was counted.
    has_failed: bool,
}

impl First {
    /// As a request is judged.
    pub fn of(judgement: &mut Judgement<'_>, admission: Admission) -> Self {
        let has_failed = judgement.has_failed;
        let decision = &mut judgement.decision;
        let taken = std::mem::replace(decision, Decision::uncounted(Outcome::Admit));
        let credential = std::mem::take(&mut judgement.credential).into_owned();
        Self { decision: taken.into_owned(), credential, admission, has_failed }
    }
}

/// The policies that need the answer of an authorizer, or those that do not.
pub fn part(policies: &[Arc<Policy>], needing: bool) -> Vec<Arc<Policy>> {
    policies.iter().filter(|policy| policy.needs_authorizer() == needing).cloned().collect()
}

/// What becomes of a request before it is dispatched.
enum Passed {
    /// It passes, with these fields about limits.
    On(Admission, LimitFields),
    /// A limit refuses it.
    Refused(Box<Refused>),
    /// It is answered.
    Answered(Result<Response<ResponseBody>, Failure>, LimitFields),
}

impl Gateway {
    /// The rest of the life of a request that was admitted by the policies that do not need the
    /// answer of its authorizer.
    pub async fn pass_authorizer(
        self: Rc<Self>,
        authorizer: usize,
        mut first: First,
        client: Rc<Client>,
        mut head: Parts,
        body: ClientBody,
        mut exchange: Exchange,
    ) -> Response<ResponseBody> {
        let has_content = !body.is_end_stream();
        let deadline = self.deadline(first.admission.route, exchange.waited().get());
        exchange.end_by(deadline);
        let client_ip = first.admission.client_ip;
        let credential = std::mem::take(&mut first.credential);
        let asked = self.asked(authorizer, client_ip, &client, &credential, &head);
        let answer = self.ask(authorizer, asked, &mut head, &mut exchange);
        let answer = match deadline {
            None => answer.await,
            Some(end) => timeout_at(end, answer).await.unwrap_or(Err(Failure::RequestTimeout)),
        };
        let passed = match answer {
            Ok(None) => self.judge_again(first, &client, &head, has_content, &mut exchange).await,
            Ok(Some(response)) => {
                exchange.stays_charged();
                Passed::Answered(Ok(response), exchange.limits(&first.decision))
            }
            Err(failure) => {
                exchange.give_back();
                Passed::Answered(Err(failure), LimitFields::default())
            }
        };
        match passed {
            Passed::Answered(result, limits) => {
                recycle(head.headers);
                exchange.end(result, limits)
            }
            Passed::Refused(refused) => {
                Box::pin(self.refuse(*refused, client, head, body, exchange)).await
            }
            Passed::On(admission, limits) => {
                let prepared =
                    self.prepare(&client, admission, &credential, head, body, &mut exchange);
                let result = match prepared {
                    Ok(dispatch) => self.dispatch(&admission, dispatch, &mut exchange).await,
                    Err(failure) => Err(failure),
                };
                exchange.end(result, limits)
            }
        }
    }

    /// The question about a request. It contains the API key of the client only in fields that
    /// `send` names, unless upstreams get it, too.
    fn asked(
        &self,
        authorizer: usize,
        client_ip: IpAddr,
        client: &Client,
        credential: &Credential<'_>,
        head: &Parts,
    ) -> AuthorizerQuestion {
        let settings: &AuthorizerSettings = self.authorizers[authorizer].settings();
        let origin = QuestionOrigin {
            forwarding: &client.forwarding,
            is_trusted: self.is_trusted(client),
            client: client_ip,
        };
        let filter = &self.filters.requests;
        let clients = self.snapshot.rules.clients();
        if !clients.knows_keys() {
            return authorizer_question(settings, head, origin, filter);
        }
        let mut shown = head.clone();
        let is_sent = |name: &_| settings.send.as_ref().is_some_and(|send| send.contains(name));
        clients.replace_key(&mut shown, credential.accepted(), is_sent);
        authorizer_question(settings, &shown, origin, filter)
    }

    /// Asks the authorizer, and gives the request the fields of its answer. Returns the response
    /// for the client if the authorizer refuses the request.
    async fn ask(
        &self,
        authorizer: usize,
        question: AuthorizerQuestion,
        head: &mut Parts,
        exchange: &mut Exchange,
    ) -> Result<Option<Response<ResponseBody>>, Failure> {
        let authorizer = &self.authorizers[authorizer];
        let settings: &AuthorizerSettings = authorizer.settings();
        let begun = monotonic();
        let answer = authorizer.ask(&self.proxy, question).await;
        exchange.waits(monotonic().duration_since(begun).into());
        match answer.as_deref() {
            Ok(Answered::Passed(taken)) => {
                taken.write(settings, &mut head.headers);
                exchange.set_cookies(&taken.cookies);
                Ok(None)
            }
            Ok(Answered::Refused(refused)) => {
                exchange.set_outcome(DENIED);
                Ok(Some(refused.response().map(ResponseBody::local)))
            }
            Err(_) if settings.allows_on_failure => {
                Taken::default().write(settings, &mut head.headers);
                exchange.set_outcome(FAILED_OPEN);
                Ok(None)
            }
            Err(_) => Err(Failure::AuthorizerAway),
        }
    }

    /// Lets the policies judge the request that need the answer of the authorizer. Both
    /// decisions are one for the client.
    async fn judge_again(
        &self,
        first: First,
        client: &Client,
        head: &Parts,
        has_content: bool,
        exchange: &mut Exchange,
    ) -> Passed {
        let First { decision, admission, has_failed, .. } = first;
        let rules = &self.snapshot.rules;
        let route = admission.route;
        let second = part(&rules.route(route).policies, true);
        if second.is_empty() {
            return self.on(admission, exchange.limits(&decision), exchange);
        }
        let peer = PeerView {
            address: client.peer,
            may_forward: client.may_forward,
            identity: client.identity.as_deref(),
        };
        let content = match exchange.values() {
            Content::Unknown if !has_content => Content::Empty,
            content => content,
        };
        let view = match engine::view(head, peer, has_content) {
            Ok(view) => view.authorized().with_values(content),
            Err(failure) => {
                exchange.give_back();
                return Passed::Answered(Err(failure), LimitFields::default());
            }
        };
        let headroom = self.headroom(admission.destination());
        let again = Again { route, has_failed };
        let mut judgement = self.engine.judge_authorized(rules, again, &view, headroom).await;
        // Policies that were not asked are not exempt.
        if judgement.asked == AskedPolicies::All {
            self.metrics.decided(&second, &judgement.decision);
        }
        if !matches!(judgement.decision.outcome, Outcome::Admit) {
            exchange.give_back();
        }
        exchange.judged_again(&mut judgement);
        let decision = decision.joined(judgement.decision.into_owned());
        exchange.judged_by_both(&decision);
        let limits = exchange.limits(&decision);
        if let Some(failure) = exchange.failure_of(&decision.outcome) {
            return Passed::Answered(Err(failure), limits);
        }
        match decision.outcome {
            Outcome::Refuse(retry) => {
                Passed::Refused(Box::new(Refused::new(decision, retry, limits)))
            }
            _ => self.on(admission.admitted_by(&decision), limits, exchange),
        }
    }

    /// An admitted request passes, and what was charged stays charged. If it must wait before, its time
    /// may end meanwhile, and an upstream may have no room for it. Then all is given back.
    fn on(&self, admission: Admission, limits: LimitFields, exchange: &mut Exchange) -> Passed {
        let route = self.snapshot.rules.route(admission.route);
        if admission.delay == Span::ZERO && !route.has_bounded_upstream {
            exchange.stays_charged();
        }
        Passed::On(admission, limits)
    }
}

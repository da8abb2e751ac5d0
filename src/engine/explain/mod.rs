//! Explains what a request would get now, and why. Nothing is counted: the decision is made on
//! copies of the counters, by the code that makes true decisions.

mod access;
mod asked;
mod document;
mod fields;
mod preset;
mod texts;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::ORIGIN;
use http::{HeaderMap, StatusCode};
use tollgate_core::decision::{
    Decision, HeaderWriter, Headroom, Outcome, Peeked, RateLimiter, Report,
};
use tollgate_core::digest::PrincipalId;
use tollgate_core::policy::{AuthRefusal, Denial, MaskedAddress, Policy, Subject};
use tollgate_core::request::{Content, ContentValues, RequestView};
use tollgate_core::routes::{Destination, Mismatch, PassedOver, Route, Rules};
use tollgate_core::time::{Clock, Timestamp};

use self::document::{ClientAddress, KeyText, RouteChoice, UpstreamChoice, earliest};
use super::auth::Authentication;
use super::question::body_values;
use super::view::{PeerView, failure_in, failure_of, view};
use super::{Deciding, Engine, Placed, Undecidable};
use crate::message::Failure;
use crate::patches::Resolved;
use crate::telemetry::source_word;

pub use self::asked::{Asked, Description, DescriptionError};
pub use self::document::{EstimatedTokens, Explanation, ListVerdict, PolicyVerdict, Reason, Wait};
pub use self::fields::Fields;
pub use self::preset::preset;

/// The index of the route that judges a request once more, if this decision of the route with this
/// index overflows.
type OverflowOf<'g> = dyn Fn(usize, &Decision<&Arc<Policy>>) -> Option<usize> + 'g;

/// The configuration by which a request is explained.
pub struct Explaining<'g> {
    /// The routes and policies.
    pub rules: &'g Rules,
    /// Writes the fields about limits.
    pub headers: &'g HeaderWriter,
    /// The policies that were changed at run time.
    pub patches: &'g Resolved,
    /// The headroom of an upstream. None: no gateway runs.
    pub headroom: &'g dyn Fn(Destination) -> Option<Headroom>,
    /// Which route judges a request once more.
    pub overflow: &'g OverflowOf<'g>,
}

impl Engine {
    /// What a request would get now.
    pub async fn explain(&self, with: &Explaining<'_>, asked: &Asked) -> Explanation {
        let Deciding { limiter, auth, .. } = &*self.deciding;
        explain(limiter, Some(auth), &self.clock, with, asked).await
    }
}

/// What a request would get now from `limiter`. `auth` knows the API keys of the store, if a gateway
/// runs.
pub async fn explain(
    limiter: &RateLimiter,
    auth: Option<&Authentication>,
    clock: &Clock,
    with: &Explaining<'_>,
    asked: &Asked,
) -> Explanation {
    let asking = Asking { limiter, auth, with, asked, now: clock.now(), wall: clock.wall() };
    let Judged { explanation: first, overflow } = asking.explain(None).await;
    let Some(later) = overflow else { return first };
    let Judged { mut explanation, .. } = asking.explain(Some(later)).await;
    explanation.warnings.insert(0, texts::overflows(&first, &with.rules.route(later).name));
    let RouteChoice { passed_over, others_passed_over, .. } = first.route;
    explanation.route = RouteChoice { passed_over, others_passed_over, ..explanation.route };
    explanation
}

/// What is asked, and by what it is judged.
struct Asking<'a, 'g> {
    limiter: &'a RateLimiter,
    auth: Option<&'a Authentication>,
    with: &'a Explaining<'g>,
    asked: &'a Asked,
    now: Timestamp,
    wall: Timestamp,
}

/// What one route says of a request.
struct Judged {
    explanation: Explanation,
    /// The route that judges the request once more.
    overflow: Option<usize>,
}

impl From<Explanation> for Judged {
    fn from(explanation: Explanation) -> Self {
        Self { explanation, overflow: None }
    }
}

impl<'g> Asking<'_, 'g> {
    /// What the request would get on its route, or on the route with the index `later`.
    async fn explain(&self, later: Option<usize>) -> Judged {
        let Self { with, asked, wall, .. } = *self;
        let mut explanation = Explanation { at: wall.to_string(), ..Explanation::default() };
        if asked.is_peer_assumed {
            explanation.warnings.push(format!("no peer was given: {} is assumed", asked.peer));
        }
        let request = match asked.view() {
            Ok(request) => request,
            Err(failure) => {
                explanation.client.ip = MaskedAddress(asked.peer).to_string();
                return explanation.failed(failure).into();
            }
        };
        let values = asked.values(with.rules, later, &request);
        let request = with_values(request, values.as_ref());
        match place(with.rules, later, &request, wall) {
            Ok(placed) => self.judge(&placed, explanation).await,
            Err(undecidable) => {
                let subject = with.rules.clients().subject(&request, None, wall);
                explanation.client = client(with.rules, &request, &subject);
                if undecidable == Undecidable::NoRoute {
                    explanation.route = passed_over(with.rules.passed_over(&request, None));
                } else if let Undecidable::Ambiguous(_) = undecidable {
                    explanation.warnings.extend(texts::readings(&request));
                }
                explanation.failed(undecidable.into()).into()
            }
        }
    }

    /// What a request with this route would get.
    async fn judge(&self, placed: &Placed<'g, '_>, mut explanation: Explanation) -> Judged {
        let Self { limiter, auth, with, asked, now, wall } = *self;
        let Placed { request, route: index, ref subject, .. } = *placed;
        let route = with.rules.route(index);
        let is_preflight = is_preflight(route, request);
        if with.rules.asks_for_credentials(index) {
            match auth {
                Some(auth) => auth.look_up_key(subject, now).await,
                None if may_be_in_store(with.rules, subject) => {
                    explanation.warnings.push(texts::KEY_NOT_READ.to_owned());
                }
                None => {}
            }
        }
        if !is_preflight && route.needs_user() && subject.assume_password() {
            explanation.warnings.push(texts::PASSWORD_NOT_CHECKED.to_owned());
        }
        if !is_preflight && route.reads_body && asked.body.is_none() {
            let text =
                "the body is not known: keys in it are missing, and estimates use its length";
            explanation.warnings.push(text.to_owned());
        }
        let found = Found { with, request, subject, index, route, wall, is_preflight };
        found.explain(limiter, now, explanation).await
    }
}

impl Asked {
    /// The view of the request. Nothing is known of its content.
    fn view(&self) -> Result<RequestView<'_>, Failure> {
        let identity = self.identity.as_deref();
        view(&self.head, PeerView { address: self.peer, may_forward: true, identity }, false)
    }

    /// What the policies of its route, or of the route `later`, find in its body.
    fn values(
        &self,
        rules: &Rules,
        later: Option<usize>,
        request: &RequestView<'_>,
    ) -> Option<ContentValues> {
        let route = rules.route(later.or_else(|| rules.select(request).ok())?);
        let body = self.body.as_deref().filter(|_| !is_preflight(route, request))?;
        body_values(&route.policies, request.headers(), body)
    }
}

fn with_values<'q>(request: RequestView<'q>, values: Option<&'q ContentValues>) -> RequestView<'q> {
    match values {
        Some(values) => request.with_values(Content::Read(values)),
        None => request,
    }
}

/// The request on its route, or on the route with the index `later`.
fn place<'r, 'q>(
    rules: &'r Rules,
    later: Option<usize>,
    request: &'q RequestView<'q>,
    wall: Timestamp,
) -> Result<Placed<'r, 'q>, Undecidable> {
    match later {
        Some(later) => Ok(Placed::on(rules, later, request, wall)),
        None => Placed::find(rules, request, wall),
    }
}

/// Whether the gateway answers the request itself. It has no credential and no body then.
fn is_preflight(route: &Route, request: &RequestView<'_>) -> bool {
    route.answers_preflights && request.is_preflight()
}

/// The policies of a route that need no answer of an authorizer.
fn asked_first(route: &Route) -> Cow<'_, [Arc<Policy>]> {
    if !route.has_authorizer {
        return Cow::Borrowed(&route.policies);
    }
    route.policies.iter().filter(|policy| !policy.needs_authorizer()).cloned().collect()
}

/// Whether the store of a gateway may have the key of the request.
fn may_be_in_store(rules: &Rules, subject: &Subject<'_, '_>) -> bool {
    let keys = rules.clients().settings().keys.as_ref();
    keys.is_some_and(|keys| keys.in_store) && subject.sought_elsewhere().is_some()
}

impl Explanation {
    /// The explanation of a request that is refused for another reason than a limit.
    fn failed(self, failure: Failure) -> Self {
        Self {
            decision: "refused".to_owned(),
            reason: failure.reason().to_owned(),
            detail: Some(failure.to_string()),
            status: Some(failure.status().as_u16()),
            ..self
        }
    }
}

/// A request with its route.
struct Found<'a, 'r, 'q> {
    with: &'a Explaining<'r>,
    request: &'a RequestView<'q>,
    subject: &'a Subject<'r, 'q>,
    index: usize,
    route: &'a Route,
    wall: Timestamp,
    is_preflight: bool,
}

impl Found<'_, '_, '_> {
    /// What the request would get from `limiter` at `now`.
    async fn explain(
        &self,
        limiter: &RateLimiter,
        now: Timestamp,
        mut explanation: Explanation,
    ) -> Judged {
        let Self { with, subject, index, route, is_preflight, .. } = *self;
        // A preflight has no credentials.
        let unproved = if is_preflight { None } else { refusal(route, subject) };
        let is_proved = !is_preflight && unproved.is_none();
        let access = access::asked(&route.access, subject, is_proved);
        explanation.access = access::shown(&route.access, access);
        explanation.route = self.route();
        if let Some(denial) = access.denial() {
            return self.denied(denial, explanation).into();
        }
        let choice = route.split.as_deref().map(|split| UpstreamChoice::of(split, subject));
        let branch = choice.as_ref().map_or(0, |(branch, _)| *branch);
        explanation.route.upstream = choice.map(|(_, shown)| shown);
        let headroom = (with.headroom)(Destination { route: index, branch });
        let policies = asked_first(route);
        let peeked = if let Some(refusal) = unproved {
            Peeked::uncounted(Outcome::Unauthenticated(refusal), now)
        } else {
            limiter.peek(&policies, subject, headroom.unwrap_or_default(), now).await
        };
        self.describe(&peeked, &mut explanation);
        explanation.warnings.extend(self.warnings(&peeked, headroom.is_some()));
        let overflow = (with.overflow)(index, &peeked.decision);
        Judged { explanation, overflow }
    }

    fn route(&self) -> RouteChoice {
        let passed = self.with.rules.passed_over(self.request, Some(self.index));
        RouteChoice {
            name: Some(self.route.name.to_string()),
            path: Some(self.route.path.to_string()),
            ..passed_over(passed)
        }
    }

    /// The explanation of a request that an access list denies.
    fn denied(&self, denial: Denial, mut explanation: Explanation) -> Explanation {
        let list = self.route.access.get(usize::from(denial.list));
        explanation.client = client(self.with.rules, self.request, self.subject);
        explanation.binding = list.map(|list| list.name.to_string());
        let outcome: Outcome<&Arc<Policy>> = Outcome::Denied(denial);
        match failure_of(&outcome) {
            Some(failure) => explanation.failed(failure),
            None => explanation,
        }
    }

    /// Fills in all that follows from the decision.
    fn describe(&self, peeked: &Peeked<'_>, explanation: &mut Explanation) {
        let decision = &peeked.decision;
        explanation.client = client(self.with.rules, self.request, self.subject);
        explanation.policies = decision.reports.iter().map(|it| self.verdict(it)).collect();
        explanation.skipped = self.skipped(peeked);
        explanation.headers = self.headers(decision);
        explanation.delay_ms = decision.delay.as_millis_ceil();
        let binding = decision.binding().map(|report| &*report.policy.name);
        explanation.binding = binding.or_else(|| demanding(&decision.outcome)).map(str::to_owned);
        explanation.source = self.source(decision).map(str::to_owned);
        match &decision.outcome {
            Outcome::Admit => {
                explanation.decision = "admitted".to_owned();
                explanation.reason = admitted_because(decision).to_owned();
            }
            Outcome::Refuse(retry) => {
                explanation.decision = "refused".to_owned();
                explanation.reason =
                    decision.binding().map_or("refused", Report::outcome).to_owned();
                explanation.retry_after_ms = Wait::of(*retry);
                let template = decision.binding().and_then(|it| it.policy.response.as_ref());
                let status = template.map_or(StatusCode::TOO_MANY_REQUESTS, |it| it.status);
                explanation.status = Some(status.as_u16());
            }
            Outcome::Unavailable(wait) | Outcome::Unverifiable(_, wait) => {
                explanation.retry_after_ms = Some(Wait::Ms(wait.as_millis_ceil()));
            }
            Outcome::Deny(_)
            | Outcome::Uncountable(..)
            | Outcome::Ambiguous(_)
            | Outcome::Unauthorized(..)
            | Outcome::Unauthenticated(_)
            | Outcome::Denied(_) => {}
        }
        if let Some(failure) = failure_in(&decision.outcome, self.request.values()) {
            *explanation = std::mem::take(explanation).failed(failure);
        }
    }

    fn verdict(&self, report: &Report<&Arc<Policy>>) -> PolicyVerdict {
        let Report { policy, verdict, .. } = report;
        PolicyVerdict {
            name: policy.name.to_string(),
            verdict: report.outcome().to_owned(),
            mode: texts::mode(policy.mode).to_owned(),
            limit: verdict.limit,
            unit: policy.unit().denomination().map(|money| money.to_string()),
            window_s: texts::seconds(report.length),
            limit_from: texts::limit_from(self.subject, self.route, self.with.patches, report),
            key: KeyText {
                from: texts::key_from(self.subject, policy),
                text: self.subject.shown_key(policy),
                id: PrincipalId::from(report.client).to_string(),
            },
            cost: report.cost,
            estimate: self.subject.estimate(policy).map(|it| EstimatedTokens::of(policy, it)),
            used: report.used,
            remaining: verdict.remaining,
            earliest: earliest(verdict.retry, self.wall),
            source: source_word(report.source).to_owned(),
        }
    }

    fn skipped(&self, peeked: &Peeked<'_>) -> Vec<Reason> {
        let skipped = peeked.skipped.iter().map(|(policy, why)| Reason {
            name: policy.name.to_string(),
            because: texts::skipped(self.request, self.subject, policy, *why),
        });
        let lacking = peeked.decision.lacking.iter().map(|policy| Reason {
            name: policy.name.to_string(),
            because: "shadow mode: it would refuse the request, which has no usable key".to_owned(),
        });
        let second = self.route.policies.iter().filter(|policy| policy.needs_authorizer());
        let second = second.map(|policy| Reason {
            name: policy.name.to_string(),
            because: "it needs the answer of the authorizer, which is not asked here".to_owned(),
        });
        skipped.chain(lacking).chain(second).collect()
    }

    /// The fields about limits.
    fn headers(&self, decision: &Decision<&Arc<Policy>>) -> BTreeMap<String, String> {
        let mut fields = HeaderMap::new();
        let is_cross_origin = self.request.headers().contains_key(ORIGIN);
        self.with.headers.write(decision, is_cross_origin, &mut fields);
        let value = |name| {
            let lines = fields.get_all(name).iter();
            lines.filter_map(|it| it.to_str().ok()).collect::<Vec<_>>().join(", ")
        };
        fields.keys().map(|name| (name.to_string(), value(name))).collect()
    }

    /// Where the counters of the decision were read.
    fn source(&self, decision: &Decision<&Arc<Policy>>) -> Option<&'static str> {
        let sources = || decision.reports.iter().map(|report| source_word(report.source));
        let binding = decision.binding().map(|report| source_word(report.source));
        // One counter that the store did not answer for is worth more attention.
        sources().find(|it| *it == "local" || *it == "policy").or(binding).or(sources().next())
    }

    fn warnings(&self, peeked: &Peeked<'_>, is_running: bool) -> Vec<String> {
        let policies = &self.route.policies;
        let mut warnings = texts::warnings(policies, self.request, &peeked.decision, is_running);
        if self.is_preflight {
            warnings.push("the gateway answers this preflight itself, with 204 or 403".to_owned());
        } else if self.route.has_authorizer {
            let text = "an authorizer is asked about such a request, which is not done here";
            warnings.push(text.to_owned());
        }
        warnings
    }
}

/// The policy that demands what the request lacks.
fn demanding<'p>(outcome: &Outcome<&'p Arc<Policy>>) -> Option<&'p str> {
    match outcome {
        Outcome::Deny(policy)
        | Outcome::Uncountable(policy, _)
        | Outcome::Unverifiable(policy, _)
        | Outcome::Ambiguous(policy)
        | Outcome::Unauthorized(policy, _) => Some(&policy.name),
        Outcome::Admit
        | Outcome::Refuse(_)
        | Outcome::Unavailable(_)
        | Outcome::Unauthenticated(_)
        | Outcome::Denied(_) => None,
    }
}

/// Why the request does not pass before its policies are asked. Failures of its address are not
/// counted here.
fn refusal(route: &Route, subject: &Subject<'_, '_>) -> Option<AuthRefusal> {
    if route.auth.is_empty() || subject.is_shadow() {
        return None;
    }
    let fault = subject.authenticate(&route.auth).err()?;
    Some(AuthRefusal { fault, challenges: subject.challenges(&route.auth) })
}

/// The word of the access log for an admitted request.
fn admitted_because(decision: &Decision<&Arc<Policy>>) -> &'static str {
    if !decision.delay.is_zero() {
        return "delayed";
    }
    let outcomes = decision.enforced().map(Report::outcome);
    outcomes.max_by_key(|outcome| *outcome != "admitted").unwrap_or("admitted")
}

fn client(rules: &Rules, request: &RequestView<'_>, subject: &Subject<'_, '_>) -> ClientAddress {
    ClientAddress {
        ip: MaskedAddress(subject.client_ip()).to_string(),
        because: texts::address(rules, request, subject.address_origin()),
        class: subject.class().map(str::to_owned),
        agent: subject.agent().map(str::to_owned),
    }
}

fn passed_over(passed: PassedOver) -> RouteChoice {
    let reason = |(name, mismatch): (String, Mismatch)| Reason { name, because: mismatch.text() };
    RouteChoice {
        passed_over: passed.named.into_iter().map(reason).collect(),
        others_passed_over: passed.others,
        ..RouteChoice::default()
    }
}

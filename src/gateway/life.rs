//! The life of a request, on one screen: see `Gateway::handle`.

use std::future::{Ready, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures_util::future::Either;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use hyper::body::Body as _;
use tollgate_core::decision::{LimitFields, Outcome};
use tollgate_core::request::{Content, RequestView};
use tollgate_core::time::Moment;

use super::authorized::{First, part};
use super::body::ResponseBody;
use super::dispatch::{Admission, Dispatch};
use super::exchange::{Arrival, Exchange};
use super::refusing::Refused;
use super::{Client, Gateway};
use crate::boxed::boxed;
use crate::engine::{self, Again, AskedPolicies, Judgement, PeerView, Placed};
use crate::message::{Failure, recycle};
use crate::server::ClientBody;
use crate::telemetry::RequestTrace;

/// The response to a request, at once or when it is known.
pub type Handling =
    Either<Ready<Response<ResponseBody>>, Pin<Box<dyn Future<Output = Response<ResponseBody>>>>>;

impl Gateway {
    /// The life of a request: give it an id, judge it, refuse or dispatch it, and complete
    /// its response. The exchange adds the fields about limits and makes the record.
    ///
    /// A decision that waits for nothing is made here and not in a future. So a refusal takes no
    /// memory of its own, and an admitted request takes no more than its dispatch needs.
    pub fn handle(self: Rc<Self>, client: Rc<Client>, request: Request<ClientBody>) -> Handling {
        let moment = self.engine.clock().moment();
        let (mut head, body) = request.into_parts();
        let trace = self.trace(&client, &mut head.headers);
        let lines = client.link.as_ref().map(|link| link.lines.clone());
        let arrival = Arrival { peer: client.peer, moment, trace, lines };
        let exchange = Exchange::begin(&self, arrival, &mut head);
        let has_content = !body.is_end_stream();
        if self.engine.judges_at_once(&self.snapshot.rules) {
            // Polled where it is made: another function would copy it.
            let cx = &mut Context::from_waker(Waker::noop());
            let judged =
                pin!(self.judge(&client, &head, has_content, Content::Unread, moment)).poll(cx);
            if let Poll::Ready(mut judged) = judged {
                return self.carry_out(&client, &mut judged, (head, body), exchange);
            }
        }
        Either::Right(boxed(|| async move {
            let mut judged = self.judge(&client, &head, has_content, Content::Unread, moment).await;
            self.carry_out(&client, &mut judged, (head, body), exchange).await
        }))
    }

    /// Carries out what was judged.
    pub fn carry_out(
        self: &Rc<Self>,
        client: &Rc<Client>,
        judged: &mut Result<Judgement<'_>, Failure>,
        (head, body): (Parts, ClientBody),
        mut exchange: Exchange,
    ) -> Handling {
        let answer = |response| Either::Left(ready(response));
        let judgement = match judged {
            Ok(judgement) => judgement,
            Err(failure) => {
                if let Failure::Malformed(malformed) = *failure {
                    self.metrics.malformed(malformed);
                }
                return answer(exchange.end(Err(*failure), LimitFields::default()));
            }
        };
        if judgement.awaits_body {
            let gateway = Rc::clone(self);
            let client = Rc::clone(client);
            let again = Again { route: judgement.route, has_failed: judgement.has_failed };
            return Either::Right(boxed(|| {
                gateway.read_first(again, client, head, body, exchange)
            }));
        }
        self.count(judgement);
        if let Some(route) = self.overflow_of(judgement) {
            exchange.overflows(judgement.route);
            let again = Again { route, has_failed: judgement.has_failed };
            let gateway = Rc::clone(self);
            let client = Rc::clone(client);
            return Either::Right(boxed(|| gateway.overflow(again, client, head, body, exchange)));
        }
        exchange.judged(judgement);
        exchange.allow_origin(&head.headers);
        exchange.negotiate(&head);
        let decision = &judgement.decision;
        let limits = exchange.limits(&judgement.decision);
        if let Some(failure) = exchange.failure_of(&decision.outcome) {
            return answer(exchange.end(Err(failure), limits));
        }
        if let Outcome::Refuse(retry) = decision.outcome {
            if !decision.ban_delay().is_zero() || exchange.needs_message(decision, &body) {
                let refused = Refused::taking(&mut judgement.decision, retry, limits);
                let gateway = Rc::clone(self);
                let client = Rc::clone(client);
                return Either::Right(boxed(|| {
                    gateway.refuse(refused, client, head, body, exchange)
                }));
            }
            recycle(head.headers);
            let refusal = exchange.refusal(decision, retry);
            return answer(exchange.end(Ok(refusal), limits));
        }
        let admission = Admission::of(judgement);
        if let Some(authorizer) = self.snapshot.routes[admission.route].authorizer
            && !admission.is_preflight
        {
            let first = First::of(judgement, admission);
            let gateway = Rc::clone(self);
            let client = Rc::clone(client);
            return Either::Right(boxed(|| {
                gateway.pass_authorizer(authorizer, first, client, head, body, exchange)
            }));
        }
        let dispatch =
            match self.prepare(client, admission, &judgement.credential, head, body, &mut exchange)
            {
                Ok(Dispatch::Respond(response)) if admission.delay.is_zero() => {
                    return answer(exchange.end(Ok(*response), limits));
                }
                Ok(dispatch) => dispatch,
                Err(failure) => return answer(exchange.end(Err(failure), limits)),
            };
        let gateway = Rc::clone(self);
        Either::Right(boxed(|| async move {
            let result = gateway.dispatch(&admission, dispatch, &mut exchange).await;
            exchange.end(result, limits)
        }))
    }

    /// Counts the decision on a request.
    fn count(&self, Judgement { route, decision, asked, access, .. }: &Judgement<'_>) {
        let route = self.snapshot.rules.route(*route);
        self.metrics.accessed(&route.access, *access);
        if *asked == AskedPolicies::All && !route.has_authorizer {
            return self.metrics.decided(&route.policies, decision);
        }
        // Policies that were not asked are not exempt.
        let mut policies = part(&route.policies, false);
        policies.retain(|policy| asked.contain(policy));
        self.metrics.decided(&policies, decision);
    }

    /// The trace of a request with these fields, if there are traces. A proxy that is trusted
    /// decides whether it is sampled.
    fn trace(&self, client: &Client, headers: &mut HeaderMap) -> Option<RequestTrace> {
        Some(self.sinks.tracer.as_ref()?.begin(headers, || self.is_trusted(client)))
    }

    /// Finds the route of a request, and judges the request under its policies. It has
    /// arrived at `moment`. `values` is what is known of its content, if it has any.
    pub async fn judge(
        &self,
        client: &Client,
        head: &Parts,
        has_content: bool,
        values: Content<'_>,
        moment: Moment,
    ) -> Result<Judgement<'_>, Failure> {
        let view = view(client, head, has_content, values)?;
        let rules = &self.snapshot.rules;
        let placed = Placed::find(rules, &view, moment.wall)?;
        let headroom = |destination| self.headroom(destination);
        Ok(self.engine.judge(rules, &placed, moment, headroom, |_| true).await)
    }

    /// The same once more.
    pub async fn judge_on(
        &self,
        again: Again,
        client: &Client,
        head: &Parts,
        has_content: bool,
        values: Content<'_>,
        moment: Moment,
    ) -> Result<Judgement<'_>, Failure> {
        let view = view(client, head, has_content, values)?;
        let rules = &self.snapshot.rules;
        let placed = Placed::again(rules, again, &view, moment.wall);
        let headroom = |destination| self.headroom(destination);
        Ok(self.engine.judge(rules, &placed, moment, headroom, |_| true).await)
    }
}

/// The request as the policies see it.
fn view<'q>(
    client: &'q Client,
    head: &'q Parts,
    has_content: bool,
    values: Content<'q>,
) -> Result<RequestView<'q>, Failure> {
    let peer = PeerView {
        address: client.peer,
        may_forward: client.may_forward,
        identity: client.identity.as_deref(),
    };
    let view = engine::view(head, peer, has_content)?;
    Ok(view.with_values(if has_content { values } else { Content::Empty }))
}

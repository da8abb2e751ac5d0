//! Requests that another proxy forwards, if the policies here admit them.
//!
//! The proxy describes the request of its client, and carries out the answer. The life of the
//! request is that of every other until it is admitted. Then nothing is forwarded, and the end
//! of the response is not known: what was charged stays charged, and policies that need the end
//! take no part.

use std::mem;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use http::header::{CACHE_CONTROL, CONNECTION};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tollgate_core::algorithm::{Algorithm, Retry};
use tollgate_core::decision::{Decision, LimitFields, Outcome};
use tollgate_core::policy::{Count, Policy};
use tollgate_core::time::Moment;

use super::Gateway;
use super::body::ResponseBody;
use super::exchange::{Arrival, Exchange, UNMATCHED};
use super::record::outcome;
use crate::engine::{self, Judgement, PeerView, Placed};
use crate::message::{BadQuestion, Failure, QuestionFault, QuestionParts};

/// One word for the decision, on every answer.
const X_TOLLGATE_OUTCOME: HeaderName = HeaderName::from_static("x-tollgate-outcome");
/// The names of the policies that took no part, if there are any.
const X_TOLLGATE_SKIPPED: HeaderName = HeaderName::from_static("x-tollgate-skipped");
/// The status for the client, where the proxy does not pass on that of the answer.
const X_TOLLGATE_STATUS: HeaderName = HeaderName::from_static("x-tollgate-status");
/// Answers are decisions, and each holds once.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// What is escaped in the name of a policy.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%').add(b',');

/// What another proxy asks about a request of its client.
#[derive(Debug)]
pub struct Question {
    /// The head of the request. If there is a fault, it is that of the question.
    pub head: Parts,
    /// Why the question describes no request.
    pub fault: Option<BadQuestion>,
    /// Where the question describes the request.
    pub parts: QuestionParts,
    /// Whether the request has content, as far as the question tells.
    pub has_content: bool,
    /// The address of the proxy.
    pub asker: IpAddr,
    /// The address from which the proxy has the request. None: the proxy names it in
    /// `X-Forwarded-For`.
    pub client: Option<IpAddr>,
    /// When the decision must be made, because the proxy does not wait longer for it. None: the
    /// proxy names no time.
    pub answer_by: Option<Instant>,
}

/// How the proxy understands answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The status if the request may pass.
    pub admitted: StatusCode,
    /// The status if a limit refuses the request.
    pub refused: StatusCode,
    /// The status if there is no decision, and a policy refuses such requests.
    pub unavailable: StatusCode,
    /// The form of other answers.
    pub form: QuestionForm,
    /// Whether an answer may be held back, as `leaky_bucket` delays a request.
    pub may_hold: bool,
}

/// The answers that a proxy passes on to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionForm {
    /// Every answer that does not admit the request.
    Any,
    /// 401 and 403. It takes other statuses from 300 on for a fault of its own.
    OnlyForbidden,
}

impl Gateway {
    /// The answer to the question of another proxy.
    pub async fn authorize(
        self: &Rc<Self>,
        question: Question,
        answers: &Answers,
    ) -> Response<ResponseBody> {
        let moment = self.engine.clock().moment();
        let Question { mut head, fault, parts, has_content, asker, client, answer_by } = question;
        let Self { snapshot, sinks, metrics, .. } = &**self;
        let clients = snapshot.rules.clients();
        let tracer = sinks.tracer.as_ref();
        let trace = tracer.map(|it| it.begin(&mut head.headers, || clients.trusts(asker)));
        let arrival = Arrival { peer: client.unwrap_or(asker), moment, trace, lines: None };
        let mut exchange = Exchange::begin(self, arrival, &mut head).for_proxy(&head.headers);
        let judged = match fault {
            Some(fault) => Err(fault.into()),
            None => {
                self.judge_for_proxy(&head, asker, client, answer_by, has_content, moment).await
            }
        };
        let mut judgement = match judged {
            Ok(judgement) => judgement,
            Err(Failure::NoRoute) => {
                exchange.set_outcome(UNMATCHED);
                let response = exchange.complete(admission(answers), None, LimitFields::default());
                return answers.marked(response, answers.admitted, UNMATCHED);
            }
            Err(failure) => {
                if let Failure::Malformed(malformed) = failure {
                    metrics.malformed(malformed);
                }
                return answers.failed(exchange, failure.in_question(parts), None);
            }
        };
        let route = snapshot.rules.route(judgement.route);
        let policies = &route.policies;
        metrics.accessed(&route.access, judgement.access);
        let asked = |policy: &Arc<Policy>| is_askable(policy) && judgement.asked.contain(policy);
        match policies.iter().all(asked) {
            true => metrics.decided(policies, &judgement.decision),
            // Policies that were not asked are not exempt.
            false => {
                let policies: Vec<_> = policies.iter().filter(|it| asked(it)).cloned().collect();
                metrics.decided(&policies, &judgement.decision);
            }
        }
        drop(mem::take(&mut judgement.decision.lease));
        exchange.judged(&mut judgement);
        exchange.allow_origin(&head.headers);
        let mut response = self.answer_decision(&judgement.decision, exchange, answers).await;
        let skipped = policies.iter().filter(|policy| !is_askable(policy));
        mark_skipped(skipped, response.headers_mut());
        response
    }

    async fn answer_decision(
        &self,
        decision: &Decision<&Arc<Policy>>,
        exchange: Exchange,
        answers: &Answers,
    ) -> Response<ResponseBody> {
        if let Some(failure) = engine::failure_of(&decision.outcome) {
            return answers.failed(exchange, failure, Some(decision));
        }
        if let Outcome::Refuse(retry) = decision.outcome {
            return answers.refused(exchange, decision, retry);
        }
        if answers.may_hold {
            if let Err(failure) = self.queue.delay(decision.delay).await {
                return answers.failed(exchange, failure, Some(decision));
            }
            exchange.waited().set(decision.delay.into());
        }
        let limits = exchange.limits(decision);
        let response = exchange.complete(admission(answers), None, limits);
        answers.marked(response, answers.admitted, outcome(decision))
    }

    async fn judge_for_proxy(
        &self,
        head: &Parts,
        asker: IpAddr,
        client: Option<IpAddr>,
        answer_by: Option<Instant>,
        has_content: bool,
        moment: Moment,
    ) -> Result<Judgement<'_>, Failure> {
        // The certificate on the connection is that of the proxy, and not of its client.
        let address = client.unwrap_or(asker);
        let peer = PeerView { address, may_forward: true, identity: None };
        let view = engine::view(head, peer, has_content)?.with_answer_by(answer_by);
        let view = if client.is_none() { view.asked_by_peer() } else { view };
        let headroom = |destination| self.headroom(destination);
        let rules = &self.snapshot.rules;
        let placed = Placed::find(rules, &view, moment.wall)?;
        Ok(self.engine.judge(rules, &placed, moment, headroom, is_askable).await)
    }
}

impl Answers {
    /// The answer that no limit has decided.
    fn failed(
        &self,
        exchange: Exchange,
        failure: Failure,
        decision: Option<&Decision<&Arc<Policy>>>,
    ) -> Response<ResponseBody> {
        let limits = decision.map(|decision| exchange.limits(decision)).unwrap_or_default();
        let status = match failure.status() {
            StatusCode::SERVICE_UNAVAILABLE => self.unavailable,
            status => status,
        };
        let mut response = exchange.failure(failure);
        *response.status_mut() = if is_of_proxy(failure) { status } else { self.carrying(status) };
        let mut response = exchange.complete(response, Some(failure), limits);
        // Only the request is faulty. The connection is that of the proxy, and stays.
        response.headers_mut().remove(CONNECTION);
        self.marked(response, status, failure.reason())
    }

    /// The answer that a limit has decided.
    fn refused(
        &self,
        exchange: Exchange,
        decision: &Decision<&Arc<Policy>>,
        retry: Retry,
    ) -> Response<ResponseBody> {
        let limits = exchange.limits(decision);
        let mut response = exchange.refusal(decision, retry);
        // A policy may configure a status by which the proxy would let the request pass.
        *response.status_mut() = self.carrying(self.refused);
        let response = exchange.complete(response, None, limits);
        self.marked(response, self.refused, outcome(decision))
    }

    /// The status by which the proxy refuses a request whose client should get `status`.
    const fn carrying(&self, status: StatusCode) -> StatusCode {
        match (self.form, status.as_u16()) {
            (QuestionForm::Any, _) | (_, 401 | 500..) => status,
            (QuestionForm::OnlyForbidden, _) => StatusCode::FORBIDDEN,
        }
    }

    /// The answer with the fields of all answers. `status` is that for the client.
    fn marked(
        &self,
        mut response: Response<ResponseBody>,
        status: StatusCode,
        outcome: &'static str,
    ) -> Response<ResponseBody> {
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, NO_STORE);
        headers.insert(X_TOLLGATE_OUTCOME, HeaderValue::from_static(outcome));
        if self.form == QuestionForm::OnlyForbidden {
            headers.insert(X_TOLLGATE_STATUS, status.as_u16().into());
        }
        response
    }
}

/// Whether the question of a proxy can be decided by this policy: it must not need the end of
/// the response, nor an authorizer.
pub fn is_askable(policy: &Policy) -> bool {
    policy.count == Count::All
        && !matches!(policy.algorithm, Algorithm::Concurrency(_))
        && !policy.needs_authorizer()
}

/// Whether the proxy has caused the failure, and not its client. It must not seem to be a
/// refusal.
const fn is_of_proxy(failure: Failure) -> bool {
    matches!(
        failure,
        Failure::Question(BadQuestion {
            fault: QuestionFault::Missing | QuestionFault::Repeated | QuestionFault::NoAddress,
            ..
        })
    )
}

fn admission(answers: &Answers) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::local(bytes::Bytes::new()));
    *response.status_mut() = answers.admitted;
    response
}

fn mark_skipped<'p>(policies: impl Iterator<Item = &'p Arc<Policy>>, headers: &mut HeaderMap) {
    let names = policies.map(|policy| utf8_percent_encode(&policy.name, ESCAPED).to_string());
    let names = names.collect::<Vec<_>>().join(", ");
    if let Some(value) = HeaderValue::from_str(&names).ok().filter(|value| !value.is_empty()) {
        headers.insert(X_TOLLGATE_SKIPPED, value);
    }
}

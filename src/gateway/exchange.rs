//! What is remembered of a request until it has a response, and how that response is
//! completed.

use std::borrow::Borrow;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ORIGIN, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::Body as _;
use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::algorithm::Retry;
use tollgate_core::decision::{ApiFields, Decision, LimitFields, Outcome, OwnedDecision};
use tollgate_core::meter::{Replacement, RpcMessage};
use tollgate_core::policy::{BodyContent, Policy, Unit};
use tollgate_core::refusal::ErrorFormat;
use tollgate_core::request::{Content, Fields};
use tollgate_core::time::{Moment, Span};

use super::Gateway;
use super::additions::{Additions, Asked};
use super::body::ResponseBody;
use super::closing::Closing;
use super::completing::{add_fields, add_origins, edit_response, record_response};
use super::negotiated::Negotiated;
use super::record::{
    record_binding, record_decision, record_route, record_second_decision, record_settlement,
};
use super::withholding::withholds;
use crate::engine::{self, Judgement, Settlement};

use crate::message::{
    Cors, Failure, Refusal, add_challenges, failure_response, refusal_response, request_id,
};
use crate::proxy::RequestBody;
use crate::server::{ClientBody, HeadLines};
use crate::snapshot::Handling;
use crate::telemetry::{Attempts, Measurement, Name, Record, Recording, RequestTrace};

/// Asks a client to sign its requests (RFC 9421, section 5.1).
const ACCEPT_SIGNATURE: HeaderName = HeaderName::from_static("accept-signature");

/// The outcome of a request that passes because no route matches it.
pub const UNMATCHED: &str = "unmatched";

/// What is known of a request besides its head when it arrives.
#[derive(Debug)]
pub struct Arrival {
    pub peer: IpAddr,
    /// When it arrives.
    pub moment: Moment,
    /// Its trace, if there are traces.
    pub trace: Option<RequestTrace>,
    /// Where lines are added to the head of its response, if nothing reads the response before it
    /// is written.
    pub lines: Option<HeadLines>,
}

/// What is remembered of a request until it has a response.
#[derive(Debug)]
pub struct Exchange {
    /// The gateway with which it began.
    gateway: Rc<Gateway>,
    request_id: HeaderValue,
    lines: Option<HeadLines>,
    error_format: ErrorFormat,
    /// Whether a script of another origin has sent it.
    is_cross_origin: bool,
    /// The index of its route, when that is known.
    route: Option<usize>,
    /// How its response may be compressed, if its route compresses some.
    negotiated: Option<Box<Negotiated>>,
    /// What few responses need. Boxed for that reason.
    additions: Option<Box<Additions>>,
    /// What is measured of it.
    measurement: Measurement,
    /// Its record, and what must be settled when the response has ended.
    closing: Closing,
}

impl Exchange {
    /// Gives an id to a request whose head has just arrived.
    pub fn begin(gateway: &Rc<Gateway>, arrival: Arrival, head: &mut Parts) -> Self {
        let Gateway { snapshot, sinks, metrics, .. } = &**gateway;
        let Arrival { peer, moment, trace, lines } = arrival;
        let measurement = metrics.begin(&head.method, moment.monotonic);
        let fields = Fields::of(&head.headers);
        let error_format = ErrorFormat::choose(snapshot.offer, &head.method, fields);
        let is_cross_origin = fields.has(&ORIGIN);
        let request_id = request_id(fields).write(&mut head.headers);
        let recording = sinks.want(trace.as_ref()).then(|| {
            let mut record =
                Record::new(head, peer, moment.wall, moment.monotonic, request_id.clone());
            record.trace = trace;
            Recording::new(record, sinks)
        });
        Self {
            error_format,
            is_cross_origin,
            route: None,
            negotiated: None,
            additions: None,
            measurement,
            closing: Closing { settlement: None, recording },
            request_id,
            lines,
            gateway: Rc::clone(gateway),
        }
    }

    /// The same for a request that another proxy forwards. The proxy reads statuses of HTTP,
    /// also if the request is a gRPC call.
    pub fn for_proxy(mut self, headers: &HeaderMap) -> Self {
        self.error_format = ErrorFormat::of_http(self.gateway.snapshot.offer, Fields::of(headers));
        self
    }

    /// Remembers what has become of the request, in one word.
    pub fn set_outcome(&mut self, outcome: &'static str) {
        if let Some(recording) = &mut self.closing.recording {
            recording.record.outcome = outcome;
        }
    }

    /// Remembers the decision of the policies that need the answer of the authorizer.
    pub fn judged_again(&mut self, judgement: &mut Judgement<'_>) {
        let lease = std::mem::take(&mut judgement.decision.lease);
        let later = Settlement::new(&self.gateway.engine, lease);
        self.closing.settlement = match self.closing.settlement.take() {
            Some(first) => Some(first.followed_by(later)),
            None => later,
        };
        if let Some(recording) = &mut self.closing.recording {
            let route = self.gateway.snapshot.rules.route(judgement.route);
            record_second_decision(&mut recording.record, route, judgement);
        }
    }

    /// Remembers the decision that two decisions make together.
    pub fn judged_by_both(&mut self, decision: &OwnedDecision) {
        if let Some(recording) = &mut self.closing.recording {
            record_binding(&mut recording.record, decision);
        }
    }

    /// Gives back what was charged, because the request is not processed.
    pub fn give_back(&mut self) {
        let Some(settlement) = self.closing.settlement.take() else { return };
        let settled = settlement.give_back();
        if let Some(recording) = &mut self.closing.recording {
            record_settlement(&mut recording.record, &settled);
        }
    }

    /// What was charged stays charged, as far as the end of the response does not determine it.
    pub fn stays_charged(&mut self) {
        let settlement = self.closing.settlement.take();
        self.closing.settlement = settlement.and_then(Settlement::closing_known);
    }

    /// Remembers its route, which is known before it is judged.
    pub fn selected(&mut self, route: usize) {
        self.route = Some(route);
        self.take_form();
        self.measurement.set_route(route);
        if let Some(recording) = &mut self.closing.recording {
            record_route(&mut recording.record, self.gateway.snapshot.rules.route(route));
        }
    }

    /// The index of its route, if that is known and not hidden.
    pub const fn route(&self) -> Option<usize> {
        self.route
    }

    /// Remembers what is in the body of the request.
    pub fn has_read(&mut self, content: BodyContent) {
        self.additions.get_or_insert_default().content = Some(content);
    }

    fn content(&self) -> Option<&BodyContent> {
        self.additions.as_ref()?.content.as_ref()
    }

    /// What must be written into the body of the request so that the answer states its tokens. None:
    /// no policy that counts the request wants that, or nothing must be written.
    pub fn usage_to_ask(&self) -> Option<Replacement> {
        let replacement = self.content()?.ask_usage.clone()?;
        self.closing.settlement.as_deref()?.asks_usage().then_some(replacement)
    }

    /// Remembers that the body of the request was changed so.
    pub fn has_asked(&mut self, asked: Asked) {
        self.additions.get_or_insert_default().asked = Some(asked);
    }

    /// What was done to the body of the request so that the answer states its tokens.
    fn asked(&self) -> Option<Asked> {
        self.additions.as_ref()?.asked
    }

    /// The message of JSON-RPC in the body of the request, if it was read.
    fn message(&self) -> Option<&RpcMessage> {
        self.content()?.message.as_ref()
    }

    /// Whether the response to this request, which is refused, depends on a message that was not
    /// read yet.
    pub fn needs_message<P: Borrow<Arc<Policy>>>(
        &self,
        decision: &Decision<P>,
        body: &ClientBody,
    ) -> bool {
        let ErrorFormat::Api(form) = self.error_format else { return false };
        let has_template =
            decision.binding().is_some_and(|report| report.policy.borrow().response.is_some());
        form.needs_message() && self.content().is_none() && !has_template && !body.is_end_stream()
    }

    /// What is known of the content of the request, if policies were not judged before it was read.
    pub fn values(&self) -> Content<'_> {
        self.content().map_or(Content::Unknown, |content| Content::Read(&content.values))
    }

    /// The failure of a request that is neither admitted nor refused by a limit.
    pub fn failure_of<P: Borrow<Arc<Policy>>>(&self, outcome: &Outcome<P>) -> Option<Failure> {
        engine::failure_in(outcome, self.values())
    }

    /// Cookies for the client, besides those of the response.
    pub fn set_cookies(&mut self, cookies: &[HeaderValue]) {
        if !cookies.is_empty() {
            self.additions.get_or_insert_default().cookies.extend_from_slice(cookies);
        }
    }

    /// Remembers by when the response must come.
    pub fn end_by(&mut self, deadline: Option<Instant>) {
        if deadline.is_some() {
            self.additions.get_or_insert_default().deadline = deadline;
        }
    }

    /// By when the response must come. None: its time begins when the request is dispatched.
    pub fn deadline(&self) -> Option<Instant> {
        self.additions.as_ref()?.deadline
    }

    /// Remembers the decision of the limiter.
    pub fn judged(&mut self, judgement: &mut Judgement<'_>) {
        // The response of a hidden route is that of a missing one, without the edits of the route.
        self.route = (!judgement.hides_route()).then_some(judgement.route);
        self.take_form();
        self.measurement.set_route(judgement.route);
        self.closing.settlement =
            Settlement::new(&self.gateway.engine, std::mem::take(&mut judgement.decision.lease));
        if let Some(recording) = &mut self.closing.recording {
            let route = self.gateway.snapshot.rules.route(judgement.route);
            record_decision(&mut recording.record, route, judgement);
        }
    }

    /// The responses of the gateway itself have the form that the route configures, unless the
    /// request is a call of gRPC.
    fn take_form(&mut self) {
        let refusals = self.handling().and_then(|handling| handling.refusals.as_ref());
        if let Some(form) = refusals.and_then(|refusals| refusals.form)
            && self.error_format != ErrorFormat::Grpc
        {
            self.error_format = ErrorFormat::Api(form);
        }
    }

    /// Remembers that the limits of the route with this index hand it to another route.
    pub fn overflows(&mut self, route: usize) {
        if let Some(recording) = &mut self.closing.recording {
            let route = self.gateway.snapshot.rules.route(route);
            recording.record.overflow = Some(Name::from(&*route.name));
        }
    }

    /// Remembers whether its route allows it to scripts of its origin. These are its fields.
    pub fn allow_origin(&mut self, headers: &HeaderMap) {
        if let Some(cors) = self.cors() {
            let allowed = cors.allowed_origin(headers);
            if allowed.is_some() {
                self.is_cross_origin = true;
                self.additions.get_or_insert_default().allowed_origin = allowed;
            }
        }
    }

    /// How the requests of its route are handled, if it is known.
    fn handling(&self) -> Option<&Handling> {
        Some(&self.gateway.snapshot.routes[self.route?])
    }

    /// What its route answers to scripts of other origins.
    fn cors(&self) -> Option<&Cors> {
        self.handling()?.cors.as_deref()
    }

    /// Negotiates the encoding of the response, if its route compresses some.
    pub fn negotiate(&mut self, head: &Parts) {
        let Some(route) = self.route else { return };
        if let Some(settings) = &self.gateway.snapshot.routes[route].compress {
            let negotiated = Negotiated::of(settings, &head.method, &head.headers);
            self.negotiated = Some(Box::new(negotiated));
        }
    }

    /// Prepares its settlement for a response of an upstream. This is the request for it.
    pub fn settles_after(&mut self, headers: &mut HeaderMap, body: &RequestBody) {
        let added = self.asked().map_or(0, |asked| asked.added);
        if let Some(settlement) = &mut self.closing.settlement {
            let progress = body.progress();
            let received = progress.map(|progress| {
                let bytes = move || progress.bytes().saturating_add_signed(-added);
                Rc::new(bytes) as Rc<dyn Fn() -> u64>
            });
            settlement.forwarded(headers, received);
        }
    }

    /// Remembers that the request is forwarded to an upstream now.
    pub fn forwarding(&mut self) {
        if let Some(recording) = &mut self.closing.recording {
            recording.record.forwarded();
        }
    }

    /// Where the time is added for which an upstream or a delay makes the request wait.
    pub const fn waited(&self) -> &Cell<Duration> {
        self.measurement.waited()
    }

    /// The request waits for this time.
    pub fn waits(&self, time: Span) {
        let waited = self.waited();
        waited.set(waited.get() + Duration::from(time));
    }

    /// The attempts at endpoints, if they are recorded.
    pub fn attempts(&self) -> Option<&Attempts> {
        self.closing.recording.as_ref().map(|recording| &recording.record.attempts)
    }

    /// Where its attempts that may still be processed are counted, if that determines its cost.
    pub fn unanswered(&self) -> Option<&Cell<u32>> {
        self.closing.settlement.as_deref().map(Settlement::unanswered)
    }

    /// The response to a request that exceeds a limit.
    pub fn refusal<P: Borrow<Arc<Policy>>>(
        &self,
        decision: &Decision<P>,
        retry: Retry,
    ) -> Response<ResponseBody> {
        let binding = decision.binding();
        let mut names: SmallVec<[&str; 4]> =
            decision.violated().map(|policy| &*policy.name).collect();
        // The binding policy comes first. The sort is stable: the others keep their order.
        names.sort_by_key(|name| {
            binding.is_none_or(|report| *report.policy.borrow().name != **name)
        });
        let refusal = Refusal {
            policies: &names,
            limit: binding.map_or(0, |report| report.verdict.limit),
            remaining: binding.map_or(0, |report| report.verdict.remaining),
            unit: binding.map_or(Unit::Requests, |report| report.policy.borrow().unit()),
            wait: match retry {
                Retry::After(wait) => Some(wait),
                Retry::Now | Retry::Never => None,
            },
            message: self.message(),
            template: binding.and_then(|report| report.policy.borrow().response.as_ref()),
        };
        let mut response = refusal_response(self.error_format, &refusal, &self.request_id);
        let refusals = self.handling().and_then(|handling| handling.refusals.as_ref());
        // A status of 200 is that of the form, which has it where it can.
        if let Some(status) = refusals.and_then(|it| it.status).filter(|it| *it != StatusCode::OK)
            && refusal.template.is_none()
            && self.error_format != ErrorFormat::Grpc
        {
            *response.status_mut() = status;
        }
        self.invite(response.headers_mut());
        response.map(ResponseBody::local)
    }

    /// Asks the client to sign its requests, if the configuration says so.
    fn invite(&self, headers: &mut HeaderMap) {
        let agents = self.gateway.snapshot.rules.clients().settings().agents.as_ref();
        if let Some(invitation) = agents.and_then(|agents| agents.invitation()) {
            headers.insert(ACCEPT_SIGNATURE, HeaderValue::from_static(invitation));
        }
    }

    /// The response to a request that failed.
    pub fn failure(&self, failure: Failure) -> Response<ResponseBody> {
        let mut response =
            failure_response(self.error_format, failure, self.message(), &self.request_id);
        if let Failure::Unauthenticated(refusal) = &failure {
            let passwords = self.gateway.snapshot.rules.clients().settings().passwords();
            let basic = passwords.map(|passwords| &passwords.challenge);
            add_challenges(refusal, basic, response.headers_mut());
        }
        response.map(ResponseBody::local)
    }

    /// The fields about limits for its response.
    pub fn limits<P: Borrow<Arc<Policy>>>(&self, decision: &Decision<P>) -> LimitFields {
        let limits = self.gateway.snapshot.headers.fields(decision, self.is_cross_origin);
        let refusals = self.handling().and_then(|handling| handling.refusals.as_ref());
        match refusals.and_then(|refusals| refusals.fields) {
            None => limits,
            Some(api) => {
                let wall = self.gateway.engine.clock().wall();
                limits.with_api(ApiFields::of(api, decision, wall))
            }
        }
    }

    /// The response for the client, with these fields about limits: a failure becomes a
    /// response, and is [completed](Self::complete).
    pub fn end(
        self,
        result: Result<Response<ResponseBody>, Failure>,
        limits: LimitFields,
    ) -> Response<ResponseBody> {
        let failure = result.as_ref().err().copied();
        let response = result.unwrap_or_else(|failure| self.failure(failure));
        self.complete(response, failure, limits)
    }

    /// Completes a response, which reports `failure` if there is one: fields are added, and
    /// the record and the settlement are attached to the body.
    pub fn complete(
        mut self,
        mut response: Response<ResponseBody>,
        failure: Option<Failure>,
        limits: LimitFields,
    ) -> Response<ResponseBody> {
        let took = match failure {
            Some(Failure::RequestTimeout) => {
                let reason = Failure::RequestTimeout.reason();
                self.measurement.timed_out(response.status(), reason)
            }
            other => self.measurement.answered(response.status(), other.map(Failure::reason)),
        };
        match &mut self.closing.settlement {
            Some(settlement) if failure.is_some() => settlement.failed(&response),
            Some(settlement) => settlement.answered(&response),
            None => {}
        }
        if self.asked().is_some()
            && !response.body().is_local()
            && withholds(response.headers_mut())
        {
            response.body_mut().withhold_usage();
        }
        if let Some(recording) = &mut self.closing.recording {
            record_response(&mut recording.record, failure, took, &mut response);
        }
        let is_local = response.body().is_local();
        let headers = response.headers_mut();
        edit_response(&self.gateway.snapshot, self.route, is_local, headers);
        if let Some(negotiated) = &self.negotiated {
            negotiated.apply(&self.gateway.compressing, &mut response);
        }
        let headers = response.headers_mut();
        let mut allowed = None;
        if let Some(additions) = self.additions.take() {
            let Additions { allowed_origin, cookies, .. } = *additions;
            for cookie in cookies {
                headers.append(SET_COOKIE, cookie);
            }
            allowed = allowed_origin.filter(|_| failure != Some(Failure::PreflightDenied));
        }
        let limits = match self.cors() {
            None => limits,
            Some(cors) => {
                if !is_local {
                    Cors::remove_others(headers);
                }
                let writer = &self.gateway.snapshot.headers;
                add_origins(cors, allowed, writer.exposes(), limits, headers)
            }
        };
        add_fields(&self.request_id, limits, self.lines.as_ref(), headers);
        response.map(|body| body.followed_by(self.measurement, self.closing))
    }
}

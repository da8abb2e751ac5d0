//! The record of a request: what is known of it, independent of where it is written.
//!
//! A worker's [`Sinks`](super::Sinks) read records. A request without a reader has no
//! record, and needs no memory for one. What a record shows to its readers contains no
//! keys, no queries and no values of path parameters.

use std::cell::{Cell, Ref, RefCell};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use compact_str::CompactString;
use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Method, StatusCode, Uri, Version};
use smallvec::SmallVec;

use tollgate_core::api_keys::KeyId;
use tollgate_core::digest::Principal;
use tollgate_core::meter::{Unsettled, Usage};
use tollgate_core::price::Money;
use tollgate_core::store::Source;
use tollgate_core::time::{Span, Timestamp, monotonic};

use super::trace_context::{RequestTrace, TRACE_DIGITS, TraceId};

/// The failure of a request whose client left before the response had ended.
pub const CLIENT_CLOSED: &str = "client_closed";

/// What is known of one request.
#[derive(Clone, Debug)]
pub struct Record {
    /// When its head had arrived, by the wall clock.
    pub time: Timestamp,
    /// The same by the monotonic clock.
    pub started: Instant,
    /// Its id.
    pub request_id: HeaderValue,
    /// The address of its client.
    pub client: IpAddr,
    /// The version of HTTP in which it came.
    pub version: Version,
    /// Its method.
    pub method: Method,
    /// Its target, which contains the query; see [`Self::path`].
    target: Uri,
    /// Its `Host`, if the target names none.
    host: Option<HeaderValue>,
    /// The digits of the id of the trace that its `traceparent` names.
    trace_id: Option<[u8; TRACE_DIGITS]>,
    /// Its trace, if there are traces.
    pub trace: Option<RequestTrace>,
    /// The pattern of its route's path, if its spans are exported.
    pub pattern: Option<Box<str>>,
    /// Its path, if values of path parameters were removed from it.
    pub masked_path: Option<Box<str>>,
    /// The name of its route, if one matched.
    pub route: Option<Name>,
    /// One entry for each policy that was applied, in the order of the route.
    pub policies: SmallVec<[PolicyRecord; 1]>,
    /// The decision of the limiter, or the failure that followed it.
    pub outcome: &'static str,
    /// The decision of the limiter, whatever followed it.
    pub decision: Option<&'static str>,
    /// Why the response is not the one that was asked for, if the gateway, its upstream or the
    /// client has failed. A response that an upstream gave is no failure.
    pub failure: Option<&'static str>,
    /// Whether the response has ended before its end.
    pub is_broken: bool,
    /// The method by which it has passed, or why it would not pass in enforcing mode.
    pub auth: Option<&'static str>,
    /// The id of its API key.
    pub key_id: Option<KeyId>,
    /// The team of its API key.
    pub team: Option<Name>,
    /// The class of its client.
    pub class: Option<Name>,
    /// The agent that has signed it.
    pub agent: Option<Name>,
    /// Whether the limiter refused it.
    pub is_refused: bool,
    /// The access list that denied it.
    pub denied_by: Option<Name>,
    /// The first access list in shadow mode that would have denied it.
    pub shadow_denied_by: Option<Name>,
    /// When it was decided, by the clock of decisions.
    pub decided: Option<Timestamp>,
    /// How long the decision took, if a server was asked, in microseconds.
    pub store_us: Option<u64>,
    /// When units in flight were released and costs were settled, by the clock of decisions.
    pub settled: Option<Timestamp>,
    /// The model that the request names: at most 64 characters of it.
    pub model: Option<Box<str>>,
    /// The tokens that the answer of a language model states.
    pub usage: Option<Usage>,
    /// What it has cost, if a policy counts money.
    pub spent: Option<Money>,
    /// Why the response has not settled its cost under a policy.
    pub unsettled: Option<Unsettled>,
    /// The route that has handed it to its own route, because its limits refused it.
    pub overflow: Option<Name>,
    /// How long its client was told to wait.
    pub wait: Option<Span>,
    /// The attempts to reach an endpoint of the upstream.
    pub attempts: Attempts,
    /// From its head to the head of the upstream's response, in microseconds.
    pub upstream_us: Option<u64>,
    /// The status of the response; none if the client left before there was one.
    pub status: Option<StatusCode>,
    /// Bytes of the response's body that were sent.
    pub bytes: u64,
    /// Bytes that a WebSocket has sent to the client instead of a body.
    pub tunnel: Option<TunnelBytes>,
    /// From its head to the end of the response, in microseconds. 0 until then.
    pub duration_us: u64,
}

/// The result of one policy.
#[derive(Clone, Debug)]
pub struct PolicyRecord {
    /// The policy's name.
    pub name: Name,
    /// The client that is counted; none if the request has no key.
    pub client: Option<Principal>,
    /// The units that the request costs.
    pub cost: Option<u64>,
    /// The units that it has cost in the end, if this depends on the response.
    pub settled: Option<u64>,
    /// The plan whose limit held; none for the policy's own.
    pub plan: Option<Name>,
    /// The limit of this client alone with its window, if it has one.
    pub own_limit: Option<(u64, Span)>,
    /// Whether it is beyond the limit, and admitted because the upstream has room.
    pub is_elastic: bool,
    /// Whether it counts as a preflight, under a limit of its own.
    pub is_preflight: bool,
    /// Where the counter was.
    pub source: Option<&'static str>,
    /// The units that remain; none if the policy had no key to count under.
    pub remaining: Option<u64>,
    /// Whether the client is told the numbers of this policy.
    pub is_binding: bool,
    /// Whether it would have refused the request if it were not in shadow mode.
    pub is_shadow_refused: bool,
}

/// The name of a route or a policy. It is copied because a shared reference count would
/// be a cache line that all workers write. Names up to 24 bytes need no allocation.
pub type Name = CompactString;

/// The attempts to reach an endpoint.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    count: Cell<u32>,
    queued_us: Cell<u64>,
    upstream: RefCell<Option<Name>>,
    endpoint: RefCell<Option<Name>>,
}

impl Attempts {
    /// Counts an attempt at the endpoint with this address, which is one of the upstream with this
    /// name.
    pub fn add(&self, upstream: &str, endpoint: &str) {
        self.count.set(self.count.get().saturating_add(1));
        self.upstream.replace(Some(upstream.into()));
        self.endpoint.replace(Some(endpoint.into()));
    }

    /// The request has waited for a connection.
    pub fn queued(&self, waited: Duration) {
        let waited_us = Span::from(waited).as_micros();
        self.queued_us.set(self.queued_us.get().saturating_add(waited_us));
    }

    /// How long it has waited for connections, if it has waited.
    pub fn queued_us(&self) -> Option<u64> {
        Some(self.queued_us.get()).filter(|us| *us > 0)
    }

    /// How many there were, if there was one.
    pub fn count(&self) -> Option<u64> {
        (self.count.get() > 0).then(|| self.count.get().into())
    }

    /// The name of the last one's upstream.
    pub fn upstream(&self) -> Option<Ref<'_, Name>> {
        Ref::filter_map(self.upstream.borrow(), Option::as_ref).ok()
    }

    /// The address of the last one's endpoint.
    pub fn endpoint(&self) -> Option<Ref<'_, Name>> {
        Ref::filter_map(self.endpoint.borrow(), Option::as_ref).ok()
    }
}

/// Counts the bytes that a WebSocket sends to its client. It is an extension of the
/// response that opens the WebSocket: the tunnel adds to it, and the record reads it.
#[derive(Clone, Debug, Default)]
pub struct TunnelBytes(Arc<AtomicU64>);

impl TunnelBytes {
    /// Adds bytes that were sent.
    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes.try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// All bytes until now.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Record {
    /// A record of the request with this head, which arrived at this time by both clocks. It
    /// is boxed because it is large and moves with its request.
    pub fn new(
        head: &Parts,
        client: IpAddr,
        time: Timestamp,
        started: Instant,
        request_id: HeaderValue,
    ) -> Box<Self> {
        Box::new(Self {
            time,
            started,
            request_id,
            client,
            version: head.version,
            method: head.method.clone(),
            target: head.uri.clone(),
            host: head.headers.get(HOST).filter(|_| head.uri.authority().is_none()).cloned(),
            trace_id: TraceId::of(&head.headers).map(TraceId::digits),
            trace: None,
            pattern: None,
            masked_path: None,
            route: None,
            policies: SmallVec::new(),
            outcome: "unknown",
            decision: None,
            failure: None,
            is_broken: false,
            auth: None,
            key_id: None,
            team: None,
            class: None,
            agent: None,
            is_refused: false,
            denied_by: None,
            shadow_denied_by: None,
            wait: None,
            attempts: Attempts::default(),
            decided: None,
            store_us: None,
            settled: None,
            model: None,
            usage: None,
            spent: None,
            unsettled: None,
            overflow: None,
            upstream_us: None,
            status: None,
            bytes: 0,
            tunnel: None,
            duration_us: 0,
        })
    }

    /// Its path, without the query and without the values of path parameters.
    pub fn path(&self) -> &str {
        self.masked_path.as_deref().unwrap_or(self.target.path())
    }

    /// Its host, with the port if the client has named one. A name and a password before it
    /// are not shown.
    pub fn host(&self) -> Option<&str> {
        let host = || self.host.as_ref()?.to_str().ok();
        let whole = self.target.authority().map(Authority::as_str).or_else(host)?;
        Some(whole.rsplit_once('@').map_or(whole, |(_, host)| host))
    }

    /// The id of the trace that its client has named, in hexadecimal digits.
    pub fn trace_id(&self) -> Option<&str> {
        str::from_utf8(self.trace_id.as_ref()?).ok()
    }

    /// When it was decided, by the clock of decisions. Without a decision: when its head had
    /// arrived.
    pub fn decided(&self) -> Timestamp {
        self.decided.unwrap_or(self.time)
    }

    /// The time since its head had arrived, in microseconds.
    pub fn elapsed_us(&self) -> u64 {
        Span::from(monotonic().duration_since(self.started)).as_micros()
    }

    /// The request has been decided, on a route with paths of this pattern.
    pub fn decided_for(&mut self, pattern: impl fmt::Display) {
        let decided_us = self.trace.is_some().then(|| self.elapsed_us());
        if let Some(trace) = self.trace.as_mut().filter(|trace| trace.is_sampled) {
            trace.decided_us = decided_us;
            self.pattern = Some(pattern.to_string().into());
        }
    }

    /// The request is forwarded to an upstream.
    pub fn forwarded(&mut self) {
        let forwarded_us = self.trace.is_some().then(|| self.elapsed_us());
        if let Some(trace) = &mut self.trace {
            trace.forwarded_us = forwarded_us;
        }
    }

    /// The limiter has decided.
    pub const fn set_decision(&mut self, decision: &'static str) {
        self.outcome = decision;
        self.decision = Some(decision);
    }

    /// The request has failed for this reason.
    pub const fn failed(&mut self, reason: &'static str) {
        self.outcome = reason;
        self.failure = Some(reason);
    }

    /// The client has left before the end of the response. It knows the decision, which remains
    /// the outcome.
    pub const fn left(&mut self) {
        self.failure = Some(CLIENT_CLOSED);
        self.is_broken = true;
    }

    /// Completes the record when the request has ended.
    pub fn finish(&mut self) {
        self.duration_us = self.elapsed_us();
        self.bytes += self.tunnel.as_ref().map_or(0, TunnelBytes::bytes);
        if self.status.is_none() {
            // No decision has reached the client.
            self.failed(CLIENT_CLOSED);
        }
    }
}

/// One word for the place of a counter.
pub const fn source_word(source: Source) -> &'static str {
    match source {
        Source::Store => "store",
        Source::Local => "local",
        Source::Policy => "policy",
        Source::Unasked => "unasked",
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn record() -> Record {
        let request = Request::builder().uri("/t/secret?token=secret").body(()).expect("a request");
        let (head, ()) = request.into_parts();
        let client = IpAddr::from([203, 0, 113, 9]);
        let id = HeaderValue::from_static("id-1");
        *Record::new(&head, client, Timestamp::from_micros(7), monotonic(), id)
    }

    #[test]
    fn a_host_has_no_name_and_no_password() {
        let host = |uri: &str, field: &str| {
            let request = Request::builder().method("CONNECT").uri(uri).header(HOST, field);
            let (head, ()) = request.body(()).expect("a request").into_parts();
            let client = IpAddr::from([203, 0, 113, 9]);
            let id = HeaderValue::from_static("id-1");
            let record = Record::new(&head, client, Timestamp::from_micros(7), monotonic(), id);
            record.host().map(str::to_owned)
        };
        for (uri, field, shown) in [
            ("http://user:SECRET@a.test:81/x", "b.test", "a.test:81"),
            ("user:SECRET@a.test:443", "b.test", "a.test:443"),
            ("/x", "user:SECRET@a.test", "a.test"),
            ("/x", "user:SEC@RET@a.test:81", "a.test:81"),
            ("/x", "[::1]:81", "[::1]:81"),
        ] {
            assert_eq!(host(uri, field).as_deref(), Some(shown), "{uri} {field}");
        }
    }

    #[test]
    fn a_client_that_leaves_within_the_response_knows_the_decision() {
        let mut record = record();
        record.status = Some(StatusCode::OK);
        record.set_decision("admitted");
        record.left();
        record.finish();
        assert_eq!((record.outcome, record.failure), ("admitted", Some("client_closed")));
        assert!(record.is_broken);
    }

    #[test]
    fn a_path_has_no_query_and_no_values_of_parameters() {
        let mut record = record();
        assert_eq!(record.path(), "/t/secret");
        record.masked_path = Some("/t/{tenant}".into());
        assert_eq!(record.path(), "/t/{tenant}");
    }

    #[test]
    fn without_a_response_the_client_has_closed_whatever_was_decided() {
        let mut record = record();
        record.outcome = "admitted";
        record.finish();
        assert_eq!(record.outcome, "client_closed");
    }

    #[test]
    fn bytes_of_a_tunnel_count_as_sent() {
        let mut record = record();
        let tunnel = TunnelBytes::default();
        (record.status, record.outcome) = (Some(StatusCode::SWITCHING_PROTOCOLS), "admitted");
        record.tunnel = Some(tunnel.clone());
        tunnel.add(5);
        record.finish();
        assert_eq!((record.bytes, record.outcome), (5, "admitted"));
    }
}

//! The record of a request: what is known of it, independent of where it is written.
//!
//! A worker's [`Sinks`](super::Sinks) read records. A request without a reader has no
//! record, and needs no memory for one. What a record shows to its readers contains no
//! keys, no queries and no values of path parameters.

use std::cell::{Cell, Ref, RefCell};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version};
use smallvec::SmallVec;

use tollgate_limiter::digest::Principal;
use tollgate_limiter::store::Source;
use tollgate_limiter::time::{Span, Timestamp, monotonic};

/// What is known of one request.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// When its head had arrived, by the wall clock.
    pub(crate) time: Timestamp,
    /// The same by the monotonic clock.
    pub(crate) started: Instant,
    /// Its id.
    pub(crate) request_id: HeaderValue,
    /// The address of its client.
    pub(crate) client: IpAddr,
    /// The version of HTTP in which it came.
    pub(crate) version: Version,
    /// Its method.
    pub(crate) method: Method,
    /// Its target, which contains the query; see [`Self::path`].
    target: Uri,
    /// Its `Host`, if the target names none.
    host: Option<HeaderValue>,
    /// The trace that its `traceparent` names.
    trace_id: Option<[u8; TRACE_ID_DIGITS]>,
    /// Its path, if values of path parameters were removed from it.
    pub(crate) masked_path: Option<Box<str>>,
    /// The name of its route, if one matched.
    pub(crate) route: Option<Name>,
    /// One entry for each policy that was applied, in the order of the route.
    pub policies: SmallVec<[PolicyRecord; 2]>,
    /// The decision of the limiter, or the failure that followed it.
    pub(crate) outcome: &'static str,
    /// Whether the limiter refused it.
    pub(crate) is_refused: bool,
    /// When it was decided, by the clock of decisions.
    pub(crate) decided: Option<Timestamp>,
    /// How long the decision took, if a server was asked, in microseconds.
    pub(crate) store_us: Option<u64>,
    /// When units in flight were released and costs were settled, by the clock of decisions.
    pub(crate) settled: Option<Timestamp>,
    /// How long its client was told to wait.
    pub(crate) wait: Option<Span>,
    /// The attempts to reach an endpoint of the upstream.
    pub(crate) attempts: Attempts,
    /// From its head to the head of the upstream's response, in microseconds.
    pub(crate) upstream_us: Option<u64>,
    /// The status of the response; none if the client left before there was one.
    pub(crate) status: Option<StatusCode>,
    /// Bytes of the response's body that were sent.
    pub(crate) bytes: u64,
    /// Bytes that a WebSocket has sent to the client in place of a body.
    pub(crate) tunnel: Option<TunnelBytes>,
    /// From its head to the end of the response, in microseconds. 0 until then.
    pub(crate) duration_us: u64,
}

/// The result of one policy.
#[derive(Clone, Debug)]
pub(crate) struct PolicyRecord {
    /// The policy's name.
    pub name: Name,
    /// The client that is counted; none if the request has no key.
    pub(crate) client: Option<Principal>,
    /// The units that the request costs.
    pub(crate) cost: Option<u64>,
    /// The units that it has cost in the end, if this depends on the response.
    pub(crate) settled: Option<u64>,
    /// The plan whose limit held; none for the policy's own.
    pub(crate) plan: Option<Name>,
    /// The limit of this client alone with its window, if it has one.
    pub(crate) own_limit: Option<(u64, Span)>,
    /// Whether it is beyond the limit, and admitted because the upstream has room.
    pub(crate) is_elastic: bool,
    /// Whether it counts as a preflight, under a limit of its own.
    pub(crate) is_preflight: bool,
    /// Where the counter was.
    pub(crate) source: Option<&'static str>,
    /// The units that remain; none if the policy had no key to count under.
    pub(crate) remaining: Option<u64>,
    /// Whether the client is told the numbers of this policy.
    pub(crate) is_binding: bool,
    /// Whether it would have refused the request if it were not in shadow mode.
    pub(crate) is_shadow_refused: bool,
}

/// The name of a route or a policy. It is copied because a shared reference count would
/// be a cache line that all workers write. Names up to 32 bytes need no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(SmallVec<[u8; 32]>);

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self(SmallVec::from_slice(name.as_bytes()))
    }
}

impl Name {
    /// The name as text.
    pub(crate) fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("it was made from a text")
    }
}

/// The attempts to reach an endpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempts {
    count: Cell<u32>,
    endpoint: RefCell<Option<Name>>,
}

impl Attempts {
    /// Counts an attempt at the endpoint with this address.
    pub(crate) fn add(&self, endpoint: &str) {
        self.count.set(self.count.get().saturating_add(1));
        self.endpoint.replace(Some(endpoint.into()));
    }

    /// How many there were, if there was one.
    pub(crate) fn count(&self) -> Option<u64> {
        (self.count.get() > 0).then(|| self.count.get().into())
    }

    /// The address of the last one's endpoint.
    pub(crate) fn endpoint(&self) -> Option<Ref<'_, Name>> {
        Ref::filter_map(self.endpoint.borrow(), Option::as_ref).ok()
    }
}

/// The digits of the id of a trace.
const TRACE_ID_DIGITS: usize = 32;

/// The id of the trace in `traceparent` (W3C Trace Context, section 3.2): digits of `0`
/// alone are no id.
fn trace_id(headers: &HeaderMap) -> Option<[u8; TRACE_ID_DIGITS]> {
    let text = headers.get("traceparent")?.as_bytes();
    let (version, rest) = text.split_first_chunk::<3>()?;
    let (id, rest) = rest.split_first_chunk()?;
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_id = id.iter().all(is_hex) && id.iter().any(|digit| *digit != b'0');
    (version[2] == b'-' && rest.starts_with(b"-") && is_id).then_some(*id)
}

/// Counts the bytes that a WebSocket sends to its client. It is an extension of the
/// response that opens the WebSocket: the tunnel adds to it, and the record reads it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TunnelBytes(Arc<AtomicU64>);

impl TunnelBytes {
    /// Adds bytes that were sent.
    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes.try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// All bytes until now.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Record {
    /// A record of the request with this head, which has arrived just now.
    pub(crate) fn new(
        head: &Parts,
        client: IpAddr,
        time: Timestamp,
        request_id: HeaderValue,
    ) -> Self {
        Self {
            time,
            started: monotonic(),
            request_id,
            client,
            version: head.version,
            method: head.method.clone(),
            target: head.uri.clone(),
            host: head.headers.get(HOST).filter(|_| head.uri.authority().is_none()).cloned(),
            trace_id: trace_id(&head.headers),
            masked_path: None,
            route: None,
            policies: SmallVec::new(),
            outcome: "unknown",
            is_refused: false,
            wait: None,
            attempts: Attempts::default(),
            decided: None,
            store_us: None,
            settled: None,
            upstream_us: None,
            status: None,
            bytes: 0,
            tunnel: None,
            duration_us: 0,
        }
    }

    /// Its path, without the query and without the values of path parameters.
    pub(crate) fn path(&self) -> &str {
        self.masked_path.as_deref().unwrap_or(self.target.path())
    }

    /// Its host, with the port if the client has named one.
    pub(crate) fn host(&self) -> Option<&str> {
        let host = || self.host.as_ref()?.to_str().ok();
        self.target.authority().map(Authority::as_str).or_else(host)
    }

    /// The id of the trace that its client has named, in hexadecimal digits.
    pub(crate) fn trace_id(&self) -> Option<&str> {
        str::from_utf8(self.trace_id.as_ref()?).ok()
    }

    /// When it was decided, by the clock of decisions. Without a decision: when its head had
    /// arrived.
    pub(crate) fn decided(&self) -> Timestamp {
        self.decided.unwrap_or(self.time)
    }

    /// The time since its head had arrived, in microseconds.
    pub(crate) fn elapsed_us(&self) -> u64 {
        Span::from(monotonic().duration_since(self.started)).as_micros()
    }

    /// Completes the record when the request has ended.
    pub(super) fn finish(&mut self) {
        self.duration_us = self.elapsed_us();
        self.bytes += self.tunnel.as_ref().map_or(0, TunnelBytes::bytes);
        if self.status.is_none() {
            // No decision has reached the client.
            self.outcome = "client_closed";
        }
    }
}

/// One word for the place of a counter.
pub(crate) const fn source_word(source: Source) -> &'static str {
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
        let (client, id) = (IpAddr::from([203, 0, 113, 9]), HeaderValue::from_static("id-1"));
        Record::new(&head, client, Timestamp::from_micros(7), id)
    }

    #[test]
    fn a_path_has_no_query_and_no_values_of_parameters() {
        let mut record = record();
        assert_eq!(record.path(), "/t/secret");
        record.masked_path = Some("/t/{tenant}".into());
        assert_eq!(record.path(), "/t/{tenant}");
    }

    #[test]
    fn a_trace_is_named_by_a_valid_id() {
        let id = |text: &str| {
            let request = Request::builder().header("traceparent", text).body(());
            let (head, ()) = request.expect("a request").into_parts();
            trace_id(&head.headers).map(|id| String::from_utf8_lossy(&id).into_owned())
        };
        let digits = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(id(&format!("00-{digits}-00f067aa0ba902b7-01")).as_deref(), Some(digits));
        let zeros = "0".repeat(32);
        for wrong in ["", "00-4bf9-", "00_", &format!("00-{zeros}-00f067aa0ba902b7-01")] {
            assert_eq!(id(wrong), None, "{wrong}");
        }
        assert_eq!(id(&format!("00-{}-1-01", digits.to_uppercase())), None);
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

    #[test]
    fn a_name_of_any_length_is_kept() {
        for name in ["", "per-client", &"é".repeat(100)] {
            assert_eq!(Name::from(name).as_str(), name);
        }
    }
}

//! Mirrors requests: a copy of some requests of a route goes to another upstream, and its answer is
//! read and thrown away.
//!
//! A mirrored request never delays or fails the request itself. It has a task of its own, and
//! connections of its own: an upstream that mirrors and is also the upstream of a route has two
//! sets of them. It counts in no limit, changes the health of no endpoint, and waits for no place
//! in `max_in_flight` of an upstream. Its connections count in `max_connections`, and it is not sent if
//! none is free.
//!
//! Everything about it is bounded: the copied body by `max_body`, the copies that exist at the same
//! time in all workers by `max_in_flight`, the answer by [`MAX_ANSWER`], and the time from the
//! first byte sent to the last byte read by the response timeout of the route and [`MAX_TIME`]. What is not mirrored
//! because of a bound is counted. A stopping worker waits for no mirrored request.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, Method, Request};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::runtime::Handle;
use tokio::task::spawn_local;
use tokio::time::timeout;
use tollgate_core::time::monotonic;

use super::attempt::attempt;
use super::attempt_result::EndpointResponse;
use super::body::{RequestBody, Tap, TapFault};
use super::fault::Fault;
use super::response_body::ResponseBody;
use super::retry_state::RetryState;
use super::settings::{ForwardOptions, RouteTimeouts};
use super::upstream::{Tried, Upstream};
use crate::message::Forwarding;
use crate::telemetry::MirrorMetrics;

/// The bytes of an answer that are read. The connection of a longer one is closed.
const MAX_ANSWER: usize = 1024 * 1024;
/// The longest time of a copy, from the first byte sent to the last byte read.
const MAX_TIME: Duration = Duration::from_secs(30);

/// Which requests are mirrored, and where.
#[derive(Clone, Debug)]
pub struct MirrorSettings {
    /// The index of the upstream that gets the copies.
    pub upstream: usize,
    /// The share of the requests, in percent.
    pub percent: u8,
    /// The methods of the requests.
    pub methods: Vec<Method>,
    /// The largest body, in bytes.
    pub max_body: usize,
    /// Copies that may exist at the same time, in all workers.
    pub max_in_flight: usize,
    /// Copies that exist, in all workers.
    pub in_flight: Arc<AtomicUsize>,
}

impl MirrorSettings {
    /// A place for one more copy, if there is one.
    fn place(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.in_flight));
        // Counted first, so that one of two concurrent requests sees the other.
        (place.0.fetch_add(1, Ordering::Relaxed) < self.max_in_flight).then_some(place)
    }
}

/// One of the copies that may exist. Dropping it gives the place back.
#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request that will be mirrored.
#[derive(Debug)]
pub struct Mirrored {
    mirror: Mirror,
    request: Box<Request<()>>,
    timeouts: RouteTimeouts,
    max_body: usize,
    place: Place,
}

/// An upstream that gets copies, as one worker sees it.
#[derive(Clone, Debug)]
pub struct Mirror {
    upstream: Rc<Upstream>,
    metrics: Rc<MirrorMetrics>,
}

impl Mirror {
    /// A mirror over connections of `upstream`, which nothing else uses.
    pub fn new(upstream: Rc<Upstream>, metrics: MirrorMetrics) -> Self {
        Self { upstream, metrics: Rc::new(metrics) }
    }

    /// The upstream.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// A copy of the request with this head, if the settings choose it and there is a place for it.
    /// `body_bytes` is the least length of its body. `forwarding` writes the fields about the client
    /// that are not among its fields.
    pub fn copy(
        &self,
        settings: &MirrorSettings,
        head: &Parts,
        body_bytes: u64,
        forwarding: Option<&Forwarding>,
        timeouts: RouteTimeouts,
    ) -> Option<Box<Mirrored>> {
        let is_chosen = settings.methods.contains(&head.method)
            && fastrand::u8(0..100) < settings.percent
            && !head.headers.contains_key(UPGRADE);
        if !is_chosen {
            return None;
        }
        if usize::try_from(body_bytes).map_or(true, |bytes| bytes > settings.max_body) {
            self.metrics.skipped_body();
            return None;
        }
        let Some(place) = settings.place() else {
            self.metrics.skipped_busy();
            return None;
        };
        let mut request = Box::new(Request::new(()));
        (*request.method_mut(), *request.uri_mut()) = (head.method.clone(), head.uri.clone());
        let headers = request.headers_mut();
        headers.clone_from(&head.headers);
        if let Some(forwarding) = forwarding {
            forwarding.write_untrusted(headers, head.version);
        }
        for framing in [CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER] {
            headers.remove(framing);
        }
        let max_body = settings.max_body;
        Some(Box::new(Mirrored { mirror: self.clone(), request, timeouts, max_body, place }))
    }
}

impl Mirrored {
    /// Sends the copy when `body`, which is that of the request, has passed.
    pub fn follow(self, body: &mut RequestBody) {
        // An upstream of HTTP/1 does not read a body of length 0. Over HTTP/2 the end of its stream may
        // come later.
        if body.is_end_stream() || body.size_hint().exact() == Some(0) {
            return self.send(Bytes::new());
        }
        let max_body = self.max_body;
        body.tap(Tap::new(
            max_body,
            Box::new(move |copy| match copy {
                Ok(bytes) => self.send(bytes),
                Err(TapFault::TooLarge) => self.mirror.metrics.skipped_body(),
                Err(TapFault::Incomplete) => self.mirror.metrics.skipped_incomplete(),
            }),
        ));
    }

    /// Sends the copy in a task of its own.
    fn send(self, body: Bytes) {
        let Self { mirror, request, timeouts, place, .. } = self;
        // Bodies can outlive the runtime that read them.
        if Handle::try_current().is_err() {
            return mirror.metrics.skipped_incomplete();
        }
        let (mut head, ()) = request.into_parts();
        if !body.is_empty() {
            head.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        let request = Box::new(Request::from_parts(head, RequestBody::whole(body)));
        spawn_local(async move {
            let limit = timeouts.response.min(MAX_TIME);
            let sent = timeout(limit, exchange(&mirror.upstream, request, timeouts));
            match sent.await {
                Ok(Some(())) => mirror.metrics.sent(),
                Ok(None) | Err(_) => mirror.metrics.failed(),
            }
            drop(place);
        });
    }
}

/// Sends a copy, reads the answer and throws it away. None if there is no whole answer.
async fn exchange(
    upstream: &Upstream,
    request: Box<Request<RequestBody>>,
    timeouts: RouteTimeouts,
) -> Option<()> {
    let waited = Cell::new(Duration::ZERO);
    let options = ForwardOptions::own(&timeouts, &waited);
    let mut state = RetryState::new(upstream, &options, &request);
    let in_flight = match upstream.bound() {
        None => upstream.assign(None, None, &Tried::new()).ok()?,
        // A copy does not wait for a connection, because no client is named.
        Some(bound) => upstream.reserve(bound, None, &mut state).await.ok()?,
    };
    let endpoint = in_flight.endpoint();
    let limit = timeouts.response;
    let answer = match attempt(endpoint, request, monotonic(), limit, &mut state).await {
        Ok(answer) => answer,
        Err(error) => {
            if error.fault == Fault::Untrusted {
                upstream.warn_of_handshake(endpoint);
            }
            return None;
        }
    };
    let EndpointResponse { connection, .. } = answer;
    let mut body = ResponseBody::new(timeouts.idle, in_flight, connection);
    let mut left = MAX_ANSWER;
    while let Some(frame) = body.frame().await {
        let frame = frame.ok()?;
        let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { break };
        left = rest;
    }
    Some(())
}

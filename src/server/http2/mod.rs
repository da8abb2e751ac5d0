//! Connections of HTTP/2.

mod fragments;
mod frames;
mod guard;

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::uri::{Authority, PathAndQuery};
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper::rt::Executor;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::task::{spawn_local, yield_now};
use tokio::time::{sleep, timeout};
use tollgate_core::drain::Drain;
use tollgate_core::request::{Malformed, is_disguised, is_method};
use tollgate_core::time::monotonic;

use super::discard::discard;
use super::drive::{End, drive};
use super::service::RequestService;
use super::settings::{Http2Settings, ListenerSettings};
use super::state::ClientBody;
use super::state::activity::Activity;
use super::state::streams::{ActiveStream, Streams};
use super::state::tracked_body::TrackedBody;
use super::syntax::{FieldBounds, field_bytes, size_of_fields};
use super::ticker::Ticks;
use super::transport::Stream;
use super::tunnel::Tunnel;
use crate::io::Coalesced;
use crate::message::{content_length, join_cookies, switch_to_websocket, websocket_key};
#[cfg(any(test, feature = "fuzzing"))]
pub use frames::Fault;
pub use frames::{Frames, PREFACE};
use guard::Guard;

/// How many bytes of one body a client may send before the endpoint has read them. The
/// window of the connection has room for this many bytes of each stream, so that uploads
/// to a slow endpoint leave room for all others.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
/// The largest window (RFC 9113, section 6.9.1).
const MAX_WINDOW_BYTES: u32 = (1 << 31) - 1;
/// How many bytes of one response are buffered while its client does not read.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// Runs the tasks of a connection on its own worker.
#[derive(Clone, Debug)]
struct LocalExecutor(Rc<Streams>);

impl<F> Executor<F> for LocalExecutor
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, future: F) {
        self.0.started(spawn_local(future).abort_handle());
    }
}

/// The HTTP library, set up for one connection.
fn protocol(
    settings: &ListenerSettings,
    bounds: Http2Settings,
    streams: &Rc<Streams>,
) -> Builder<LocalExecutor> {
    let mut protocol = Builder::new(LocalExecutor(Rc::clone(streams)));
    // The library answers a larger head itself, and no log has it. So the service gets heads above
    // the bound of the listener, too, and refuses them.
    let head_bytes = settings.max_head_bytes.saturating_mul(2).try_into().unwrap_or(u32::MAX);
    // Clients of a proxy may cancel all their requests at once, before this worker has seen them.
    // Resets are counted before the library reads them.
    let resets = bounds.max_streams.max(bounds.max_resets);
    let window_bytes = bounds.max_streams.max(1).saturating_mul(STREAM_WINDOW_BYTES);
    protocol
        .enable_connect_protocol()
        .max_concurrent_streams(bounds.max_streams)
        .max_header_list_size(head_bytes)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(window_bytes.min(MAX_WINDOW_BYTES))
        .max_pending_accept_reset_streams(usize::try_from(resets).unwrap_or(usize::MAX))
        .max_send_buf_size(SEND_BUFFER_BYTES);
    protocol
}

/// Serves one connection to its end, which is returned.
pub async fn serve<S: RequestService>(
    stream: Stream,
    bounds: Http2Settings,
    settings: &ListenerSettings,
    activity: Activity,
    ticks: Ticks,
    mut drain: Drain,
    service: S,
) -> End {
    let streams = Rc::new(Streams::new(activity));
    let guard = Guard::new(stream, &streams, Frames::new(bounds, monotonic()));
    let io = Coalesced::new(guard);
    let tunnel_drain = Rc::new(drain.clone());
    let idle_limit = settings.timeouts.tunnel;
    let trailers = FieldBounds { fields: settings.max_headers, bytes: settings.max_head_bytes };
    let service = service_fn(|mut request: Request<Incoming>| {
        let active = streams.begin();
        // A client may divide a field Cookie into several (RFC 9113, section 8.2.3).
        join_cookies(request.headers_mut());
        if let Err(malformed) = check(&request, settings) {
            request.extensions_mut().insert(malformed);
        }
        let is_head = request.method() == Method::HEAD;
        let client = open_websocket(&mut request);
        let request = request.map(|body| ClientBody::of_http2(body, trailers));
        let responding = service.clone().call(request);
        let drain = Rc::clone(&tunnel_drain);
        let may_be_reset = streams.has_resets();
        async move {
            // The library ends the task of a stream that is reset, but it runs the task first. A
            // request that came with its reset is not forwarded.
            if may_be_reset {
                yield_now().await;
            }
            let response = responding.await?;
            let mut response = response.map(|body| TrackedBody::new(body, active));
            if is_head {
                leave_out_content(&mut response);
            }
            if let Some(client) = client {
                answer_websocket(client, &mut response, idle_limit, drain);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let protocol = protocol(settings, bounds, &streams);
    let connection = protocol.serve_connection(TokioIo::new(io.clone()), service);
    // However it ends, nothing more can be sent on it. A GOAWAY loses no request:
    // requests that cross it on the way are served.
    let mut over = drain.clone();
    let began = Cell::new(None::<Instant>);
    let drained = async {
        is_old_or(drain.requested(), settings.timeouts.age).await;
        began.set(Some(monotonic()));
    };
    // Such a connection does not rest.
    let rest = || None::<Infallible>;
    let end = {
        let mut connection = pin!(connection);
        let driven =
            drive(connection.as_mut(), &*streams, &settings.timeouts, ticks, drained, rest);
        let mut driven = pin!(driven);
        let Ok(end) = poll_fn(|cx| {
            let end = driven.as_mut().poll(cx);
            io.end_poll(cx);
            end
        })
        .await;
        streams.excess().map_or(end, End::Excess)
    };
    // A client that was idle has answered a ping that was sent behind all responses.
    let answered = |began: Instant| streams.idle().is_some_and(|since| since >= began);
    if end == End::Closed && began.get().is_some_and(answered) {
        await_client(io, settings.timeouts.keep_alive, &mut over).await;
    }
    end
}

/// Waits until the client has read the last responses and closes the connection. While it reads, it
/// sends window updates, and the system would answer them with a reset if the connection were closed.
/// The client may take this time, and no longer than a drain.
async fn await_client(mut io: Coalesced<Guard<Stream>>, most: Duration, drain: &mut Drain) {
    tokio::select! {
        _ = timeout(most, discard(&mut io)) => {}
        () = drain.over() => {}
    }
}

/// Returns when `drained` does, or when a connection that begins now has this age, which varies by
/// a tenth.
async fn is_old_or(drained: impl Future<Output = ()>, age: Option<Duration>) {
    let Some(age) = age else { return drained.await };
    let age = age.mul_f64(0.9 + 0.2 * fastrand::f64());
    tokio::select! {
        () = drained => {}
        () = sleep(age) => {}
    }
}

/// Rewrites a request for a WebSocket to its HTTP/1.1 form, and returns the client's end
/// of the future tunnel (RFC 8441, section 5). None for other requests.
fn open_websocket(request: &mut Request<Incoming>) -> Option<OnUpgrade> {
    let protocol = request.extensions().get::<Protocol>();
    if request.method() != Method::CONNECT || protocol?.as_str() != "websocket" {
        return None;
    }
    let client = hyper::upgrade::on(&mut *request);
    request.extensions_mut().remove::<Protocol>();
    *request.method_mut() = Method::GET;
    switch_to_websocket(request.headers_mut());
    let key = websocket_key(fastrand::u128(..));
    request.headers_mut().insert(SEC_WEBSOCKET_KEY, key);
    Some(client)
}

/// Completes the response to a request for a WebSocket. If it opens one, its bytes pass between the
/// endpoint and `client` from then on.
fn answer_websocket<B: 'static>(
    client: OnUpgrade,
    response: &mut Response<TrackedBody<B, ActiveStream>>,
    idle_limit: Duration,
    drain: Rc<Drain>,
) {
    match Tunnel::of(response) {
        Some(tunnel) => {
            grant_websocket(response);
            spawn_local(async move {
                if let Ok(client) = client.await {
                    let client = TokioIo::new(client);
                    let mut drain = (*drain).clone();
                    tunnel.carry(client, Bytes::new(), idle_limit, &mut drain).await;
                }
            });
        }
        // The client would take any success for an open WebSocket.
        None if response.status().is_success() => *response.status_mut() = StatusCode::BAD_GATEWAY,
        None => {}
    }
}

/// Rewrites the response that opens a WebSocket to its HTTP/2 form.
fn grant_websocket<B>(response: &mut Response<B>) {
    *response.status_mut() = StatusCode::OK;
    for name in [CONNECTION, UPGRADE, SEC_WEBSOCKET_ACCEPT] {
        response.headers_mut().remove(name);
    }
}

/// Takes the content out of a response to HEAD, and leaves its length (RFC 9110, section 9.3.2). In
/// HTTP/1 the library does it.
fn leave_out_content<B, A>(response: &mut Response<TrackedBody<B, A>>)
where
    TrackedBody<B, A>: Body,
{
    if response.body().is_end_stream() {
        return;
    }
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into());
    }
    drop(response.body_mut().take());
}

/// Refuses what the HTTP library accepts but what, written as HTTP/1.1, has another
/// meaning or none (RFC 9113, section 10.3).
fn check<B>(request: &Request<B>, settings: &ListenerSettings) -> Result<(), Malformed> {
    let headers = request.headers();
    if headers.len() > settings.max_headers {
        return Err(Malformed::TooManyFields);
    }
    if head_size(request) > settings.max_head_bytes {
        return Err(Malformed::HeadTooLarge);
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    if lengths.next().is_some_and(|length| content_length(length.as_bytes()).is_none()) {
        return Err(Malformed::BadLength);
    }
    if lengths.next().is_some() {
        return Err(Malformed::ManyLengths);
    }
    if !is_method(request.method().as_str().as_bytes()) {
        return Err(Malformed::BadMethod);
    }
    for (name, value) in headers {
        if !settings.disguised_names && is_disguised(name.as_str().as_bytes()) {
            return Err(Malformed::DisguisedName);
        }
        if has_blank_around(value.as_bytes()) {
            return Err(Malformed::BlankAroundValue);
        }
    }
    // `?a` would become `/?a`.
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let is_target = target.starts_with('/') || target == "*";
    match target.len() > settings.head_bounds().target_bytes {
        _ if !is_target => Err(Malformed::BadTarget),
        true => Err(Malformed::TargetTooLong),
        false => Ok(()),
    }
}

/// The size of a head in bytes.
fn head_size<B>(request: &Request<B>) -> usize {
    let uri = request.uri();
    let pseudo_fields = [
        (":method", Some(request.method().as_str())),
        (":scheme", uri.scheme_str()),
        (":authority", uri.authority().map(Authority::as_str)),
        (":path", uri.path_and_query().map(PathAndQuery::as_str)),
    ];
    let bytes = |(name, value): (&str, Option<&str>)| {
        value.map_or(0, |value| field_bytes(name, value.as_bytes()))
    };
    pseudo_fields.into_iter().map(bytes).sum::<usize>() + size_of_fields(request.headers())
}

fn has_blank_around(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_blank(value.first()) || is_blank(value.last())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_old_after_its_age_give_or_take_a_tenth() {
        let age = Duration::from_secs(100);
        let moment = Duration::from_millis(3);
        for _ in 0..20 {
            let mut old = pin!(is_old_or(pending(), Some(age)));
            assert!(timeout(age * 9 / 10 - moment, old.as_mut()).await.is_err());
            assert!(timeout(age / 5 + 2 * moment, old).await.is_ok());
        }
        let drained = sleep(Duration::from_secs(1));
        assert!(timeout(Duration::from_secs(2), is_old_or(drained, Some(age))).await.is_ok());
        is_old_or(std::future::ready(()), None).await;
    }
}

//! A connection that speaks HTTP/2.

use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper::rt::Executor;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::task::spawn_local;
use tower::{Service, ServiceExt as _};

use super::drive;
use crate::drain::Drain;
use crate::message::{join_cookies, switch_to_websocket, websocket_key};
use crate::request::{Malformed, is_disguised};
use crate::server::activity::{Activity, UntilIdle};
use crate::server::client_body::ClientBody;
use crate::server::frames::Frames;
use crate::server::head::{is_method, length_of};
use crate::server::observed::Observed;
use crate::server::stream::Stream;
use crate::server::tunnel::Tunnel;
use crate::server::{Http2Settings, ListenerSettings};
use crate::time::monotonic;

/// What a client may send of one body before the endpoint has taken it. The
/// connection has as much for each of its streams, so that uploads to a slow endpoint
/// leave the window of all others.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
/// The largest window there is (RFC 9113, section 6.9.1).
const MAX_WINDOW_BYTES: u32 = (1 << 31) - 1;
/// What is kept of one response while the client has no room for it.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// Runs what belongs to a connection on its own worker.
#[derive(Clone, Debug)]
struct OnThisWorker(Rc<Activity>);

impl<F> Executor<F> for OnThisWorker
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
    activity: &Rc<Activity>,
) -> Builder<OnThisWorker> {
    let mut protocol = Builder::new(OnThisWorker(Rc::clone(activity)));
    let head_bytes = u32::try_from(settings.max_head_bytes).unwrap_or(u32::MAX);
    let window_bytes = bounds.max_streams.max(1).saturating_mul(STREAM_WINDOW_BYTES);
    protocol
        .enable_connect_protocol()
        .max_concurrent_streams(bounds.max_streams)
        .max_header_list_size(head_bytes)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(window_bytes.min(MAX_WINDOW_BYTES))
        .max_send_buf_size(SEND_BUFFER_BYTES);
    protocol
}

/// Serves one connection, whose preface is awaited since `since`, to its end.
pub(super) async fn serve<S, B>(
    stream: Stream,
    bounds: Http2Settings,
    settings: &ListenerSettings,
    since: Instant,
    mut drain: Drain,
    service: S,
) where
    S: Service<Request<ClientBody>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let activity = Rc::new(Activity::of_http2(since, settings.demand()));
    let frames = Some(Frames::new(bounds, monotonic()));
    let io = Observed::new(stream, &activity, frames);
    let (waiting, patience) = (drain.clone(), settings.timeouts.tunnel);
    let service = service_fn(|mut request: Request<Incoming>| {
        let under_way = activity.begin();
        if let Err(malformed) = judge(&request, settings.max_headers) {
            request.extensions_mut().insert(malformed);
        }
        join_cookies(request.headers_mut());
        let client = open_websocket(&mut request);
        let request = request.map(ClientBody::of_http2);
        let (service, mut waiting) = (service.clone(), waiting.clone());
        async move {
            let answer = service.oneshot(request).await?;
            let answer = answer.map(|body| UntilIdle::new(body, under_way));
            let (mut answer, tunnel) = Tunnel::of(answer);
            match (client, tunnel) {
                (Some(client), Some(tunnel)) => {
                    grant_websocket(&mut answer);
                    spawn_local(async move {
                        if let Ok(client) = client.await {
                            let client = TokioIo::new(client);
                            tunnel.carry(client, Bytes::new(), patience, &mut waiting).await;
                        }
                    });
                }
                // To this client any success is a WebSocket.
                (Some(_), None) if answer.status().is_success() => {
                    *answer.status_mut() = StatusCode::BAD_GATEWAY;
                }
                _ => {}
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let protocol = protocol(settings, bounds, &activity);
    let mut connection = pin!(protocol.serve_connection(TokioIo::new(io), service));
    // However it ended, there is nothing to say on it any more. A GOAWAY costs
    // nobody anything: what crosses it is served.
    let mut ending = drain.clone();
    let (drained, over) = (drain.requested(), ending.over());
    drive(connection.as_mut(), &activity, &settings.timeouts, drained, over).await;
}

/// Tells a request for a WebSocket as HTTP/1.1 does; returns the client's end of
/// what it asks for (RFC 8441, section 5). Nothing if it is no such request.
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

/// Tells the answer that grants one as HTTP/2 does.
fn grant_websocket<B>(answer: &mut Response<B>) {
    *answer.status_mut() = StatusCode::OK;
    for name in [CONNECTION, UPGRADE, SEC_WEBSOCKET_ACCEPT] {
        answer.headers_mut().remove(name);
    }
}

/// What the HTTP library lets pass, and what has another meaning, or none, as
/// soon as it is written down as HTTP/1.1 (RFC 9113, section 10.3).
fn judge<B>(request: &Request<B>, max_headers: usize) -> Result<(), Malformed> {
    let headers = request.headers();
    if headers.len() > max_headers {
        return Err(Malformed::TooManyFields);
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    if lengths.next().is_some_and(|length| length_of(length.as_bytes()).is_none()) {
        return Err(Malformed::BadLength);
    }
    if lengths.next().is_some() {
        return Err(Malformed::ManyLengths);
    }
    if !is_method(request.method().as_str().as_bytes()) {
        return Err(Malformed::BadMethod);
    }
    for (name, value) in headers {
        if is_disguised(name.as_str().as_bytes()) {
            return Err(Malformed::DisguisedName);
        }
        if has_blank_around(value.as_bytes()) {
            return Err(Malformed::BlankAroundValue);
        }
    }
    // `?a` would become `/?a`.
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let is_target = target.starts_with('/') || target == "*";
    if is_target { Ok(()) } else { Err(Malformed::BadTarget) }
}

fn has_blank_around(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_blank(value.first()) || is_blank(value.last())
}

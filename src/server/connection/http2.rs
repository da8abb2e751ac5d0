//! A connection that speaks HTTP/2.

use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2::Builder;
use hyper_util::rt::TokioIo;
use tokio::task::spawn_local;
use tower::{Service, ServiceExt as _};

use super::{drive, watched};
use crate::drain::Drain;
use crate::message::join_cookies;
use crate::request::Malformed;
use crate::server::activity::{Activity, Observed};
use crate::server::frames::Frames;
use crate::server::head::{is_disguised, is_method};
use crate::server::stream::Stream;
use crate::server::{Http2Settings, ListenerSettings};
use crate::time::monotonic;

/// What a client may send of one body before somebody has read it.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// The same, of all bodies of a connection together.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// What is kept of one response while the client has no room for it.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// Runs what belongs to a connection on its own worker.
#[derive(Clone, Debug)]
struct OnThisWorker(Rc<Activity>);

impl<F> Executor<F> for OnThisWorker
where
    F: Future + 'static,
{
    fn execute(&self, future: F) {
        let task = spawn_local(async {
            future.await;
        });
        self.0.started(task.abort_handle());
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
    protocol
        .max_concurrent_streams(bounds.max_streams)
        .max_header_list_size(head_bytes)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
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
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let activity = Rc::new(Activity::of_http2(since));
    let frames = Some(Frames::new(bounds, monotonic()));
    let io = Observed { stream, activity: Rc::clone(&activity), frames };
    let max_headers = settings.max_headers;
    let service = service.map_request(move |mut request: Request<Incoming>| {
        if let Err(malformed) = judge(&request, max_headers) {
            request.extensions_mut().insert(malformed);
        }
        join_cookies(request.headers_mut());
        request
    });
    let service = watched(service, &activity);
    let protocol = protocol(settings, bounds, &activity);
    let mut connection = pin!(protocol.serve_connection(TokioIo::new(io), service));
    // However it ended, there is nothing to say on it any more.
    drive(connection.as_mut(), &activity, &settings.timeouts, &mut drain).await;
}

/// What the HTTP library lets pass, and what has another meaning, or none, as
/// soon as it is written down as HTTP/1.1 (RFC 9113, section 10.3).
fn judge<B>(request: &Request<B>, max_headers: usize) -> Result<(), Malformed> {
    let headers = request.headers();
    if headers.len() > max_headers {
        return Err(Malformed::TooManyFields);
    }
    if headers.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(Malformed::ManyLengths);
    }
    if !is_method(request.method().as_str().as_bytes()) {
        return Err(Malformed::BadMethod);
    }
    for (name, value) in headers {
        if name.as_str().contains('_') && is_disguised(name.as_str().as_bytes()) {
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

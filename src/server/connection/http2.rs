//! A connection that speaks HTTP/2.

use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

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
use crate::server::activity::{Activity, Observed};
use crate::server::frames::Frames;
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
#[derive(Clone, Copy, Debug)]
pub(super) struct OnThisWorker;

impl<F> Executor<F> for OnThisWorker
where
    F: Future + 'static,
{
    fn execute(&self, future: F) {
        spawn_local(async {
            future.await;
        });
    }
}

/// The HTTP library, set up once for all connections of a listener.
pub(super) fn protocol(
    settings: &ListenerSettings,
    bounds: Http2Settings,
) -> Builder<OnThisWorker> {
    let mut protocol = Builder::new(OnThisWorker);
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
    (protocol, bounds): &(Builder<OnThisWorker>, Http2Settings),
    settings: &ListenerSettings,
    since: Instant,
    mut drain: Drain,
    service: S,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let activity = Rc::new(Activity::new(since));
    let frames = Some(Frames::new(*bounds, monotonic()));
    let io = Observed { stream, activity: Rc::clone(&activity), frames };
    let service = service.map_request(|mut request: Request<Incoming>| {
        join_cookies(request.headers_mut());
        request
    });
    let service = watched(service, &activity);
    let mut connection = pin!(protocol.serve_connection(TokioIo::new(io), service));
    // However it ended, there is nothing to say on it any more. A GOAWAY costs
    // nobody anything: what crosses it is served.
    drive(connection.as_mut(), &activity, &settings.timeouts, drain.requested()).await;
}

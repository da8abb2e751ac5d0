//! One connection, from accept to close.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1::{self, Connection};
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval};
use tower::{Service, ServiceExt as _};

use super::ListenerSettings;
use super::activity::{Activity, Observed, Phase, UntilIdle};
use crate::drain::Drain;

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// The address at which it reached us.
    pub local: SocketAddr,
}

/// Sent to a client whose request's head did not come in time; the HTTP library
/// knows no such answer.
const REQUEST_TIMEOUT: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

type Io = TokioIo<Observed<TcpStream>>;

/// How a connection ended.
enum End {
    /// By itself, or by an error that the library has answered.
    Closed,
    /// It was in this phase for longer than it may be.
    Overdue(Phase),
}

/// The HTTP library, set up once for all connections of a listener.
pub(super) fn protocol(settings: &ListenerSettings) -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        .title_case_headers(true)
        .max_headers(settings.max_headers)
        .max_header_size(settings.max_head_bytes)
        .max_buf_size(settings.max_head_bytes.max(64 * 1024))
        .header_read_timeout(None);
    protocol
}

/// Serves one connection to its end.
pub(super) async fn serve<S, B>(
    stream: TcpStream,
    protocol: &http1::Builder,
    settings: &ListenerSettings,
    mut drain: Drain,
    service: S,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let activity = Rc::new(Activity::new());
    let io = TokioIo::new(Observed { stream, activity: Rc::clone(&activity) });
    let watched = service_fn(|request| {
        activity.begin();
        let (service, activity) = (service.clone(), Rc::clone(&activity));
        async move {
            let response = service.oneshot(request).await?;
            Ok::<_, Infallible>(response.map(|body| UntilIdle::new(body, activity)))
        }
    });
    let mut connection = protocol.serve_connection(io, watched);
    match drive(&mut connection, &activity, settings, &mut drain).await {
        End::Overdue(Phase::Head) => answer_timeout(connection.into_parts().io).await,
        End::Overdue(_) | End::Closed => {}
    }
}

/// Polls the connection until it ends, is overdue, or has been drained.
async fn drive<S, B>(
    connection: &mut Connection<Io, S>,
    activity: &Activity,
    settings: &ListenerSettings,
    drain: &mut Drain,
) -> End
where
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut ticks = interval(Activity::interval(&settings.timeouts));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut drain_requested = pin!(drain.requested());
    let mut draining = false;
    poll_fn(|cx| {
        // Errors are the client's: the library has answered what can be answered.
        if Pin::new(&mut *connection).poll(cx).is_ready() {
            return Poll::Ready(End::Closed);
        }
        if !draining && drain_requested.as_mut().poll(cx).is_ready() {
            draining = true;
            Pin::new(&mut *connection).graceful_shutdown();
            if Pin::new(&mut *connection).poll(cx).is_ready() {
                return Poll::Ready(End::Closed);
            }
        }
        while ticks.poll_tick(cx).is_ready() {
            if activity.is_overdue(&settings.timeouts) {
                return Poll::Ready(End::Overdue(activity.phase()));
            }
        }
        Poll::Pending
    })
    .await
}

/// Tells a client that it was too slow. Best effort: what does not fit the
/// socket's buffer is not waited for.
async fn answer_timeout(io: Io) {
    let mut stream = io.into_inner().stream;
    if stream.try_write(REQUEST_TIMEOUT).is_ok() {
        let _ = stream.shutdown().await;
    }
}

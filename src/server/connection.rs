//! One connection, from accept to close.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1::{self, Connection};
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
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

/// How long an idle connection stays open once it is to end.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long a client may go on sending what nobody wants any more.
const LINGER: Duration = Duration::from_secs(2);

/// How a connection ended.
enum End {
    /// By itself, or by an error of the client that the library has answered.
    Closed,
    /// In the middle of a response.
    Broken,
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
            let mut response = service.oneshot(request).await?;
            if activity.is_ending() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| UntilIdle::new(body, activity)))
        }
    });
    let mut connection = protocol.serve_connection(io, watched);
    let end = drive(&mut connection, &activity, settings, &mut drain).await;
    // No answer is owed any more, so nobody has to wait for the rest.
    drop(drain);
    let stream = connection.into_parts().io.into_inner().stream;
    match end {
        End::Closed => linger(stream).await,
        End::Broken => reset(&stream),
        End::Overdue(Phase::Head) => answer_timeout(stream).await,
        End::Overdue(_) => {}
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
    let mut farewell = pin!(farewell(activity, drain));
    let mut draining = false;
    poll_fn(|cx| {
        if let Poll::Ready(ended) = Pin::new(&mut *connection).poll(cx) {
            return Poll::Ready(End::of(ended));
        }
        if !draining && farewell.as_mut().poll(cx).is_ready() {
            draining = true;
            Pin::new(&mut *connection).graceful_shutdown();
            if let Poll::Ready(ended) = Pin::new(&mut *connection).poll(cx) {
                return Poll::Ready(End::of(ended));
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

/// Lets a client know of the drain, and returns when it has had time to.
///
/// To close an idle connection at once would cost a client that is just sending
/// its next request an error. It gets an answer instead, and is told that it is
/// the last one.
async fn farewell(activity: &Activity, drain: &mut Drain) {
    drain.requested().await;
    activity.end();
    sleep(FAREWELL).await;
}

impl End {
    /// The service's body is the only thing of ours that can fail.
    fn of(ended: hyper::Result<()>) -> Self {
        if ended.is_err_and(|error| error.is_user()) { Self::Broken } else { Self::Closed }
    }
}

/// Reads what a client still sends until it has seen that the connection ends.
/// To close with bytes unread would reset the connection, which can take away
/// an answer that is still on its way (RFC 9112, section 9.6).
async fn linger(mut stream: TcpStream) {
    let discard = async {
        stream.shutdown().await?;
        loop {
            stream.readable().await?;
            match stream.try_read(&mut [0; 8 * 1024]) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    };
    // Whoever keeps sending is reset after all.
    let _: Result<io::Result<()>, _> = timeout(LINGER, discard).await;
}

/// Closes so that what came of a response is not taken for the whole: in
/// HTTP/1.0 a body may end with its connection.
fn reset(stream: &TcpStream) {
    // The connection closes in any case.
    let _ = stream.set_zero_linger();
}

/// Tells a client that it was too slow. Best effort: what does not fit the
/// socket's buffer is not waited for.
async fn answer_timeout(stream: TcpStream) {
    if stream.try_write(REQUEST_TIMEOUT).is_ok() {
        linger(stream).await;
    }
}

//! One connection, from accept to close.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1::{self, Connection};
use hyper::service::{HttpService, service_fn};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tower::{Service, ServiceExt as _};

use super::ListenerSettings;
use super::activity::{Activity, Observed, UntilIdle};
use super::guard::{Guard, REFUSED_METHOD};
use super::interim::InterimQueue;
use crate::drain::Drain;

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// The address at which it reached us.
    pub local: SocketAddr,
}

type Io = TokioIo<Guard<Observed<TcpStream>>>;

/// How long a client may go on sending what nobody wants any more.
const LINGER: Duration = Duration::from_secs(2);

/// How a connection ended.
enum End {
    /// By itself, or by an error of the client that the library has answered.
    Closed,
    /// In the middle of a response.
    Broken,
    /// The client took longer than it may, and there is nothing to be said to that.
    Overdue,
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
    let interim = InterimQueue::default();
    let observed = Observed { stream, activity: Rc::clone(&activity) };
    let bounds = settings.head_bounds();
    let guard = Guard::new(observed, Rc::clone(&activity), bounds, interim.writer());
    let watched = service_fn(|mut request: Request<Incoming>| {
        activity.begin();
        let may_upgrade = introduce(&mut request, &activity, &interim);
        let is_tunnel = request.method() == Method::CONNECT;
        let (service, activity) = (service.clone(), Rc::clone(&activity));
        let interim = interim.clone();
        async move {
            let response = service.oneshot(request).await?;
            if may_upgrade {
                let granted = response.status() == StatusCode::SWITCHING_PROTOCOLS
                    || is_tunnel && response.status().is_success();
                activity.answer_upgrade(granted);
            }
            interim.close(&activity);
            activity.respond();
            Ok::<_, Infallible>(response.map(|body| UntilIdle::new(body, activity)))
        }
    });
    let mut connection = protocol.serve_connection(TokioIo::new(guard), watched);
    let end = drive(&mut connection, &activity, settings, &mut drain).await;
    // No answer is owed any more, so nobody has to wait for the rest.
    drop(drain);
    let stream = connection.into_parts().io.into_inner().into_inner().stream;
    match end {
        End::Closed => linger(stream).await,
        End::Broken => reset(&stream),
        End::Overdue => {}
    }
}

/// Tells the service what is known of a request besides itself: why it is not
/// the client's own, or how its client hears of interim responses. Says whether
/// the connection may change its protocol with the answer.
fn introduce(request: &mut Request<Incoming>, activity: &Activity, interim: &InterimQueue) -> bool {
    let may_upgrade = request.extensions().get::<OnUpgrade>().is_some();
    if request.method().as_str() == REFUSED_METHOD
        && let Some(malformed) = activity.refused()
    {
        request.extensions_mut().insert(malformed);
    } else if request.version() == Version::HTTP_11 {
        request.extensions_mut().insert(interim.open());
    }
    may_upgrade
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
    let mut stopping = false;
    let mut draining = false;
    poll_fn(|cx| {
        if let Poll::Ready(ended) = Pin::new(&mut *connection).poll(cx) {
            return Poll::Ready(End::of(ended));
        }
        stopping = stopping || drain_requested.as_mut().poll(cx).is_ready();
        // Whoever is in the middle of a head is told with the answer to it.
        if stopping && !draining && !activity.is_amid_head() {
            draining = true;
            Pin::new(&mut *connection).graceful_shutdown();
            if let Poll::Ready(ended) = Pin::new(&mut *connection).poll(cx) {
                return Poll::Ready(End::of(ended));
            }
        }
        while ticks.poll_tick(cx).is_ready() {
            if !activity.is_overdue(&settings.timeouts) {
                continue;
            }
            if !activity.give_up_head() {
                return Poll::Ready(End::Overdue);
            }
            // Now the guard lets the library read something that can be answered.
            if let Poll::Ready(ended) = Pin::new(&mut *connection).poll(cx) {
                return Poll::Ready(End::of(ended));
            }
        }
        Poll::Pending
    })
    .await
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

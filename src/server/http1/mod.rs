//! Connections of HTTP/1.0 and HTTP/1.1.

pub mod chunks;
pub mod guard;
pub mod head;

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1::Builder;
use hyper::service::{HttpService, service_fn};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{sleep_until, timeout};
use tokio_util::either::Either;
use tollgate_core::drain::Drain;
use tollgate_core::request::REFUSED_METHOD;
use tollgate_core::time::monotonic;

use super::discard::discard;
use super::drive::{End, drive};
use super::service::RequestService;
use super::settings::ListenerSettings;
use super::state::exchange::{ActiveExchange, Exchange};
use super::state::progress::Progress as _;
use super::state::tracked_body::TrackedBody;
use super::state::{ClientBody, ClientLink, Peer};
use super::ticker::{Ticker, idle_drain};
use super::transport::{Stream, reset, socket};
use super::tunnel::Tunnel;
use crate::message::expects_continue;
use guard::Guard;

/// After this time an idle connection gives back its memory.
const IDLE: Duration = Duration::from_secs(1);

/// How long a closing connection reads what the client still sends.
const LINGER: Duration = Duration::from_secs(2);

/// The HTTP library, set up once for all HTTP/1 connections of a listener on one worker.
pub struct Http1 {
    settings: Arc<ListenerSettings>,
    ticker: Ticker,
    builder: Builder,
}

impl Http1 {
    pub fn new(settings: Arc<ListenerSettings>, ticker: Ticker) -> Self {
        let mut builder = Builder::new();
        builder
            .max_headers(settings.max_headers)
            .max_header_size(settings.max_head_bytes)
            .max_buf_size(settings.max_head_bytes.max(64 * 1024))
            .header_read_timeout(None);
        Self { settings, ticker, builder }
    }

    /// Serves one connection until it ends or is idle, with the service that `service` makes for
    /// its peer.
    pub async fn serve<F, S>(
        &self,
        stream: Stream,
        peer: Peer,
        exchange: Exchange,
        drain: &mut Drain,
        service: &F,
    ) -> Served
    where
        F: Fn(Peer, Option<ClientLink>, &ListenerSettings) -> S,
        S: RequestService,
    {
        let settings = &*self.settings;
        let exchange = Rc::new(exchange);
        if self.ticker.is_draining() {
            exchange.begin_drain();
        }
        let state = Rc::new(ConnectionState::new(Rc::clone(&exchange)));
        let link = state.link.clone();
        let mut guard = Guard::new(stream, Rc::clone(&exchange), settings.head_bounds(), &link);
        let service = tracked(service(peer, Some(link), settings), &state);
        // Borrowed, because the library moves what it gets several times.
        let mut connection = self.builder.serve_connection(TokioIo::new(&mut guard), service);
        let drained = poll_fn(|_| self.poll_drained(&exchange));
        let polled = Pin::new(&mut connection);
        let ticks = self.ticker.ticks();
        let rests = |since: &Instant| monotonic().duration_since(*since) >= IDLE;
        let idle = || exchange.idle().filter(rests);
        let end = drive(polled, &*exchange, &settings.timeouts, ticks, drained, idle).await;
        // The response in progress ends with the library.
        let is_responding = exchange.is_responding();
        let unread = connection.into_parts().read_buf;
        if let Some(tunnel) = state.granted.take() {
            let carried = tunnel.carry(guard, unread, settings.timeouts.tunnel, drain);
            Box::pin(carried).await;
            return Served::Ended(Ended::Closed("tunnel"));
        }
        let has_all = exchange.activity().is_read_closed()
            || (matches!(end, Ok(End::Closed))
                && exchange.is_closed_by_client()
                && unread.is_empty()
                && !guard.holds_bytes());
        let stream = guard.into_inner();
        match end {
            Ok(end) => Served::Ended(Ended::of(end, stream, has_all, is_responding)),
            Err(since) => Served::Idle(stream, since),
        }
    }

    /// Whether a drain closes the connection if it is idle. The ticks wake the task when that
    /// changes.
    fn poll_drained(&self, exchange: &Exchange) -> Poll<()> {
        if self.ticker.is_draining() {
            exchange.begin_drain();
        }
        if self.ticker.closes_idle() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Waits for the next request of a connection that is idle since then, without the memory
    /// that the library needs. Returns the stream when something arrives.
    ///
    /// # Errors
    /// If the connection ends.
    pub async fn rest(
        &self,
        stream: Stream,
        since: Instant,
        drain: &mut Drain,
    ) -> Result<Stream, Ended> {
        let end = since + self.settings.timeouts.keep_alive;
        tokio::select! {
            biased;
            () = socket(&stream).readable() => Ok(stream),
            () = sleep_until(end.into()) => Err(Ended::over(stream, End::Overdue.name())),
            () = idle_drain(drain) => {
                Err(Ended::Complete { stream, has_all: false, cause: End::Closed.name() })
            }
        }
    }
}

/// How far a connection was served.
pub enum Served {
    /// To its end.
    Ended(Ended),
    /// It is idle since then. Nothing was read that was not answered.
    Idle(Stream, Instant),
}

/// How a connection has ended.
pub enum Ended {
    /// It is closed, for this reason.
    Closed(&'static str),
    /// All responses are complete, and the connection must be closed.
    Complete {
        stream: Stream,
        /// Whether the client has sent nothing that was not read, and sends nothing more.
        has_all: bool,
        cause: &'static str,
    },
}

/// The body of a response to a request of HTTP/1.
type Tracked<B> = TrackedBody<B, ActiveExchange>;

/// What the service side and the stream side of the HTTP library share beside it.
struct ConnectionState<B> {
    exchange: Rc<Exchange>,
    link: ClientLink,
    /// The tunnel that the last response opens.
    granted: RefCell<Option<Tunnel<B, ActiveExchange>>>,
}

/// What the end of a response depends on in its request.
struct Asked {
    version: Version,
    may_upgrade: bool,
    /// Whether its client reads a response without a length until the connection ends.
    reads_to_end: bool,
}

impl Asked {
    fn of(request: &Request<ClientBody>) -> Self {
        let version = request.version();
        let may_upgrade = request.extensions().get::<OnUpgrade>().is_some();
        let reads_to_end = version == Version::HTTP_10 && request.method() != Method::HEAD;
        Self { version, may_upgrade, reads_to_end }
    }
}

/// Whether the response has a body without a length. HTTP/1.0 has no chunks, so the body ends with
/// the connection (RFC 9112, section 6.3).
fn ends_with_connection<B: Body>(response: &Response<B>) -> bool {
    let may_have_body =
        !matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    may_have_body
        && !response.headers().contains_key(CONTENT_LENGTH)
        && response.body().size_hint().exact().is_none()
}

impl<B> ConnectionState<B> {
    fn new(exchange: Rc<Exchange>) -> Self {
        Self { link: ClientLink::new(&exchange), exchange, granted: RefCell::default() }
    }

    /// Begins a request. If it stands for a malformed one, its extensions say so.
    fn begin(&self, mut request: Request<Incoming>) -> (ActiveExchange, Request<ClientBody>) {
        let active = self.exchange.begin(|| expects_continue(request.version(), request.headers()));
        self.link.interim.begin(request.version());
        if request.method().as_str() == REFUSED_METHOD
            && let Some(malformed) = self.exchange.refused()
        {
            request.extensions_mut().insert(malformed);
        }
        (active, request.map(|body| ClientBody::of_http1(body, &self.exchange)))
    }

    /// Takes the response of the service to such a request, which may open a tunnel.
    fn respond(&self, response: &mut Response<Tracked<B>>, asked: &Asked)
    where
        Tracked<B>: Body,
    {
        let tunnel = Tunnel::of(response);
        if asked.may_upgrade {
            self.exchange.answer_upgrade(tunnel.is_some());
        }
        let must_end = self.exchange.is_draining()
            || !self.exchange.can_read_body()
            || asked.reads_to_end && ends_with_connection(response);
        if must_end && tunnel.is_none() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let is_last = response.headers().get(CONNECTION).is_some_and(|it| it == "close");
        if is_last && asked.version == Version::HTTP_10 {
            // To a response of HTTP/1.1 the library would add `keep-alive`.
            *response.version_mut() = Version::HTTP_10;
        }
        self.granted.replace(tunnel);
        self.link.interim.close(&self.exchange);
        self.exchange.respond(is_last);
    }
}

impl Ended {
    /// How a connection has ended. `is_responding`: whether a part of a response is missing.
    fn of(end: End, stream: Stream, has_all: bool, is_responding: bool) -> Self {
        let cause = end.name();
        match end {
            End::Closed | End::Failed | End::Excess(_) => Self::Complete { stream, has_all, cause },
            End::Overdue | End::Drained if !is_responding => Self::over(stream, cause),
            // A client of HTTP/1.0 would take what it has for the whole response.
            End::Overdue | End::Drained | End::Broken => {
                reset(&stream);
                Self::Closed(cause)
            }
        }
    }

    /// What the client still sends is not read. A client of TLS is told that nothing more comes (RFC
    /// 8446, section 6.1).
    const fn over(stream: Stream, cause: &'static str) -> Self {
        Self::Complete { stream, has_all: true, cause }
    }

    /// Why it has ended.
    pub const fn cause(&self) -> &'static str {
        match self {
            Self::Closed(cause) | Self::Complete { cause, .. } => cause,
        }
    }

    /// Closes the connection.
    pub async fn close(self) {
        match self {
            Self::Closed(_) => {}
            // Closing the socket says all that there is to say.
            Self::Complete { stream: Either::Left(_), has_all: true, .. } => {}
            Self::Complete { stream, has_all, .. } => Box::pin(close(stream, has_all)).await,
        }
    }
}

/// `service`, with the state of the connection kept up to date.
fn tracked<S>(
    service: S,
    state: &Rc<ConnectionState<S::Body>>,
) -> impl HttpService<Incoming, ResBody = Tracked<S::Body>, Error = Infallible> + use<S>
where
    S: RequestService,
{
    let state = Rc::clone(state);
    service_fn(move |request: Request<Incoming>| {
        let (active, request) = state.begin(request);
        let asked = Asked::of(&request);
        let responding = service.clone().call(request);
        let state = Rc::clone(&state);
        async move {
            let response = responding.await?;
            let mut response = response.map(|body| TrackedBody::new(body, active));
            state.respond(&mut response, &asked);
            Ok::<_, Infallible>(response)
        }
    })
}

/// Tells the client that the connection closes, and reads what it still sends until it has
/// seen that. If bytes were unread at the close, the system would reset the connection, and the
/// client could lose a response that is on its way (RFC 9112, section 9.6).
async fn close(mut stream: Stream, has_all: bool) {
    let closing = async {
        stream.shutdown().await?;
        if has_all {
            return Ok(());
        }
        discard(&mut stream).await
    };
    // A client that keeps sending for longer is reset after all.
    let _: Result<io::Result<()>, _> = timeout(LINGER, closing).await;
}

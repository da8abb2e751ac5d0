//! One endpoint as one worker sees it: its connections and its load.

mod connect;
mod counted;
mod http1;
mod http2;
mod send_error;
mod send_options;
mod stream;

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, Shared};
use http::uri::Scheme;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::task::spawn_local;
use tollgate_core::time::monotonic;

use connect::connect_http1;
pub use connect::{NewConnection, connect};
use http1::BrokenBody;
pub use http1::IdleRoom;
#[cfg(any(test, feature = "fuzzing"))]
pub use http1::fuzzing;
pub use send_error::SendError;
pub use send_options::SendOptions;

use super::body::RequestBody;
use super::endpoint_shared::{EndpointShared, Protocol};
use super::fault::Fault;
use super::settings::UpstreamSettings;
use super::shared::RequestPermit;
use crate::server::TunnelEnd;
use crate::telemetry::UpstreamTraffic;

/// New connections that one request may find closed or full.
const MAX_OPENED: u32 = 4;

/// A connection for one request.
#[derive(Debug)]
pub enum Connection {
    /// A connection that the request has for itself.
    Http1(http1::Connection),
    /// A stream on a connection that is shared with other requests, and the body of its
    /// response.
    Http2(http2::Stream, Option<Incoming>),
}

/// A request has its response.
pub struct Sent {
    pub response: Response<()>,
    /// The request without its body, if the connection has left it.
    pub request: Option<Box<Request<RequestBody>>>,
}

impl From<NewConnection> for Connection {
    fn from(connection: NewConnection) -> Self {
        match connection {
            NewConnection::Http1(connection) => Self::Http1(connection),
            NewConnection::Http2(connection) => Self::from(http2::Stream::of(Rc::new(connection))),
        }
    }
}

impl From<http2::Stream> for Connection {
    fn from(stream: http2::Stream) -> Self {
        Self::Http2(stream, None)
    }
}

impl Connection {
    pub fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(..))
    }

    /// Sends a request to `endpoint`. Dropping the future, and then the connection, cancels the
    /// request.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn send(
        &mut self,
        mut request: Box<Request<RequestBody>>,
        endpoint: &EndpointShared,
        options: SendOptions<'_>,
    ) -> Result<Sent, SendError> {
        match self {
            Self::Http1(connection) => {
                let sent = connection.send(request, &endpoint.authority, options).await;
                sent.map(|(response, request)| Sent { response, request: Some(request) })
            }
            Self::Http2(stream, body) => {
                let scheme = match endpoint.protocol {
                    Protocol::Tls { .. } => Scheme::HTTPS,
                    Protocol::Http1 | Protocol::Http2 => Scheme::HTTP,
                };
                http2::prepare(&mut request, &endpoint.authority, scheme);
                let (head, incoming) = stream.send(request).await?.into_parts();
                *body = Some(incoming);
                Ok(Sent { response: Response::from_parts(head, ()), request: None })
            }
        }
    }

    /// The connection after its protocol has changed, if that is possible.
    pub fn into_tunnel(self) -> Option<TunnelEnd> {
        match self {
            Self::Http1(connection) => connection.into_tunnel(),
            Self::Http2(..) => None,
        }
    }
}

/// The body of the latest response.
impl Body for Connection {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        match self.get_mut() {
            Self::Http1(connection) => connection.poll_frame(cx),
            Self::Http2(_, Some(body)) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(|_| BrokenBody)))
            }
            Self::Http2(_, None) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_end_stream(),
            Self::Http2(_, body) => body.as_ref().is_none_or(Body::is_end_stream),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(connection) => connection.size_hint(),
            Self::Http2(_, body) => {
                body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
            }
        }
    }
}

/// One endpoint as one worker sees it.
#[derive(Debug)]
pub struct Endpoint {
    shared: Arc<EndpointShared>,
    connect_timeout: Duration,
    traffic: UpstreamTraffic,
    pools: Rc<Pools>,
    /// An HTTP/2 connection that is being opened, for all requests that wait for one.
    opening: RefCell<Option<Opening>>,
    in_flight: Cell<usize>,
}

type Opening = Shared<LocalBoxFuture<'static, Result<(), Fault>>>;

#[derive(Debug)]
struct Pools {
    http1: http1::Pool,
    http2: http2::Pool,
    /// Whether the endpoint is known to speak HTTP/2.
    is_http2: Cell<bool>,
}

impl Pools {
    /// Adds a new connection for the next request.
    fn add(&self, connection: NewConnection) {
        match connection {
            NewConnection::Http1(connection) => {
                self.is_http2.set(false);
                self.http1.keep(connection);
            }
            NewConnection::Http2(connection) => {
                self.is_http2.set(true);
                self.http2.add(Rc::new(connection));
            }
        }
    }
}

impl Endpoint {
    /// The bytes of its connections are counted in `traffic`. Its idle connections may use `room`.
    pub fn new(
        shared: Arc<EndpointShared>,
        settings: &UpstreamSettings,
        traffic: &UpstreamTraffic,
        room: &Rc<IdleRoom>,
    ) -> Self {
        let excess = http1::Excess::new(&settings.name, &shared.shown, traffic);
        let bound = http1::IdleBound::new(settings.max_idle, room);
        let pools = Rc::new(Pools {
            http1: http1::Pool::new(bound, settings.idle_timeout, excess),
            http2: http2::Pool::new(settings.idle_timeout),
            is_http2: Cell::new(matches!(shared.protocol, Protocol::Http2)),
        });
        Self {
            shared,
            connect_timeout: settings.connect_timeout,
            traffic: traffic.clone(),
            pools,
            opening: RefCell::default(),
            in_flight: Cell::new(0),
        }
    }

    /// The part that all workers share.
    pub fn shared(&self) -> &Arc<EndpointShared> {
        &self.shared
    }

    /// Requests in flight, from this worker.
    pub fn load(&self) -> usize {
        self.in_flight.get()
    }

    /// An open connection with room for a request at `now`. The endpoint may have closed it
    /// without this being known yet.
    pub fn reuse(&self, now: Instant) -> Option<Connection> {
        if self.pools.is_http2.get()
            && let Some(stream) = self.pools.http2.stream()
        {
            return Some(stream.into());
        }
        self.pools.http1.reuse(now).map(Connection::Http1)
    }

    /// See [`http1::Pool::close_expired`] and [`http2::Pool::close_expired`].
    pub fn close_expired(&self) {
        self.pools.http1.close_expired(monotonic());
        self.pools.http2.close_expired();
    }

    /// Opens a connection, which is driven by its own tasks on this worker.
    ///
    /// # Errors
    /// If none can be opened in time.
    pub async fn connect(&self) -> Result<Connection, Fault> {
        let mut opened = 0;
        while self.pools.is_http2.get() {
            let http2 = &self.pools.http2;
            if let Some(stream) = http2.stream() {
                return Ok(stream.into());
            }
            if http2.is_full() || opened == MAX_OPENED {
                // All connections carry as many requests as the endpoint allows.
                let none = if http2.is_full() { Fault::TooManyStreams } else { Fault::Closed };
                return http2.waiting_stream().map(Connection::from).ok_or(none);
            }
            self.open_http2().await?;
            opened += 1;
        }
        match connect(&self.shared, self.connect_timeout, &self.traffic).await? {
            NewConnection::Http2(connection) => {
                let connection = Rc::new(connection);
                self.pools.is_http2.set(true);
                self.pools.http2.add(Rc::clone(&connection));
                Ok(http2::Stream::of(connection).into())
            }
            http1 @ NewConnection::Http1(_) => Ok(http1.into()),
        }
    }

    /// Opens a connection that can change its protocol.
    ///
    /// # Errors
    /// If none can be opened in time.
    pub async fn connect_for_tunnel(&self) -> Result<Connection, Fault> {
        let opened = connect_http1(&self.shared, self.connect_timeout, &self.traffic).await;
        opened.map(Connection::Http1)
    }

    /// Adds one more connection to the pool. Concurrent requests wait for the same
    /// connection instead of opening one each.
    async fn open_http2(&self) -> Result<(), Fault> {
        let opening = self.opening.borrow().clone().filter(|latest| latest.peek().is_none());
        let opening = opening.unwrap_or_else(|| {
            let shared = Arc::clone(&self.shared);
            let limit = self.connect_timeout;
            let pools = Rc::clone(&self.pools);
            let traffic = self.traffic.clone();
            // In a task, so that it continues if the request that began it is cancelled.
            let task = spawn_local(async move {
                let opened = connect(&shared, limit, &traffic).await;
                opened.map(|connection| pools.add(connection))
            });
            let opening = task.map(|ended| ended.unwrap_or(Err(Fault::Internal)));
            let opening = opening.boxed_local().shared();
            self.opening.replace(Some(opening.clone()));
            opening
        });
        let opened = opening.clone().await;
        self.opening.borrow_mut().take_if(|latest| latest.ptr_eq(&opening));
        opened
    }
}

/// A request in flight to an endpoint. Dropping it ends the request.
#[derive(Debug)]
pub struct InFlight {
    endpoint: Rc<Endpoint>,
    permit: Option<RequestPermit>,
}

impl InFlight {
    pub fn new(endpoint: Rc<Endpoint>, permit: Option<RequestPermit>) -> Self {
        endpoint.in_flight.set(endpoint.in_flight.get() + 1);
        Self { endpoint, permit }
    }

    pub fn endpoint(&self) -> &Rc<Endpoint> {
        &self.endpoint
    }

    /// The request leaves this endpoint and keeps its permit for the upstream.
    pub fn into_permit(mut self) -> Option<RequestPermit> {
        self.permit.take()
    }

    /// The response has been read to its end: its connection can be used again.
    pub fn end(self, connection: Connection) {
        match connection {
            Connection::Http1(connection) => self.endpoint.pools.http1.keep(connection),
            Connection::Http2(stream, _) => stream.end(),
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.endpoint.in_flight.set(self.endpoint.in_flight.get() - 1);
    }
}

//! One endpoint as one worker sees it: its connections and its load.

mod dial;
mod http1;
mod http2;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, Shared};
use http::uri::Scheme;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::task::spawn_local;

use dial::dial_http1;
pub(super) use dial::{Dialed, dial};

use super::fault::Fault;
use super::member::{Member, Protocol};
use super::shared::Place;
use super::{RequestBody, UpstreamSettings};

/// Connections that one request may find closed, or full, as soon as they are open.
const MAX_OPENED: u32 = 4;

/// A way to an endpoint for one request.
#[derive(Debug)]
pub(super) enum Connection {
    /// A connection for itself.
    Http1(http1::Connection),
    /// A stream on a connection with others.
    Http2(http2::Stream),
}

impl From<Dialed> for Connection {
    fn from(dialed: Dialed) -> Self {
        match dialed {
            Dialed::Http1(connection) => Self::Http1(connection),
            Dialed::Http2(connection) => Self::Http2(http2::Stream::of(Rc::new(connection))),
        }
    }
}

impl Connection {
    pub(super) fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// Gives a request for `member` the form that it has on this connection.
    pub(super) fn prepare(&self, request: &mut Request<RequestBody>, member: &Member) {
        match self {
            Self::Http1(_) => http1::prepare(request, &member.authority),
            Self::Http2(_) => {
                let scheme = match member.protocol {
                    Protocol::Tls { .. } => Scheme::HTTPS,
                    Protocol::Http1 | Protocol::Http2 => Scheme::HTTP,
                };
                http2::prepare(request, &member.authority, scheme);
            }
        }
    }

    /// Sends a request. To drop the future, and then the connection, is to cancel it.
    ///
    /// # Errors
    /// If there is no response; then the request, if nothing of it was sent.
    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Unanswered> {
        match self {
            Self::Http1(connection) => connection.send(request).await,
            Self::Http2(stream) => stream.send(request).await,
        }
    }

    /// What has gone wrong with a request on it.
    pub(super) fn fault(&self, error: &hyper::Error) -> Fault {
        match (Fault::of(error), self) {
            (Fault::Closed, Self::Http2(stream)) if !stream.is_first_to_notice() => {
                Fault::ClosedWithOthers
            }
            (fault, _) => fault,
        }
    }
}

/// There is no response.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) error: hyper::Error,
    /// The request, if no byte of it was sent.
    pub(super) request: Option<Request<RequestBody>>,
}

/// One endpoint as one worker sees it.
#[derive(Debug)]
pub(super) struct Endpoint {
    member: Arc<Member>,
    connect_timeout: Duration,
    pools: Rc<Pools>,
    /// A connection of HTTP/2 that is being opened, for all who wait for one.
    opening: RefCell<Option<Opening>>,
    in_flight: Cell<usize>,
}

type Opening = Shared<LocalBoxFuture<'static, Result<(), Fault>>>;

#[derive(Debug)]
struct Pools {
    http1: http1::Pool,
    http2: http2::Pool,
    /// Whether the endpoint speaks HTTP/2, as far as is known.
    is_http2: Cell<bool>,
}

impl Pools {
    /// Keeps a new connection for whoever comes next.
    fn add(&self, dialed: Dialed) {
        match dialed {
            Dialed::Http1(connection) => {
                self.is_http2.set(false);
                self.http1.keep(connection);
            }
            Dialed::Http2(connection) => {
                self.is_http2.set(true);
                self.http2.add(Rc::new(connection));
            }
        }
    }
}

impl Endpoint {
    pub(super) fn new(member: Arc<Member>, settings: &UpstreamSettings) -> Self {
        let pools = Rc::new(Pools {
            http1: http1::Pool::new(settings.max_idle, settings.idle_timeout),
            http2: http2::Pool::new(settings.idle_timeout),
            is_http2: Cell::new(matches!(member.protocol, Protocol::Http2)),
        });
        Self {
            member,
            connect_timeout: settings.connect_timeout,
            pools,
            opening: RefCell::default(),
            in_flight: Cell::new(0),
        }
    }

    /// What all workers share of it.
    pub(super) fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// Requests in flight, from this worker.
    pub(super) fn load(&self) -> usize {
        self.in_flight.get()
    }

    /// A connection that still stands and has room, as far as can be told.
    pub(super) fn reuse(&self) -> Option<Connection> {
        if self.pools.is_http2.get()
            && let Some(stream) = self.pools.http2.stream()
        {
            return Some(Connection::Http2(stream));
        }
        self.pools.http1.reuse().map(Connection::Http1)
    }

    /// See [`http1::Pool::close_expired`] and [`http2::Pool::close_expired`].
    pub(super) fn close_expired(&self) {
        self.pools.http1.close_expired();
        self.pools.http2.close_expired();
    }

    /// Opens a connection, which lives in tasks of its own on this worker.
    ///
    /// # Errors
    /// If none can be opened, or not in time.
    pub(super) async fn connect(&self) -> Result<Connection, Fault> {
        let mut opened = 0;
        while self.pools.is_http2.get() {
            let http2 = &self.pools.http2;
            if let Some(stream) = http2.stream() {
                return Ok(Connection::Http2(stream));
            }
            if http2.is_full() || opened == MAX_OPENED {
                // There may be connections, all of them with requests of others.
                let none = if http2.is_full() { Fault::Crowded } else { Fault::Closed };
                return http2.waiting_stream().map(Connection::Http2).ok_or(none);
            }
            self.opened().await?;
            opened += 1;
        }
        match dial(&self.member, self.connect_timeout).await? {
            Dialed::Http2(connection) => {
                let connection = Rc::new(connection);
                self.pools.is_http2.set(true);
                self.pools.http2.add(Rc::clone(&connection));
                Ok(Connection::Http2(http2::Stream::of(connection)))
            }
            dialed @ Dialed::Http1(_) => Ok(dialed.into()),
        }
    }

    /// Opens a connection that can change its protocol.
    ///
    /// # Errors
    /// If none can be opened, or not in time.
    pub(super) async fn connect_for_tunnel(&self) -> Result<Connection, Fault> {
        dial_http1(&self.member, self.connect_timeout).await.map(Connection::Http1)
    }

    /// Returns when one more connection is there for everybody. Many requests
    /// that come at once to an endpoint without one open a single one.
    async fn opened(&self) -> Result<(), Fault> {
        let opening = self.opening.borrow().clone().filter(|latest| latest.peek().is_none());
        let opening = opening.unwrap_or_else(|| {
            let (member, limit) = (Arc::clone(&self.member), self.connect_timeout);
            let pools = Rc::clone(&self.pools);
            // In a task: it goes on when whoever asked for it has gone.
            let task =
                spawn_local(
                    async move { dial(&member, limit).await.map(|dialed| pools.add(dialed)) },
                );
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

/// A request in flight to an endpoint.
#[derive(Debug)]
pub(super) struct Lease {
    endpoint: Rc<Endpoint>,
    /// The place in the upstream that the request takes, given up with it.
    place: Option<Place>,
}

impl Lease {
    pub(super) fn new(endpoint: Rc<Endpoint>, place: Option<Place>) -> Self {
        endpoint.in_flight.set(endpoint.in_flight.get() + 1);
        Self { endpoint, place }
    }

    pub(super) fn endpoint(&self) -> &Rc<Endpoint> {
        &self.endpoint
    }

    /// The request leaves this endpoint and keeps its place in the upstream.
    pub(super) fn leave(mut self) -> Option<Place> {
        self.place.take()
    }

    /// The response has been read to its end: its connection can serve again.
    pub(super) fn end(self, connection: Connection) {
        match connection {
            Connection::Http1(connection) => self.endpoint.pools.http1.keep(connection),
            Connection::Http2(stream) => stream.end(),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.endpoint.in_flight.set(self.endpoint.in_flight.get() - 1);
    }
}

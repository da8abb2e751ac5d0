//! One endpoint as one worker sees it: its connections and its load.

mod bounded;
mod connect;
mod connection;
mod counted;
mod http1;
mod http2;
mod pools;
mod room;
mod send_error;
mod send_options;
mod stream;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, Shared};
use tokio::task::spawn_local;
use tollgate_core::time::monotonic;

pub use bounded::Bound;
use bounded::Bounded;
use connect::connect_http1;
pub use connect::{NewConnection, connect};
pub use connection::{Connection, Sent};
pub use http1::IdleRoom;
#[cfg(any(test, feature = "fuzzing"))]
pub use http1::fuzzing;
use pools::Pools;
pub use room::{Granted, Queueing, Reservation, Reserved, Room};
pub use send_error::SendError;
pub use send_options::SendOptions;

use super::endpoint_shared::{EndpointShared, Protocol};
use super::fault::Fault;
use super::limit::ConnectionPermit;
use super::settings::UpstreamSettings;
use super::shared::RequestPermit;
use crate::telemetry::UpstreamTraffic;

/// New connections that one request may find closed or full.
const MAX_OPENED: u32 = 4;

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

impl Endpoint {
    /// The bytes of its connections are counted in `traffic`. Its idle connections may use `room`.
    /// `bound` is the bound of its connections, if there is one.
    pub fn new(
        shared: Arc<EndpointShared>,
        settings: &UpstreamSettings,
        traffic: &UpstreamTraffic,
        room: &Rc<IdleRoom>,
        bound: Option<&Bound>,
    ) -> Self {
        let excess = http1::Excess::new(&settings.name, &shared.shown, traffic);
        let idle_bound = http1::IdleBound::new(settings.max_idle, room);
        let pools = Rc::new(Pools {
            http1: http1::Pool::new(idle_bound, settings.idle_timeout, excess),
            http2: http2::Pool::new(settings.idle_timeout),
            is_http2: Cell::new(matches!(shared.protocol, Protocol::Http2)),
            bounded: bound.map(|bound| Box::new(Bounded::new(bound, shared.identity))),
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
        if let Some(bounded) = &self.pools.bounded {
            self.pools.show(bounded);
        }
    }

    /// Opens a connection, which is driven by its own tasks on this worker. If connections are
    /// bounded, the request has reserved the right to open one, or waits for it.
    ///
    /// # Errors
    /// If none can be opened in time.
    pub async fn connect(
        &self,
        mut reservation: Option<&mut Reservation<'_>>,
    ) -> Result<Connection, Fault> {
        let mut permit = reservation.as_deref_mut().and_then(Reservation::take_permit);
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
            if let Some(bounded) = &self.pools.bounded
                && permit.is_none()
                && self.opening().is_none()
            {
                permit = bounded.limit.try_permit(bounded.endpoint());
                if permit.is_none()
                    && let Some(stream) = http2.waiting_stream()
                {
                    return Ok(stream.into());
                }
                if permit.is_none() {
                    permit = bounded.wait(reservation.as_deref_mut()).await?;
                    continue;
                }
            }
            self.open_http2(permit.take()).await?;
            opened += 1;
        }
        if permit.is_none()
            && let Some(bounded) = &self.pools.bounded
        {
            permit = bounded.permit(reservation).await?;
        }
        match connect(&self.shared, self.connect_timeout, &self.traffic, permit).await? {
            NewConnection::Http2(connection) => {
                let connection = Rc::new(connection);
                let stream = http2::Stream::of(Rc::clone(&connection));
                self.pools.add_http2(connection);
                Ok(stream.into())
            }
            http1 @ NewConnection::Http1(_) => Ok(http1.into()),
        }
    }

    /// Opens a connection that can change its protocol.
    ///
    /// # Errors
    /// If none can be opened in time.
    pub async fn connect_for_tunnel(
        &self,
        mut reservation: Option<&mut Reservation<'_>>,
    ) -> Result<Connection, Fault> {
        let mut permit = reservation.as_deref_mut().and_then(Reservation::take_permit);
        if permit.is_none()
            && let Some(bounded) = &self.pools.bounded
        {
            permit = bounded.permit(reservation).await?;
        }
        let limit = self.connect_timeout;
        let opened = connect_http1(&self.shared, limit, &self.traffic, permit).await;
        opened.map(Connection::Http1)
    }

    /// The connection that is being opened for all requests that wait for one.
    fn opening(&self) -> Option<Opening> {
        self.opening.borrow().clone().filter(|latest| latest.peek().is_none())
    }

    /// Adds one more connection to the pool. Concurrent requests wait for the same
    /// connection instead of opening one each.
    async fn open_http2(&self, permit: Option<ConnectionPermit>) -> Result<(), Fault> {
        let opening = self.opening().unwrap_or_else(|| {
            let shared = Arc::clone(&self.shared);
            let limit = self.connect_timeout;
            let pools = Rc::clone(&self.pools);
            let traffic = self.traffic.clone();
            // In a task, so that it continues if the request that began it is cancelled.
            let task = spawn_local(async move {
                let opened = connect(&shared, limit, &traffic, permit).await;
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

/// How a request gets a connection to an endpoint whose connections are bounded.
impl Endpoint {
    /// Whether there may be a connection for a request at once.
    pub fn has_room(&self, is_for_tunnel: bool) -> bool {
        let Some(bounded) = &self.pools.bounded else { return true };
        let has_idle = || self.pools.http1.count() > 0 || self.pools.http2.has_room();
        !is_for_tunnel && has_idle() || bounded.limit.has_permit(bounded.endpoint())
    }

    /// A connection, or the right to open one, if there is one at once.
    pub fn reserve(&self, now: Instant, is_for_tunnel: bool) -> Option<Reserved> {
        if !is_for_tunnel {
            if let Some(connection) = self.reuse(now) {
                return Some(Reserved::Connection(connection));
            }
            if self.pools.is_http2.get() && self.opening().is_some() {
                return Some(Reserved::Share);
            }
        }
        let bounded = self.pools.bounded.as_ref()?;
        bounded.limit.try_permit(bounded.endpoint()).map(Reserved::Permit)
    }

    /// A part of a connection of HTTP/2 that carries as many requests as the endpoint allows. The
    /// request waits there until one of them ends.
    pub fn share(&self) -> Option<Reserved> {
        let stream = self.pools.http2.waiting_stream()?;
        Some(Reserved::Connection(Connection::from(stream)))
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        // Its task ends.
        self.holder.ask();
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
        let pools = &self.endpoint.pools;
        match connection {
            Connection::Http1(connection) => pools.http1.keep(connection),
            Connection::Http2(stream, _) => stream.end(),
        }
        if let Some(bounded) = &pools.bounded {
            pools.has_free(bounded);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.endpoint.in_flight.set(self.endpoint.in_flight.get() - 1);
    }
}

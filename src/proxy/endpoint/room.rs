//! Where the requests of one worker wait for a connection to an upstream with `max_connections`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::select;
use tokio::sync::Notify;
use tokio::time::timeout;
use tollgate_core::time::monotonic;

use super::connection::Connection;
use super::http1;
use crate::proxy::fault::Fault;
use crate::proxy::limit::{ConnectionLimit, ConnectionPermit, Grant, Place, Waiter, Wanted};
use crate::telemetry::{Attempts, UpstreamMetrics};

/// The requests of one worker that wait for a connection to an upstream.
#[derive(Debug)]
pub struct Room {
    /// No other room of the process has it.
    id: u64,
    /// Connections for requests that have not taken them yet, by their tickets.
    handed_over: RefCell<HashMap<u64, HandedOver>>,
    /// Is notified when the worker has a connection for more than one request.
    shared_opened: Notify,
}

/// A connection of the worker for a request that has waited.
#[derive(Debug)]
pub struct HandedOver {
    /// The identity of its endpoint.
    pub endpoint: u64,
    pub connection: Box<http1::Connection>,
}

/// What a request has before its attempt.
#[derive(Debug)]
pub enum Reserved {
    /// A connection that is open.
    Connection(Connection),
    /// The right to open one.
    Permit(ConnectionPermit),
    /// A part of a connection that another request opens.
    Share,
}

/// What a request gets that has waited.
#[derive(Debug)]
pub struct Granted {
    /// The identity of the endpoint.
    pub endpoint: u64,
    pub reserved: Reserved,
}

/// How one request gets connections whose number is bounded, over all its attempts.
#[derive(Debug)]
pub struct Reservation<'a> {
    /// What it has for its next attempt.
    pub reserved: Option<Reserved>,
    /// How it waits. None: it does not wait.
    pub queueing: Option<Queueing<'a>>,
}

impl Reservation<'_> {
    /// The connection that it has for its next attempt.
    pub fn take_connection(&mut self) -> Option<Connection> {
        match self.reserved.take_if(|it| matches!(it, Reserved::Connection(_)))? {
            Reserved::Connection(connection) => Some(connection),
            Reserved::Permit(_) | Reserved::Share => None,
        }
    }

    /// The right to open a connection that it has for its next attempt.
    pub fn take_permit(&mut self) -> Option<ConnectionPermit> {
        match self.reserved.take()? {
            Reserved::Permit(permit) => Some(permit),
            Reserved::Connection(_) | Reserved::Share => None,
        }
    }
}

/// How one request waits for connections, over all its attempts.
#[derive(Debug)]
pub struct Queueing<'a> {
    pub place: Place,
    /// How long it may still wait.
    pub left: Duration,
    pub metrics: &'a UpstreamMetrics,
    /// The record of the request, if there is one.
    pub attempts: Option<&'a Attempts>,
}

impl Room {
    /// A room without requests.
    pub fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            id: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            handed_over: RefCell::default(),
            shared_opened: Notify::new(),
        }
    }

    /// Its number.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The worker has a connection of HTTP/2, so that requests which wait need none of their own.
    pub fn shared_opened(&self) {
        self.shared_opened.notify_waiters();
    }

    /// Hands a connection over to the request with this ticket, which has just left the queue.
    pub fn hand_over(&self, ticket: u64, connection: HandedOver) {
        self.handed_over.borrow_mut().insert(ticket, connection);
    }

    /// Waits for a connection, or for the right to open one. None: the worker has a connection of
    /// HTTP/2 now, which the request may use.
    ///
    /// # Errors
    /// If the queue is full, or no connection becomes free in time.
    pub async fn wait(
        &self,
        limit: &Arc<ConnectionLimit>,
        queueing: &mut Queueing<'_>,
        wanted: Wanted,
    ) -> Result<Option<Granted>, Fault> {
        if queueing.left.is_zero() {
            return Err(Fault::QueueTimeout);
        }
        let left = queueing.left;
        let waiter = limit.enter(&mut queueing.place, wanted, self.id);
        let waiter = waiter.map_err(|_| Fault::QueueFull)?;
        let mut waiting = Waiting { room: self, waiter, queueing, begun: monotonic() };
        let opened = self.shared_opened.notified();
        let granted = select! {
            biased;
            granted = timeout(left, waiting.waiter.granted()) => granted,
            () = opened => return Ok(None),
        };
        match granted {
            Ok(Some(Grant::Permit(permit))) => {
                let endpoint = permit.endpoint();
                Ok(Some(Granted { endpoint, reserved: Reserved::Permit(permit) }))
            }
            Ok(Some(Grant::HandedOver)) => {
                let taken = self.handed_over.borrow_mut().remove(&waiting.waiter.ticket());
                let HandedOver { endpoint, connection } = taken.ok_or(Fault::Internal)?;
                let reserved = Reserved::Connection(Connection::Http1(connection));
                Ok(Some(Granted { endpoint, reserved }))
            }
            Ok(None) => Err(Fault::Internal),
            Err(_) => Err(Fault::QueueTimeout),
        }
    }
}

/// A request in the queue. Dropping it records how long it has waited, and closes a connection that
/// it was handed and has not taken.
struct Waiting<'w, 'a> {
    room: &'w Room,
    waiter: Waiter,
    queueing: &'w mut Queueing<'a>,
    begun: Instant,
}

impl Drop for Waiting<'_, '_> {
    fn drop(&mut self) {
        let waited = monotonic().saturating_duration_since(self.begun);
        let Queueing { left, metrics, attempts, .. } = &mut *self.queueing;
        *left = left.saturating_sub(waited);
        metrics.queued(waited);
        if let Some(attempts) = attempts {
            attempts.queued(waited);
        }
        let unused = self.room.handed_over.borrow_mut().remove(&self.waiter.ticket());
        drop(unused);
    }
}

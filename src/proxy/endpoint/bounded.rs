//! What an endpoint with `max_connections` needs: the limit over all workers, and how a request waits.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::room::{Reservation, Reserved, Room};
use crate::proxy::fault::Fault;
use crate::proxy::limit::{ConnectionLimit, ConnectionPermit, Holder, Wanted};

/// The bound of an upstream, and where the requests of one worker wait for its connections.
#[derive(Clone, Debug)]
pub struct Bound {
    pub limit: Arc<ConnectionLimit>,
    pub room: Rc<Room>,
}

/// What connects the connections of a worker to an endpoint with those of other workers.
#[derive(Debug)]
pub struct Bounded {
    pub limit: Arc<ConnectionLimit>,
    pub room: Rc<Room>,
    pub holder: Arc<Holder>,
    /// Whether a task waits for requests that need a connection.
    pub is_watched: Cell<bool>,
}

impl Bounded {
    /// For the endpoint with this identity.
    pub fn new(Bound { limit, room }: &Bound, endpoint: u64) -> Self {
        let holder = Holder::new(endpoint);
        limit.add_holder(&holder);
        Self {
            holder,
            limit: Arc::clone(limit),
            room: Rc::clone(room),
            is_watched: Cell::new(false),
        }
    }

    /// The identity of the endpoint.
    pub fn endpoint(&self) -> u64 {
        self.holder.endpoint()
    }

    /// A permit for a new connection: one that is left, or one that the request waits for.
    ///
    /// # Errors
    /// If the queue is full, or no connection becomes free in time.
    pub async fn permit(
        &self,
        mut reservation: Option<&mut Reservation<'_>>,
    ) -> Result<Option<ConnectionPermit>, Fault> {
        let mut permit = self.limit.try_permit(self.endpoint());
        while permit.is_none() {
            permit = self.wait(reservation.as_deref_mut()).await?;
        }
        Ok(permit)
    }

    /// Waits for a permit. None: the worker has a connection of HTTP/2 now.
    ///
    /// # Errors
    /// If the queue is full, or no connection becomes free in time. A request that may not wait
    /// finds the queue full.
    pub async fn wait(
        &self,
        reservation: Option<&mut Reservation<'_>>,
    ) -> Result<Option<ConnectionPermit>, Fault> {
        let queueing = reservation.and_then(|it| it.queueing.as_mut()).ok_or(Fault::QueueFull)?;
        let wanted = Wanted { only: Some(self.endpoint()), is_new: true, ..Wanted::default() };
        let granted = self.room.wait(&self.limit, queueing, wanted).await?;
        Ok(granted.and_then(|granted| match granted.reserved {
            Reserved::Permit(permit) => Some(permit),
            Reserved::Connection(_) | Reserved::Share => None,
        }))
    }
}

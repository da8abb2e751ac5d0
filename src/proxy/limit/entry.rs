//! A request in the queue. `P` is what it waits for.

use std::net::IpAddr;

use smallvec::SmallVec;
use tokio::sync::oneshot::Sender;

/// The place of one request in the queue, also after it has left the queue for an attempt.
#[derive(Debug)]
pub struct Place {
    /// The network of the client. Its clients take turns as one.
    pub client: IpAddr,
    /// Its number. A request that waits again keeps it, and so comes before later ones of its
    /// client. None: it has not waited yet.
    pub ticket: Option<u64>,
}

/// The endpoints that a request may use, by their identities.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only this one.
    pub only: Option<u64>,
    /// Not these, at which it has failed.
    pub except: SmallVec<[u64; 2]>,
    /// Whether it needs a connection that has not been used.
    pub is_new: bool,
}

/// What a request in the queue gets.
#[derive(Debug)]
pub enum Grant<P> {
    /// It may open a connection.
    Permit(P),
    /// A connection of its worker, which is in the room of the worker; by its ticket.
    HandedOver,
}

/// A request as the queue knows it.
#[derive(Debug)]
pub struct Entry<P> {
    pub wanted: Wanted,
    /// The room of its worker.
    pub room: u64,
    pub sender: Sender<Grant<P>>,
}

impl<P> Entry<P> {
    pub fn accepts(&self, endpoint: u64) -> bool {
        self.wanted.only.is_none_or(|only| only == endpoint)
            && !self.wanted.except.contains(&endpoint)
    }
}

/// A request that has left the queue for a connection of its worker.
#[derive(Debug)]
pub struct Next<P> {
    pub ticket: u64,
    pub sender: Sender<Grant<P>>,
}

impl<P> Next<P> {
    /// The connection is where the request looks for it.
    pub fn grant_handed_over(self) {
        // The request is on this thread, and takes the connection away if it leaves.
        let _ = self.sender.send(Grant::HandedOver);
    }
}

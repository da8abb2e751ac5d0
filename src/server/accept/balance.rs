//! Balances the connections of a listener among workers.
//!
//! The kernel distributes connections by a hash of their addresses. For many
//! connections the result is even. For a few long-lived ones, such as those of a load
//! balancer, it is not, and they stay where they are. So a worker that accepts a
//! connection compares its number of open connections with those of other workers, and
//! hands the connection off to one that has fewer. If connections come and go evenly,
//! all workers have about the same number and none is handed off.
//!
//! A worker looks at a few others only, starting from a random one: a choice among a few
//! finds one that is nearly the least busy of all (M. Mitzenmacher, "The Power of Two
//! Choices in Randomized Load Balancing", 2001).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::UnixStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::either::Either;

use super::permits::Permit;
use crate::server::state::{Peer, Place};
use crate::server::transport::{Tcp, Transport};

/// How many other workers are compared for each connection.
const COMPARED_WORKERS: usize = 8;

/// A connection that was accepted, has a permit, and is assigned to a worker.
#[derive(Debug)]
pub struct Accepted {
    pub transport: Transport,
    pub peer: Peer,
    pub assignment: Assignment,
}

/// Counts one open connection of a worker; held while the connection is served.
#[derive(Debug)]
pub struct Assignment {
    workers: Arc<Workers>,
    worker: usize,
    permit: Permit,
}

impl Drop for Assignment {
    fn drop(&mut self) {
        self.workers.0[self.worker].open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All workers of a listener.
#[derive(Debug)]
struct Workers(Box<[Worker]>);

/// The part of a worker that other workers use.
#[derive(Debug)]
#[repr(align(128))] // processors fetch cache lines of 64 bytes in pairs
struct Worker {
    /// Number of connections that are served or assigned.
    open: AtomicUsize,
    handoff: UnboundedSender<Detached>,
}

/// A connection on its way from one worker to another, registered with no runtime.
/// Permits bound how many there are.
#[derive(Debug)]
struct Detached {
    socket: Either<std::net::TcpStream, std::os::unix::net::UnixStream>,
    peer: Peer,
    assignment: Assignment,
}

impl Detached {
    fn new(Accepted { transport, peer, assignment }: Accepted) -> io::Result<Self> {
        let socket = match transport {
            Either::Left(tcp) => Either::Left(tcp.into_unregistered()?),
            Either::Right(unix) => Either::Right(unix.into_std()?),
        };
        Ok(Self { socket, peer, assignment })
    }

    fn attach(self) -> io::Result<Accepted> {
        let Self { socket, peer, assignment } = self;
        let transport = match socket {
            Either::Left(tcp) => Either::Left(Tcp::new(tcp)),
            Either::Right(unix) => Either::Right(UnixStream::from_std(unix)?),
        };
        Ok(Accepted { transport, peer, assignment })
    }
}

/// Assigns the connections that one worker accepts.
#[derive(Debug)]
pub struct Balancer {
    workers: Arc<Workers>,
    own: usize,
}

/// Tells how many connections of a listener are open.
#[derive(Clone, Debug)]
pub struct OpenConnections(Arc<Workers>);

impl OpenConnections {
    /// The connections of all workers that are served or assigned.
    pub fn count(&self) -> usize {
        (0..self.0.0.len()).map(|worker| self.0.open(worker)).sum()
    }
}

/// The connections that other workers hand off to this one.
#[derive(Debug)]
pub struct Handoff(UnboundedReceiver<Detached>);

/// The balancer and the handoff of each of `workers`, and the connections of all of them.
pub fn among(workers: usize) -> (impl Iterator<Item = (Balancer, Handoff)>, OpenConnections) {
    let worker = |_| {
        let (handoff, received) = unbounded_channel();
        (Worker { open: AtomicUsize::new(0), handoff }, Handoff(received))
    };
    let (workers, handoffs): (Vec<_>, Vec<_>) = (0..workers).map(worker).unzip();
    let workers = Arc::new(Workers(workers.into()));
    let open = OpenConnections(Arc::clone(&workers));
    let balancer = move |(own, handoff)| (Balancer { workers: Arc::clone(&workers), own }, handoff);
    (handoffs.into_iter().enumerate().map(balancer), open)
}

impl Balancer {
    /// Assigns a connection that was accepted here. Returns it if this worker is to
    /// serve it; None if it was handed off to another worker.
    ///
    /// # Errors
    /// If the runtime cannot release the connection, which is then closed.
    pub fn assign(
        &self,
        transport: Transport,
        peer: Peer,
        permit: Permit,
    ) -> Option<io::Result<Accepted>> {
        let worker = self.choose();
        let accepted = Accepted { transport, peer, assignment: self.count(worker, permit) };
        if worker == self.own {
            return Some(Ok(accepted));
        }
        let detached = match Detached::new(accepted) {
            Ok(detached) => detached,
            Err(error) => return Some(Err(error)),
        };
        let mut returned = self.workers.0[worker].handoff.send(detached).err()?.0;
        // The other worker takes no more connections: it stops sooner than this one.
        returned.assignment.move_to(self.own);
        Some(returned.attach())
    }

    fn count(&self, worker: usize, permit: Permit) -> Assignment {
        let workers = Arc::clone(&self.workers);
        workers.0[worker].open.fetch_add(1, Ordering::Relaxed);
        Assignment { workers, worker, permit }
    }

    /// Chooses this worker unless another has fewer connections. A handoff costs
    /// something, so with many connections the difference must be above an eighth.
    fn choose(&self) -> usize {
        let own = self.workers.open(self.own);
        let others = self.workers.0.len() - 1;
        if own == 0 || others == 0 {
            return self.own;
        }
        let first = fastrand::usize(..others);
        let other = |step| (self.own + 1 + (first + step) % others) % (others + 1);
        let compared = (0..others.min(COMPARED_WORKERS)).map(other);
        // Among equals the first is a random one, so that not all workers choose the same.
        let least = compared.map(|other| (self.workers.open(other), other)).min_by_key(|it| it.0);
        match least {
            Some((open, other)) if own > open + open / 8 => other,
            _ => self.own,
        }
    }
}

impl Workers {
    fn open(&self, worker: usize) -> usize {
        self.0[worker].open.load(Ordering::Relaxed)
    }
}

impl Assignment {
    /// The place of the connection, which another one may take. None: none may.
    pub fn place(&self) -> Option<Arc<Place>> {
        self.permit.place()
    }

    fn move_to(&mut self, worker: usize) {
        self.workers.0[worker].open.fetch_add(1, Ordering::Relaxed);
        self.workers.0[self.worker].open.fetch_sub(1, Ordering::Relaxed);
        self.worker = worker;
    }
}

impl Handoff {
    /// The next connection that another worker hands off. None: the handoff is closed
    /// and empty.
    ///
    /// # Errors
    /// If the connection cannot be registered with this worker's runtime. It is then
    /// closed.
    pub async fn next(&mut self) -> Option<io::Result<Accepted>> {
        self.0.recv().await.map(Detached::attach)
    }

    /// Accepts no further connections from other workers. Those already handed off can
    /// still be received.
    pub fn close(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests;

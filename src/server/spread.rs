//! Spreading connections over the workers of a listener.
//!
//! The kernel deals them out by a hash of their addresses. Of many that is even;
//! of a few that live long, such as those of a balancer in front, it is not, and
//! they stay where they are. So a worker that has just accepted one looks how
//! many the others have open, and passes it on to one that has fewer. When all
//! have the same, which is when they come and go evenly, nothing is passed on.
//!
//! A worker looks at a few others only, from a random one on: whoever has the
//! choice among some finds one that is nearly the least busy of all
//! (M. Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::either::Either;

use super::Peer;
use super::stream::Transport;
use super::terms::Vacancy;

/// Others that a worker looks at for each connection.
const LOOKS: usize = 8;

/// A connection that has been accepted, and may be served.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) transport: Transport,
    pub(super) peer: Peer,
    pub(super) place: Place,
}

/// One of the connections that may be open, and that its worker has. Held while
/// it is served.
#[derive(Debug)]
pub(super) struct Place {
    workers: Arc<Workers>,
    worker: usize,
    _vacancy: Vacancy,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.workers.0[self.worker].open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All workers of a listener.
#[derive(Debug)]
struct Workers(Box<[Worker]>);

/// What others know of a worker.
#[derive(Debug)]
#[repr(align(128))] // processors fetch cache lines of 64 bytes in pairs
struct Worker {
    /// Connections that it serves, or is about to.
    open: AtomicUsize,
    door: UnboundedSender<Passed>,
}

/// A connection on its way from one worker to another: of no runtime. There are
/// no more of them than connections may be open.
#[derive(Debug)]
struct Passed {
    socket: Either<std::net::TcpStream, std::os::unix::net::UnixStream>,
    peer: Peer,
    place: Place,
}

impl Passed {
    fn new(Guest { transport, peer, place }: Guest) -> io::Result<Self> {
        let socket = match transport {
            Either::Left(tcp) => Either::Left(tcp.into_std()?),
            Either::Right(unix) => Either::Right(unix.into_std()?),
        };
        Ok(Self { socket, peer, place })
    }

    fn arrive(self) -> io::Result<Guest> {
        let Self { socket, peer, place } = self;
        let transport = match socket {
            Either::Left(tcp) => Either::Left(TcpStream::from_std(tcp)?),
            Either::Right(unix) => Either::Right(UnixStream::from_std(unix)?),
        };
        Ok(Guest { transport, peer, place })
    }
}

/// The worker that accepts, among all.
#[derive(Debug)]
pub(super) struct Usher {
    workers: Arc<Workers>,
    own: usize,
}

/// What other workers pass on to this one.
#[derive(Debug)]
pub(super) struct Door(UnboundedReceiver<Passed>);

/// For each of so many workers its part.
pub(super) fn over(workers: usize) -> impl Iterator<Item = (Usher, Door)> {
    let worker = |_| {
        let (door, passed) = unbounded_channel();
        (Worker { open: AtomicUsize::new(0), door }, Door(passed))
    };
    let (workers, doors): (Vec<_>, Vec<_>) = (0..workers).map(worker).unzip();
    let workers = Arc::new(Workers(workers.into()));
    let usher = move |(own, door)| (Usher { workers: Arc::clone(&workers), own }, door);
    doors.into_iter().enumerate().map(usher)
}

impl Usher {
    /// Finds a place for a connection that was accepted here. Returns it if that
    /// is this worker; otherwise it has been passed on.
    ///
    /// # Errors
    /// If the system does not let go of it. Then it is closed.
    pub(super) fn seat(
        &self,
        (transport, peer): (Transport, Peer),
        vacancy: Vacancy,
    ) -> Option<io::Result<Guest>> {
        let worker = self.choose();
        let guest = Guest { transport, peer, place: self.place(worker, vacancy) };
        if worker == self.own {
            return Some(Ok(guest));
        }
        let passed = match Passed::new(guest) {
            Ok(passed) => passed,
            Err(error) => return Some(Err(error)),
        };
        let mut refused = self.workers.0[worker].door.send(passed).err()?.0;
        // That worker takes none any more: it ends sooner than this one.
        refused.place.change_to(self.own);
        Some(refused.arrive())
    }

    fn place(&self, worker: usize, vacancy: Vacancy) -> Place {
        let workers = Arc::clone(&self.workers);
        workers.0[worker].open.fetch_add(1, Ordering::Relaxed);
        Place { workers, worker, _vacancy: vacancy }
    }

    /// This worker, unless another has fewer connections. To move one is work, too,
    /// so among many it takes an eighth more to be worth it.
    fn choose(&self) -> usize {
        let (own, others) = (self.workers.open(self.own), self.workers.0.len() - 1);
        if own == 0 || others == 0 {
            return self.own;
        }
        let first = fastrand::usize(..others);
        let other = |step| (self.own + 1 + (first + step) % others) % (others + 1);
        let looked_at = (0..others.min(LOOKS)).map(other);
        // Of several the first, which is a random one: not all workers turn to the same.
        let least = looked_at.map(|other| (self.workers.open(other), other)).min_by_key(|it| it.0);
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

impl Place {
    fn change_to(&mut self, worker: usize) {
        self.workers.0[worker].open.fetch_add(1, Ordering::Relaxed);
        self.workers.0[self.worker].open.fetch_sub(1, Ordering::Relaxed);
        self.worker = worker;
    }
}

impl Door {
    /// The next connection that another worker passes on.
    ///
    /// # Errors
    /// If it cannot be registered with this worker's runtime. Then it is closed.
    pub(super) async fn next(&mut self) -> Option<io::Result<Guest>> {
        self.0.recv().await.map(Passed::arrive)
    }

    /// From now on nothing is passed on to this worker; what has been is
    /// still to be had.
    pub(super) fn close(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests;

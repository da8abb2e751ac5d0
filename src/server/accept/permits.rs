//! Permits that bound how many connections are open: for each listener, and for all
//! listeners together.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::places::{Places, TakenPlace};
use crate::server::settings::WhenFull;
use crate::server::state::Place;

/// How many connections a listener has, besides its bound, for clients that it is not for. They
/// are answered that, and keep no other client out.
pub const STRANGERS: usize = 16;

/// How long a new connection waits for the one that was asked to close, before another one is.
const ROOM: Duration = Duration::from_millis(50);

/// How many connections all listeners together may serve at once, in addition to the
/// bound of each listener.
#[derive(Clone, Debug)]
pub struct Capacity(Arc<Semaphore>);

impl Capacity {
    /// Allows this number of connections.
    pub fn new(connections: usize) -> Self {
        Self(Arc::new(Semaphore::new(bounded(connections))))
    }
}

/// The permits of one listener, shared by its workers.
#[derive(Clone, Debug)]
pub struct Permits {
    listener: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
    capacity: Capacity,
    /// The connections that go for others. None: they stay.
    places: Option<Arc<Places>>,
}

/// Permission to serve one connection; held while the connection is open.
#[derive(Debug)]
pub struct Permit {
    _listener: OwnedSemaphorePermit,
    _capacity: OwnedSemaphorePermit,
    place: Option<TakenPlace>,
}

impl Permit {
    /// The place of the connection, which another one may take. None: none may.
    pub fn place(&self) -> Option<Arc<Place>> {
        self.place.as_ref().map(|taken| Arc::clone(taken.place()))
    }
}

impl Permits {
    /// Permits for `connections` of one listener, within `capacity`.
    pub fn new(connections: usize, when_full: WhenFull, capacity: Capacity) -> Self {
        Self {
            listener: Arc::new(Semaphore::new(bounded(connections))),
            strangers: Arc::new(Semaphore::new(STRANGERS)),
            capacity,
            places: (when_full == WhenFull::CloseIdle).then(|| Arc::new(Places::new())),
        }
    }

    /// Waits for a permit. None: the semaphore was closed, which does not happen.
    pub async fn acquire(&self) -> Option<Permit> {
        Some(Permit {
            _listener: match &self.places {
                None => acquire(&self.listener).await?,
                Some(places) => make_room(&self.listener, places).await?,
            },
            _capacity: acquire(&self.capacity.0).await?,
            place: self.places.as_ref().map(Places::add),
        })
    }

    /// A permit for a client that the listener is not for. None: there are too many of them.
    pub fn for_stranger(&self) -> Option<Permit> {
        Some(Permit {
            _listener: Arc::clone(&self.strangers).try_acquire_owned().ok()?,
            _capacity: Arc::clone(&self.capacity.0).try_acquire_owned().ok()?,
            place: None,
        })
    }

    /// Changes the bound of the listener from `old` to `new` connections. If more than
    /// `new` are open, no permit is given until enough of them have closed.
    ///
    /// Must run on a local runtime.
    pub fn resize(&self, old: usize, new: usize) {
        let old = bounded(old);
        let new = bounded(new);
        if new >= old {
            return self.listener.add_permits(new - old);
        }
        let listener = Arc::clone(&self.listener);
        let removed = u32::try_from(old - new).unwrap_or(u32::MAX);
        spawn_local(async move {
            // The semaphore is fair: connections accepted later wait behind this.
            if let Ok(permits) = listener.acquire_many(removed).await {
                permits.forget();
            }
        });
    }
}

/// Waits for a permit of a listener, and has connections closed that wait for requests until there
/// is one.
async fn make_room(listener: &Arc<Semaphore>, places: &Places) -> Option<OwnedSemaphorePermit> {
    let mut permit = Arc::clone(listener).try_acquire_owned().ok();
    while permit.is_none() {
        places.make_room();
        // If none waits, one of those with requests ends, or waits then.
        if let Ok(acquired) = timeout(ROOM, acquire(listener)).await {
            permit = Some(acquired?);
        }
    }
    permit
}

async fn acquire(semaphore: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    // Mostly there is one. It takes none from those that wait: a permit that is returned while
    // others wait is theirs.
    match Arc::clone(semaphore).try_acquire_owned() {
        Ok(permit) => Some(permit),
        Err(_) => Arc::clone(semaphore).acquire_owned().await.ok(),
    }
}

fn bounded(connections: usize) -> usize {
    connections.min(Semaphore::MAX_PERMITS)
}

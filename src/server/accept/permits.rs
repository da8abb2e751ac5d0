//! Permits that bound how many connections are open: for each listener, and for all
//! listeners together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_local;

/// How many connections all listeners together may serve at once, in addition to the
/// bound of each listener.
#[derive(Clone, Debug)]
pub(crate) struct Capacity(Arc<Semaphore>);

impl Capacity {
    /// Allows this number of connections.
    pub(crate) fn new(connections: usize) -> Self {
        Self(Arc::new(Semaphore::new(bounded(connections))))
    }
}

/// The permits of one listener, shared by its workers.
#[derive(Clone, Debug)]
pub(super) struct Permits {
    listener: Arc<Semaphore>,
    capacity: Capacity,
}

/// Permission to serve one connection; held while the connection is open.
#[derive(Debug)]
pub(super) struct Permit {
    _listener: OwnedSemaphorePermit,
    _capacity: OwnedSemaphorePermit,
}

impl Permits {
    /// Permits for `connections` of one listener, within `capacity`.
    pub(super) fn new(connections: usize, capacity: Capacity) -> Self {
        Self { listener: Arc::new(Semaphore::new(bounded(connections))), capacity }
    }

    /// Waits for a permit. None: the semaphore was closed, which does not happen.
    pub(super) async fn acquire(&self) -> Option<Permit> {
        Some(Permit {
            _listener: acquire(&self.listener).await?,
            _capacity: acquire(&self.capacity.0).await?,
        })
    }

    /// Changes the bound of the listener from `old` to `new` connections. If more than
    /// `new` are open, no permit is given until enough of them have closed.
    ///
    /// Must run on a local runtime.
    pub(super) fn resize(&self, old: usize, new: usize) {
        let (old, new) = (bounded(old), bounded(new));
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

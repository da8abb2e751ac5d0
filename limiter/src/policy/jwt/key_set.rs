//! Keys that are fetched while the gateway runs (RFC 7517), shared by all workers.
//!
//! A set is replaced as a whole. A request sees one set or the other, and what was
//! verified by an older one is verified again: a key that is gone verifies nothing
//! any more. Requests never wait for a set. A token that names a key which is not
//! there requests an early refresh; how often the set is fetched is decided by the
//! task that fetches it, not by the clients that send tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::verifying_key::VerifyingKey;

/// Keys that are fetched, and replaced now and then.
#[derive(Debug, Default)]
pub struct KeySet {
    current: RwLock<Arc<Keys>>,
    /// That of `current`, to be looked at without the lock.
    generation: AtomicU64,
    refresh: Arc<RefreshRequest>,
}

/// The keys of one moment.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// How many sets came before, and this one; 0: none has come yet.
    pub(super) generation: u64,
    pub(super) keys: Vec<VerifyingKey>,
}

/// Whether a token has named a key that is not in the set.
#[derive(Debug, Default)]
pub struct RefreshRequest {
    is_pending: AtomicBool,
    notify: Notify,
}

impl KeySet {
    /// A set that has not come yet. Tokens can be neither believed nor rejected.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on these are the keys.
    pub fn replace(&self, keys: Vec<VerifyingKey>) {
        let mut current = self.current.write();
        let generation = current.generation + 1;
        *current = Arc::new(Keys { generation, keys });
        self.generation.store(generation, Ordering::Release);
    }

    /// Whether there are keys, or were.
    pub fn has_come(&self) -> bool {
        self.generation() > 0
    }

    /// Tells when a token names a key that is not in the set.
    pub fn refresh(&self) -> Arc<RefreshRequest> {
        Arc::clone(&self.refresh)
    }

    /// How many sets have come.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.current.read())
    }

    /// A token names a key that is not in the set.
    pub fn request_refresh(&self) {
        // Read first: in a flood of such tokens all cores keep the cache line.
        if !self.refresh.is_pending.load(Ordering::Relaxed)
            && !self.refresh.is_pending.swap(true, Ordering::Relaxed)
        {
            self.refresh.notify.notify_one();
        }
    }
}

/// A task that waits for a request to refresh the set does not wait for ever.
impl Drop for KeySet {
    fn drop(&mut self) {
        self.refresh.is_pending.store(true, Ordering::Relaxed);
        self.refresh.notify.notify_one();
    }
}

impl RefreshRequest {
    /// Returns when an early refresh has been requested since the last
    /// [`Self::clear`], or the set is gone.
    pub async fn requested(&self) {
        loop {
            self.notify.notified().await;
            if self.is_pending.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// The set has been fetched: earlier requests are done with.
    pub fn clear(&self) {
        self.is_pending.store(false, Ordering::Relaxed);
    }
}

//! Keys that are fetched while the gateway runs (RFC 7517), shared by all workers.
//!
//! A set is replaced as a whole. A request sees one set or the other, and what was
//! verified by an older one is verified again: a key that is gone verifies nothing
//! any more. Requests never wait for a set. A token that names a key which is not
//! there is remembered as a reason to fetch the set early; how often that happens
//! is not up to whoever sends tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::VerifyingKey;

/// Keys that are fetched, and replaced now and then.
#[derive(Debug, Default)]
pub struct KeySet {
    current: RwLock<Arc<Keys>>,
    /// That of `current`, to be looked at without the lock.
    generation: AtomicU64,
    wanted: Arc<Wanted>,
}

/// The keys of one moment.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// How many sets came before, and this one; 0: none has come yet.
    pub(super) generation: u64,
    pub(super) keys: Vec<VerifyingKey>,
}

/// Whether somebody misses a key.
#[derive(Debug, Default)]
pub struct Wanted {
    is_told: AtomicBool,
    told: Notify,
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

    /// Tells when a key is missed.
    pub fn wanted(&self) -> Arc<Wanted> {
        Arc::clone(&self.wanted)
    }

    /// How many sets have come.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.current.read())
    }

    /// A token names a key that is not there.
    pub fn miss(&self) {
        // Read first: in a flood of such tokens all cores keep the cache line.
        if !self.wanted.is_told.load(Ordering::Relaxed)
            && !self.wanted.is_told.swap(true, Ordering::Relaxed)
        {
            self.wanted.told.notify_one();
        }
    }
}

/// Whoever waits for a missed key does not wait for ever.
impl Drop for KeySet {
    fn drop(&mut self) {
        self.wanted.is_told.store(true, Ordering::Relaxed);
        self.wanted.told.notify_one();
    }
}

impl Wanted {
    /// Returns when a key has been missed since the last [`Self::clear`], or the
    /// set is gone.
    pub async fn told(&self) {
        loop {
            self.told.notified().await;
            if self.is_told.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// What was missed so far has come, or nobody has it.
    pub fn clear(&self) {
        self.is_told.store(false, Ordering::Relaxed);
    }
}

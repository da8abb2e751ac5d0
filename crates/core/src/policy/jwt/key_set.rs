//! Keys that are fetched while the gateway runs (RFC 7517), shared by all workers.
//!
//! A set is replaced as a whole, so a request sees either the old set or the new one.
//! Tokens that an older set has verified are verified again: a removed key verifies no
//! token any more. Requests never wait for a set. A token with an unknown key requests an
//! early refresh. The task that fetches the set limits how often it does so, whatever
//! tokens the clients send.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::verifying_key::VerifyingKey;

/// Keys that are fetched and replaced regularly.
#[derive(Debug, Default)]
pub struct KeySet {
    current: RwLock<Arc<Keys>>,
    /// The version of `current`, which can be read without the lock.
    generation: AtomicU64,
    refresh: Arc<RefreshRequest>,
}

/// The keys at one time.
#[derive(Debug, Default)]
pub(in crate::policy) struct Keys {
    /// The number of sets so far, including this one. 0: no set has been fetched yet.
    pub(in crate::policy) generation: u64,
    pub(in crate::policy) keys: Vec<VerifyingKey>,
}

/// Whether a token has named a key that the set lacks.
#[derive(Debug, Default)]
pub struct RefreshRequest {
    is_pending: AtomicBool,
    notify: Notify,
}

impl KeySet {
    /// A set that has not been fetched yet. Tokens can be neither accepted nor rejected.
    pub fn new() -> Self {
        Self::default()
    }

    /// A set that begins with the keys of `before`, as if it had fetched them itself.
    pub fn continuing(before: &Self) -> Self {
        let current = before.keys();
        let generation = AtomicU64::new(current.generation);
        Self { current: RwLock::new(current), generation, refresh: Arc::default() }
    }

    /// Replaces the keys.
    pub fn replace(&self, keys: Vec<VerifyingKey>) {
        let mut current = self.current.write();
        let generation = current.generation + 1;
        *current = Arc::new(Keys { generation, keys });
        self.generation.store(generation, Ordering::Release);
    }

    /// Whether a set has ever been fetched.
    pub fn has_come(&self) -> bool {
        self.generation() > 0
    }

    /// Returns the signal that a token has named a key that the set lacks.
    pub fn refresh(&self) -> Arc<RefreshRequest> {
        Arc::clone(&self.refresh)
    }

    /// The number of sets that have been fetched.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(in crate::policy) fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.current.read())
    }

    /// Records that a token names a key that the set lacks.
    pub fn request_refresh(&self) {
        // The flag is read first: when many such tokens come, all cores keep the cache
        // line.
        if !self.refresh.is_pending.load(Ordering::Relaxed)
            && !self.refresh.is_pending.swap(true, Ordering::Relaxed)
        {
            self.refresh.notify.notify_one();
        }
    }
}

/// Wakes a task that waits for a request to refresh the set.
impl Drop for KeySet {
    fn drop(&mut self) {
        self.refresh.is_pending.store(true, Ordering::Relaxed);
        self.refresh.notify.notify_one();
    }
}

impl RefreshRequest {
    /// Returns when an early refresh has been requested since the last [`Self::clear`], or
    /// the set has been dropped.
    pub async fn requested(&self) {
        loop {
            self.notify.notified().await;
            if self.is_pending.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Clears earlier requests, because the set has been fetched.
    pub fn clear(&self) {
        self.is_pending.store(false, Ordering::Relaxed);
    }
}

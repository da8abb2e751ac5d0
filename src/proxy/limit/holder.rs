//! Idle connections of one worker to one endpoint, as other workers know them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// What other workers know of the idle connections of one worker to one endpoint.
#[derive(Debug)]
pub struct Holder {
    endpoint: u64,
    /// Connections that it could give up.
    available: AtomicUsize,
    asked: Notify,
}

impl Holder {
    /// A holder without connections.
    pub fn new(endpoint: u64) -> Arc<Self> {
        let available = AtomicUsize::new(0);
        Arc::new(Self { endpoint, available, asked: Notify::new() })
    }

    /// The identity of the endpoint.
    pub const fn endpoint(&self) -> u64 {
        self.endpoint
    }

    /// How many connections it could give up.
    pub fn available(&self) -> usize {
        self.available.load(Ordering::SeqCst)
    }

    /// Shows how many connections it could give up. What comes after sees requests that have not
    /// seen this number; see [`ConnectionLimit::is_awaited`](super::ConnectionLimit::is_awaited).
    pub fn show(&self, available: usize) {
        self.available.store(available, Ordering::SeqCst);
    }

    /// Asks for a connection.
    pub fn ask(&self) {
        self.asked.notify_one();
    }

    /// Returns when a connection is asked for.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }
}

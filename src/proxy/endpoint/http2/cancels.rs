//! Counts how often streams of a connection are cancelled.
//!
//! When a client cancels its request, the gateway resets a stream of a connection that
//! other clients use too. An endpoint that receives many resets may take them for an
//! attack and end the connection with all its streams (CVE-2023-44487). Such a
//! connection is retired before that: its requests end as usual, and further requests
//! open another connection.

use std::time::{Duration, Instant};

use super::bounds::MAX_STREAMS;

/// Resets within [`WINDOW`] that an endpoint may take for an attack. The strictest
/// known bound is that of Netty.
const ATTACK: u32 = 200;
const WINDOW: Duration = Duration::from_secs(30);
/// Cancelled streams after which a connection is retired: all streams that are open
/// then may still be cancelled.
const MAX_CANCELS: u32 = ATTACK - MAX_STREAMS - 10;

/// The number of cancelled streams of one connection.
#[derive(Debug)]
pub struct CancelCount {
    since: Instant,
    count: u32,
}

impl CancelCount {
    pub fn new(now: Instant) -> Self {
        Self { since: now, count: 0 }
    }

    /// Counts one more cancelled stream. Returns whether the connection must be retired.
    pub fn add(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= WINDOW {
            *self = Self::new(now);
        }
        self.count += 1;
        self.count >= MAX_CANCELS
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::time::monotonic;

    use super::*;

    #[test]
    fn cancels_count_within_a_window() {
        let start = monotonic();
        let mut cancels = CancelCount::new(start);
        assert!((1..MAX_CANCELS).all(|_| !cancels.add(start)));
        assert!(cancels.add(start));
        assert!(!cancels.add(start + WINDOW));
    }
}

//! How often streams of a connection are cancelled.
//!
//! Clients that cancel their requests make us reset streams of a connection that
//! other clients use too, and an endpoint that sees many resets may take them for an
//! attack and end the connection with all its streams (CVE-2023-44487). Such a
//! connection is retired before that: what is under way on it ends as usual, and
//! further requests open another one.

use std::time::{Duration, Instant};

use super::MAX_STREAMS;

/// Resets that are taken for an attack, in [`WINDOW`]: the strictest bound that is
/// known is that of Netty.
const ATTACK: u32 = 200;
const WINDOW: Duration = Duration::from_secs(30);
/// Cancelled streams after which a connection is retired: all streams that are open
/// then may still be cancelled.
const MAX_CANCELS: u32 = ATTACK - MAX_STREAMS - 10;

/// Cancelled streams of one connection.
#[derive(Debug)]
pub(super) struct Cancels {
    since: Instant,
    count: u32,
}

impl Cancels {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, count: 0 }
    }

    /// One more stream is cancelled; whether that are too many.
    pub(super) fn are_too_many(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= WINDOW {
            *self = Self::new(now);
        }
        self.count += 1;
        self.count >= MAX_CANCELS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::monotonic;

    #[test]
    fn cancels_count_within_a_window() {
        let start = monotonic();
        let mut cancels = Cancels::new(start);
        assert!((1..MAX_CANCELS).all(|_| !cancels.are_too_many(start)));
        assert!(cancels.are_too_many(start));
        assert!(!cancels.are_too_many(start + WINDOW));
    }
}

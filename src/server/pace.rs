//! How fast a client must send a body, or read one.
//!
//! Only the time counts in which the client is waited for, so that a client
//! which is ready whenever there is something is never slow, however little
//! there is.

use std::time::{Duration, Instant};

use crate::time::monotonic;

/// How fast a client must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The longest pause, and the time over which the rate is averaged.
    pub patience: Duration,
    /// Bytes in a second; 0 demands nothing.
    pub min_rate: u64,
}

impl Demand {
    /// Any speed will do.
    #[cfg(any(test, fuzzing))]
    pub(super) const NONE: Self = Self { patience: Duration::from_secs(3600), min_rate: 0 };

    /// Bytes in the time over which the rate is averaged.
    fn min_bytes(self) -> u64 {
        let millis = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
        self.min_rate.saturating_mul(millis) / 1000
    }
}

/// How fast a client has been with what it sends, or with what it is sent.
#[derive(Debug, Default)]
pub struct Pace {
    /// Since when it is waited for.
    waits_since: Option<Instant>,
    /// How long it was waited for since the rate was last looked at, and the bytes
    /// that came of that.
    waited: Duration,
    bytes: u64,
    is_too_slow: bool,
}

impl Pace {
    /// The client is waited for.
    pub fn waits(&mut self) {
        self.waits_since.get_or_insert_with(monotonic);
    }

    /// The client is not waited for any more: it has sent or taken so many bytes.
    pub fn moves(&mut self, bytes: usize, demand: Demand) {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        let Some(since) = self.waits_since.take() else {
            return;
        };
        self.waited += monotonic().saturating_duration_since(since);
        if self.waited >= demand.patience {
            self.is_too_slow |= self.bytes < demand.min_bytes();
            (self.waited, self.bytes) = (Duration::ZERO, 0);
        }
    }

    /// Whether the client was slower than it must be, which shows when it moves.
    pub fn is_too_slow(&self) -> bool {
        self.is_too_slow
    }

    /// Whether it was slower than it must be, or pauses for too long at `now`.
    pub(super) fn is_late(&self, demand: Demand, now: Instant) -> bool {
        let pauses = |since| now.saturating_duration_since(since) >= demand.patience;
        self.is_too_slow || self.waits_since.is_some_and(pauses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMAND: Demand = Demand { patience: Duration::from_secs(60), min_rate: 100 };

    /// A client that takes `bytes` after each of `waits` seconds.
    fn pace(bytes: usize, waits: &[u64]) -> Pace {
        let mut pace = Pace::default();
        for secs in waits {
            pace.waits_since = Some(monotonic() - Duration::from_secs(*secs));
            pace.moves(bytes, DEMAND);
        }
        pace
    }

    #[test]
    fn a_client_may_be_slow_but_not_slower_than_the_rate() {
        assert!(!pace(3000, &[30; 9]).is_too_slow());
        assert!(!pace(2999, &[30; 1]).is_too_slow(), "its time is not over");
        assert!(pace(2999, &[30; 2]).is_too_slow());
        assert!(pace(1, &[59, 59]).is_too_slow());
        let any = Demand { min_rate: 0, ..DEMAND };
        let mut pace = pace(1, &[59]);
        pace.waits_since = Some(monotonic() - DEMAND.patience);
        assert!(pace.is_late(DEMAND, monotonic()) && !pace.is_too_slow());
        pace.moves(1, any);
        assert!(!pace.is_late(any, monotonic()));
    }

    #[test]
    fn time_in_which_a_client_is_not_waited_for_does_not_count() {
        let mut pace = Pace::default();
        for _ in 0..100 {
            pace.moves(1, DEMAND);
        }
        pace.waits();
        pace.waits();
        assert!(!pace.is_late(DEMAND, monotonic()));
        assert!(pace.is_late(DEMAND, monotonic() + DEMAND.patience));
    }
}

//! Measures how fast a client sends a body, or reads one.
//!
//! Only the time in which the gateway waits for the client counts. A client that is
//! ready whenever there is something to send or read is never slow, however little
//! that is.

use std::time::{Duration, Instant};

use tollgate_core::time::monotonic;

use crate::server::settings::Demand;

/// The speed of a client, for the bytes that it sends or reads.
#[derive(Debug, Default)]
pub struct Pace {
    /// Since when the gateway waits for the client.
    waits_since: Option<Instant>,
    /// How long the gateway has waited since the rate was last computed, and the bytes
    /// moved in that time.
    waited: Duration,
    bytes: u64,
    is_too_slow: bool,
}

impl Pace {
    /// The gateway begins to wait for the client.
    pub fn waits(&mut self) {
        self.waits_since.get_or_insert_with(monotonic);
    }

    /// The client has sent or read `bytes`, and the wait ends.
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

    /// How many bytes the client moves in this time, at the rate that is being computed. None: it
    /// has moved none since the last one.
    pub fn moves_in(&self, time: Duration) -> Option<u64> {
        let waits = self.waits_since.map_or(Duration::ZERO, |since| monotonic() - since);
        let waited = (self.waited + waits).as_micros().max(1);
        let bytes = u128::from(self.bytes).saturating_mul(time.as_micros()) / waited;
        (self.bytes > 0).then(|| u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Whether the client was slower than its minimum. Computed when it sends or reads.
    pub fn is_too_slow(&self) -> bool {
        self.is_too_slow
    }

    /// Whether the client was slower than its minimum, or its pause at `now` is too long.
    pub fn is_late(&self, demand: Demand, now: Instant) -> bool {
        let pauses = |since| now.saturating_duration_since(since) >= demand.patience;
        self.is_too_slow || self.waits_since.is_some_and(pauses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMAND: Demand = Demand { patience: Duration::from_secs(60), min_rate: 100 };

    /// A client that reads `bytes` after each of `waits` seconds.
    fn pace(bytes: usize, waits: &[u64]) -> Pace {
        let mut pace = Pace::default();
        for secs in waits {
            pace.waits_since = Some(monotonic() - Duration::from_secs(*secs));
            pace.moves(bytes, DEMAND);
        }
        pace
    }

    #[test]
    fn a_client_below_the_minimum_rate_is_too_slow() {
        assert!(!pace(3000, &[30; 9]).is_too_slow());
        assert!(!pace(2999, &[30; 1]).is_too_slow(), "the averaging time is not over");
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
    fn the_rate_is_that_of_the_time_spent_waiting() {
        let mut pace = Pace { waited: Duration::from_secs(3), bytes: 6000, ..Pace::default() };
        assert_eq!(pace.moves_in(Duration::from_secs(10)), Some(20_000));
        pace.waits_since = Some(monotonic() - Duration::from_secs(3));
        let slower = pace.moves_in(Duration::from_secs(10)).expect("it has moved bytes");
        assert!((9_000..=10_000).contains(&slower), "{slower}");
        assert_eq!(Pace::default().moves_in(Duration::from_secs(10)), None);
    }

    #[test]
    fn only_time_spent_waiting_for_the_client_counts() {
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

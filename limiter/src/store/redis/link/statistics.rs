//! What a link has measured of its calls.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::store::breaker::Position;
use crate::store::outage::OutageCause;
use crate::store::server_state::{
    BATCH_SIZES, Buckets, CALL_DURATIONS_US, CallStatistics, ServerState,
};
use crate::time::Span;

/// Statistics of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The server.
    pub server: String,
    /// The position of its breaker.
    pub position: Position,
    /// Whether the server is not used: since its breaker has opened, no decision was answered.
    pub is_away: bool,
    /// How often the breaker has opened.
    pub times_opened: u64,
    /// The number of batches with a reply.
    pub answered: u64,
    /// The number of batches that failed.
    pub failed: u64,
    /// Calls that were not sent, because those that wait take too much memory.
    pub overloads: u64,
    /// Calls that failed while the server decided others, by their causes.
    pub call_errors: BTreeMap<OutageCause, u64>,
    /// What was measured of batches.
    pub calls: CallStatistics,
    /// The clock of the server minus this node's, if it is known, in microseconds.
    pub clock_offset_us: Option<i64>,
}

impl CallStatistics {
    /// Counts a batch of `calls` calls that ended after this time, with replies or without.
    pub(super) fn add(&mut self, calls: usize, took: Duration) {
        self.durations_us.add(&CALL_DURATIONS_US, Span::from(took).as_micros());
        self.batch_sizes.add(&BATCH_SIZES, u64::try_from(calls).unwrap_or(u64::MAX));
    }

    /// Adds the numbers of another connection.
    pub(in crate::store::redis) fn merge(&mut self, other: &Self) {
        self.durations_us.merge(&other.durations_us);
        self.batch_sizes.merge(&other.batch_sizes);
    }
}

impl From<Health> for ServerState {
    fn from(health: Health) -> Self {
        let Health { server, is_away, answered, failed, overloads, .. } = health;
        let Health { call_errors, calls, clock_offset_us, .. } = health;
        Self { server, is_away, answered, failed, overloads, call_errors, calls, clock_offset_us }
    }
}

impl ServerState {
    /// Adds what is known of another connection to the same server.
    pub(in crate::store::redis) fn merge(&mut self, other: Self) {
        self.is_away |= other.is_away;
        self.answered += other.answered;
        self.failed += other.failed;
        self.overloads += other.overloads;
        for (cause, count) in other.call_errors {
            *self.call_errors.entry(cause).or_default() += count;
        }
        self.calls.merge(&other.calls);
        self.clock_offset_us = self.clock_offset_us.or(other.clock_offset_us);
    }
}

impl Buckets {
    fn add(&mut self, upper: &[u64], value: u64) {
        self.counts.resize(upper.len() + 1, 0);
        self.counts[upper.partition_point(|bound| *bound < value)] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    fn merge(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_batch_is_in_one_bucket_of_both() {
        let (mut one, mut other) = (CallStatistics::default(), CallStatistics::default());
        one.add(1, Duration::from_micros(100));
        other.add(3, Duration::from_micros(101));
        other.add(1000, Duration::from_secs(9));
        one.merge(&other);
        let found = |buckets: &Buckets| {
            let used = buckets.counts.iter().enumerate().filter(|(_, count)| **count > 0);
            used.map(|(index, count)| (index, *count)).collect::<Vec<_>>()
        };
        assert_eq!(found(&one.durations_us), [(0, 1), (1, 1), (CALL_DURATIONS_US.len(), 1)]);
        assert_eq!(one.durations_us.sum, 9_000_201);
        assert_eq!(found(&one.batch_sizes), [(0, 1), (2, 1), (BATCH_SIZES.len(), 1)]);
        assert_eq!(one.batch_sizes.sum, 1004);
        one.merge(&CallStatistics::default());
        assert_eq!(one.batch_sizes.sum, 1004);
    }
}

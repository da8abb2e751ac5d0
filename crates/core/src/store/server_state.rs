//! What is known of a server of a store and of the calls to it, for metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use super::outage::OutageCause;
use crate::time::Span;

/// The upper bounds of durations of calls, in microseconds.
pub const CALL_DURATIONS_US: [u64; 13] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000,
];

/// The upper bounds of the sizes of batches, in calls.
pub const BATCH_SIZES: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// A server of the store, as one worker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// Its address.
    pub server: String,
    /// Whether the worker does not use it: it has failed repeatedly, and answered no decision
    /// since.
    pub is_away: bool,
    /// Batches of calls with a reply, over the present connections.
    pub answered: u64,
    /// Batches of calls that failed, over the present connections.
    pub failed: u64,
    /// Calls that were not sent, because those that wait take too much memory.
    pub overloads: u64,
    /// Calls that failed while the server decided others, by their causes.
    pub call_errors: BTreeMap<OutageCause, u64>,
    /// What was measured of batches, over the present connections.
    pub calls: CallStatistics,
    /// Its clock minus this node's at the last decision, in microseconds, as far as the time
    /// of a call allows to know it. None: it has decided nothing yet.
    pub clock_offset_us: Option<i64>,
}

/// What was measured of batches of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallStatistics {
    /// Their durations, in the buckets of [`CALL_DURATIONS_US`].
    pub durations_us: Buckets,
    /// Their numbers of calls, in the buckets of [`BATCH_SIZES`].
    pub batch_sizes: Buckets,
}

/// How many values lie in each bucket, and their sum. A value that equals a bound is below it.
/// The last bucket has no bound. There is no bucket before the first value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    /// The number of values in each bucket.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl CallStatistics {
    /// Counts a batch of `calls` calls that ended after this time, with replies or without.
    pub fn add(&mut self, calls: usize, took: Duration) {
        self.durations_us.add(&CALL_DURATIONS_US, Span::from(took).as_micros());
        self.batch_sizes.add(&BATCH_SIZES, u64::try_from(calls).unwrap_or(u64::MAX));
    }

    /// Adds the numbers of another connection.
    pub fn merge(&mut self, other: &Self) {
        self.durations_us.merge(&other.durations_us);
        self.batch_sizes.merge(&other.batch_sizes);
    }
}

impl ServerState {
    /// Adds what is known of another connection to the same server.
    pub fn merge(&mut self, other: Self) {
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
        let mut one = CallStatistics::default();
        let mut other = CallStatistics::default();
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

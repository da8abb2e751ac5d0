//! What is known of a server of a store, for metrics.

use std::collections::BTreeMap;

use super::outage::OutageCause;

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

//! The bounds of the buckets of histograms.

use tollgate_core::store::{BATCH_SIZES, CALL_DURATIONS_US};

use super::family::Bounds;

/// OpenTelemetry's buckets for durations of requests, in microseconds.
pub const REQUEST: Bounds = Bounds {
    upper: &[
        5_000, 10_000, 25_000, 50_000, 75_000, 100_000, 250_000, 500_000, 750_000, 1_000_000,
        2_500_000, 5_000_000, 7_500_000, 10_000_000,
    ],
    per_unit: 1_000_000,
};
/// From 10 µs to 1 s, in microseconds.
pub const OWN: Bounds = Bounds {
    upper: &[
        10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 1_000_000,
    ],
    per_unit: 1_000_000,
};
/// From 1 µs to 250 ms, in nanoseconds.
pub const DECISION: Bounds = Bounds {
    upper: &[
        1_000,
        2_500,
        5_000,
        10_000,
        25_000,
        50_000,
        100_000,
        250_000,
        500_000,
        1_000_000,
        2_500_000,
        5_000_000,
        10_000_000,
        25_000_000,
        50_000_000,
        100_000_000,
        250_000_000,
    ],
    per_unit: 1_000_000_000,
};
/// From 100 ms to one day, in microseconds.
pub const WAIT: Bounds = Bounds {
    upper: &[
        100_000,
        1_000_000,
        5_000_000,
        10_000_000,
        30_000_000,
        60_000_000,
        300_000_000,
        900_000_000,
        3_600_000_000,
        21_600_000_000,
        86_400_000_000,
    ],
    per_unit: 1_000_000,
};
/// Durations of calls to a store, in microseconds.
pub const CALL: Bounds = Bounds { upper: &CALL_DURATIONS_US, per_unit: 1_000_000 };
/// Calls in a batch.
pub const BATCH: Bounds = Bounds { upper: &BATCH_SIZES, per_unit: 1 };
/// Shares of a limit, in thousandths.
pub const SHARE: Bounds = Bounds { upper: &[100, 250, 500, 750, 800, 900, 1_000], per_unit: 1_000 };

/// What was reserved by what it has cost, in thousandths.
pub const RATIO: Bounds = Bounds {
    upper: &[250, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 10_000, 30_000, 100_000],
    per_unit: 1_000,
};

/// The bounds of the times of decisions, in seconds.
#[expect(clippy::cast_precision_loss, reason = "the bounds have few digits")]
pub fn decision_bounds_s() -> Vec<f64> {
    let per_second = DECISION.per_unit as f64;
    DECISION.upper.iter().map(|bound| *bound as f64 / per_second).collect()
}

//! Random quotas, algorithms and schedules.

use proptest::prelude::*;

use super::*;

/// The distance from the previous take in microseconds: none, short, or windows.
pub(super) fn gaps() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 6 => 0..150_u64, 1 => 0..4000_u64]
}

/// The beginning of a schedule: the epoch, or today.
fn starts() -> impl Strategy<Value = u64> {
    prop_oneof![0..5000_u64, 1_795_246_126_000_000..1_795_246_126_005_000_u64]
}

/// Takes at times that do not decrease: their times and costs.
pub(super) fn schedules() -> impl Strategy<Value = Vec<(Timestamp, u64)>> {
    (starts(), prop::collection::vec((gaps(), 1..=4_u64), 1..60)).prop_map(|(start, steps)| {
        let times = steps.iter().scan(start, |now_us, (gap, _)| {
            *now_us += gap;
            Some(Timestamp::from_micros(*now_us))
        });
        times.zip(steps.iter().map(|(_, cost)| *cost)).collect()
    })
}

/// Any number. The largest numbers are more frequent than by chance.
pub(super) fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..10_u64, u64::MAX - 10..=u64::MAX]
}

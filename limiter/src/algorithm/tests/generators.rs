//! Random quotas, algorithms and schedules.

use proptest::prelude::*;

use super::*;

/// The number of cases that `TOLLGATE_PROPTEST_CASES` names, or enough to find most
/// mistakes in a second. A failure prints its smallest input.
pub(crate) fn cases() -> ProptestConfig {
    let cases = std::env::var("TOLLGATE_PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(10_000),
        failure_persistence: None,
        ..Default::default()
    }
}

/// All algorithms that count in time. Their quotas are small, so that a short schedule meets every
/// edge; W/L is rarely a whole number.
pub(crate) fn algorithms() -> impl Strategy<Value = Algorithm> {
    let quotas = (1..=12_u64, 1000..=1500_u64)
        .prop_map(|(limit, us)| Quota::new(limit, Span::from_micros(us)).unwrap());
    (quotas, 0..KINDS, 1..=12_u64, 1..=7_u32, 0..2500_u64).prop_map(
        |(quota, kind, burst, buckets, delay)| {
            algorithm(kind, quota, burst, buckets, Span::from_micros(delay))
        },
    )
}

/// The number of them.
pub(super) const KINDS: u32 = 6;

/// One of them. The burst is also the depth of the queue, if it is even.
pub(super) fn algorithm(
    kind: u32,
    quota: Quota,
    burst: u64,
    buckets: u32,
    max_delay: Span,
) -> Algorithm {
    let depth = burst.is_multiple_of(2).then_some(burst);
    match kind {
        0 => Algorithm::SlidingWindow(SlidingWindow::new(quota)),
        1 => Algorithm::SubWindows(SubWindows::new(quota, buckets).unwrap()),
        2 => Algorithm::FixedWindow(FixedWindow::new(quota)),
        3 => Algorithm::SlidingLog(SlidingLog::new(quota).unwrap()),
        4 => Algorithm::LeakyBucket(LeakyBucket::new(quota, max_delay, depth).unwrap()),
        _ => Algorithm::TokenBucket(TokenBucket::new(quota, burst).unwrap()),
    }
}

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

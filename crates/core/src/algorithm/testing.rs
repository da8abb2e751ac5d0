//! Random algorithms, for the tests of this crate and of those above it.

#![allow(clippy::unwrap_used, reason = "it is part of tests")]

use std::ops::RangeInclusive;

use proptest::prelude::*;

use super::{
    Algorithm, FixedWindow, LeakyBucket, Quota, SlidingLog, SlidingWindow, SubWindows, TokenBucket,
};
use crate::time::Span;

/// Algorithms whose units can be counted later: windows, logs and token buckets.
pub fn summable(
    quotas: impl Strategy<Value = Quota>,
    bursts: RangeInclusive<u64>,
    sub_windows: RangeInclusive<u32>,
) -> impl Strategy<Value = Algorithm> {
    (quotas, 0..5, bursts, sub_windows).prop_map(|(quota, kind, burst, count)| match kind {
        0 => Algorithm::SlidingWindow(SlidingWindow::new(quota)),
        1 => Algorithm::SubWindows(SubWindows::new(quota, count).unwrap()),
        2 => Algorithm::FixedWindow(FixedWindow::new(quota)),
        3 => Algorithm::SlidingLog(SlidingLog::new(quota).unwrap()),
        _ => Algorithm::TokenBucket(TokenBucket::new(quota, burst).unwrap()),
    })
}

/// The number of cases that `TOLLGATE_PROPTEST_CASES` names, or enough to find most
/// mistakes in a second. A failure prints its smallest input.
pub fn cases() -> ProptestConfig {
    let cases = std::env::var("TOLLGATE_PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(10_000),
        failure_persistence: None,
        ..Default::default()
    }
}

/// All algorithms that count in time. Their quotas are small, so that a short schedule meets every
/// edge; W/L is rarely a whole number.
pub fn algorithms() -> impl Strategy<Value = Algorithm> {
    let quotas = (1..=12_u64, 1000..=1500_u64)
        .prop_map(|(limit, us)| Quota::new(limit, Span::from_micros(us)).unwrap());
    (quotas, 0..KINDS, 1..=12_u64, 1..=7_u32, 0..2500_u64).prop_map(
        |(quota, kind, burst, buckets, delay)| {
            algorithm(kind, quota, burst, buckets, Span::from_micros(delay))
        },
    )
}

/// The number of them.
pub const KINDS: u32 = 6;

/// One of them. The burst is also the depth of the queue, if it is even.
pub fn algorithm(kind: u32, quota: Quota, burst: u64, buckets: u32, max_delay: Span) -> Algorithm {
    let depth = (burst % 2 == 0).then_some(burst);
    match kind {
        0 => Algorithm::SlidingWindow(SlidingWindow::new(quota)),
        1 => Algorithm::SubWindows(SubWindows::new(quota, buckets).unwrap()),
        2 => Algorithm::FixedWindow(FixedWindow::new(quota)),
        3 => Algorithm::SlidingLog(SlidingLog::new(quota).unwrap()),
        4 => Algorithm::LeakyBucket(LeakyBucket::new(quota, max_delay, depth).unwrap()),
        _ => Algorithm::TokenBucket(TokenBucket::new(quota, burst).unwrap()),
    }
}

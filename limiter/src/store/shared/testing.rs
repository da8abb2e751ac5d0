//! Keys, times, charges and algorithms for the tests of this folder.

use std::ops::RangeInclusive;

use proptest::prelude::*;

use crate::algorithm::{
    Algorithm, FixedWindow, Quota, SlidingLog, SlidingWindow, SubWindows, TokenBucket,
};
use crate::consistency::Consistency;
use crate::digest::{Counter, Key, Principal};
use crate::store::Charge;
use crate::time::{Span, Timestamp};

/// The time at which a test begins.
pub(in crate::store) const START: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

/// The time so many milliseconds after [`START`].
pub(in crate::store) fn after(ms: u64) -> Timestamp {
    START.plus(Span::from_millis(ms))
}

/// The one counter of this principal.
pub(in crate::store) fn key(principal: u128) -> Key {
    Key { principal: Principal::from_bits(principal), counter: Counter::from_bits(1) }
}

/// A binding charge on the one counter of this client.
pub(in crate::store) fn charge(client: u64, algorithm: &Algorithm, cost: u64) -> Charge<'_> {
    let (key, consistency) = (key(client.into()), Consistency::default());
    Charge { key, algorithm, cost, binding: true, consistency }
}

/// Algorithms whose units can be counted later: windows, logs and token buckets.
pub(in crate::store) fn summable(
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

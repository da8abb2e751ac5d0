//! Keys and times, for the tests of this crate and of those above it.

use crate::digest::{Counter, Key, Principal};
use crate::time::{Span, Timestamp};

/// The time at which a test begins.
pub const START: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

/// The time so many milliseconds after [`START`].
pub fn after(ms: u64) -> Timestamp {
    START.plus(Span::from_millis(ms))
}

/// The one counter of this principal.
pub fn key(principal: u128) -> Key {
    Key { principal: Principal::from_bits(principal), counter: Counter::from_bits(1) }
}

//! Bounds of the store's present time.
//!
//! Each reply has the store's time, which lies between the call and its reply. So this node
//! knows two bounds of the store's clock. A decision must hold at both: a refusal must hold
//! at the latest possible time, and a reported wait must be long enough at the earliest.

use tollgate_core::time::Timestamp;

/// The store's clock relative to this node's, by one reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreClock {
    store: Timestamp,
    asked: Timestamp,
    answered: Timestamp,
}

impl StoreClock {
    /// The store reported the time `store` in a reply that came at `answered`, to a call that
    /// was sent at `asked`, by this node's clock.
    pub(crate) const fn new(store: Timestamp, asked: Timestamp, answered: Timestamp) -> Self {
        Self { store, asked, answered }
    }

    /// The time that the store reported.
    pub(crate) const fn store(self) -> Timestamp {
        self.store
    }

    /// When the call was sent, by this node's clock.
    pub(crate) const fn asked(self) -> Timestamp {
        self.asked
    }

    /// When the reply came, by this node's clock.
    pub(crate) const fn answered(self) -> Timestamp {
        self.answered
    }

    /// The store's clock minus this node's, in microseconds. The error is at most half of the
    /// time of the call.
    pub(crate) fn offset_us(self) -> i64 {
        let us = |time: Timestamp| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        us(self.store) - us(self.asked).midpoint(us(self.answered))
    }

    /// The earliest and the latest possible time of the store when this node's time is `now`.
    pub(crate) fn bounds(self, now: Timestamp) -> (Timestamp, Timestamp) {
        let then = |ours: Timestamp| self.store.plus(now.since(ours));
        (then(self.answered), then(self.asked))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_core::time::Span;

    use super::*;

    proptest! {
        #[test]
        fn the_store_s_time_lies_between_the_bounds(
            ahead_us in 0..1_000_000_000_u64,
            (there_us, back_us, later_us) in (0..100_000_u64, 0..100_000_u64, 0..10_000_000_u64),
        ) {
            let here = |us| Timestamp::from_micros(1_000_000_000 + us);
            let there = |us| here(us).plus(Span::from_micros(ahead_us));
            let clock = StoreClock::new(there(there_us), here(0), here(there_us + back_us));
            let now_us = there_us + back_us + later_us;
            let error_us = clock.offset_us().abs_diff(i64::try_from(ahead_us).unwrap());
            prop_assert!(error_us <= (there_us + back_us).div_ceil(2));
            let (earliest, latest) = clock.bounds(here(now_us));
            prop_assert!(earliest <= there(now_us) && there(now_us) <= latest);
        }
    }
}

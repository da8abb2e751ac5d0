//! What time it is by the store's clock, as far as this node can know.
//!
//! An answer of the store carries its time, and was under way from a moment
//! before it to a moment after it. So the store's clock is known to lie between
//! two bounds. A decision must hold by all of them: what is refused here must be
//! refused at the latest time that it may be there, and no wait may be told that
//! is too short at the earliest.

use crate::time::Timestamp;

/// The store's clock against our own, as of the last answer.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct StoreClock {
    store: Timestamp,
    asked: Timestamp,
    answered: Timestamp,
}

impl StoreClock {
    /// The store said `store` to what was asked and answered at these times of ours.
    pub(in crate::store) const fn new(
        store: Timestamp,
        asked: Timestamp,
        answered: Timestamp,
    ) -> Self {
        Self { store, asked, answered }
    }

    /// What the store said.
    pub(in crate::store) const fn store(self) -> Timestamp {
        self.store
    }

    /// When it was asked, by our clock.
    pub(in crate::store) const fn asked(self) -> Timestamp {
        self.asked
    }

    /// The earliest and the latest that it may be there while it is `now` here.
    pub(in crate::store) fn bounds(self, now: Timestamp) -> (Timestamp, Timestamp) {
        let then = |ours: Timestamp| self.store.plus(now.since(ours));
        (then(self.answered), then(self.asked))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Span;

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
            let (earliest, latest) = clock.bounds(here(now_us));
            prop_assert!(earliest <= there(now_us) && there(now_us) <= latest);
        }
    }
}

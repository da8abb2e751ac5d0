//! Marks beside counters: a lease that was settled must not be settled again.
//!
//! A mark is a counter that one charge fills, so a store needs no further operation for it: the
//! charge of the mark binds, and the correction of the lease's counter is part of the same step.
//! Sub-windows keep the units of a mark for its whole time, whenever that begins. The units
//! above the half of the limit are the value of the mark.
//!
//! A mark has the lower bits of its counter's principal. So it is in the same shard in memory,
//! and in the same hash in Redis. The upper bits are those of the lease, and select the field.

use crate::algorithm::{Algorithm, Quota, QuotaError, SubWindows, Verdict};
use crate::consistency::Consistency;
use crate::digest::{Counter, Key, Principal};
use crate::time::Span;

use super::Charge;

/// What a mark can count: the counts of sub-windows have 32 bits.
const LIMIT: u64 = u32::MAX as u64;
/// The units of a mark with the value 0. Two of them are more than the limit.
const BASE: u64 = 1 << 31;
/// The sub-windows of a mark: it lasts for at most a quarter more than its time.
const BUCKETS: u32 = 4;
/// The bits of a principal that determine its bucket in Redis, and its shard in memory.
const SHARED_BITS: u32 = 72;

/// A mark that is set once.
#[derive(Clone, Debug)]
pub struct Mark {
    id: u128,
    value: u32,
    algorithm: Algorithm,
}

/// The outcome of setting a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// It is set now, and the correction is made.
    Now,
    /// It was set before, with this value. Nothing has changed.
    Before(u32),
}

impl Mark {
    /// The largest value of a mark.
    pub const MAX_VALUE: u32 = (1 << 31) - 2;

    /// The mark of the lease with this random `id`. It lasts for at least this time. A larger
    /// value than [`MAX_VALUE`](Self::MAX_VALUE) counts as that.
    ///
    /// # Errors
    /// If the time is shorter or longer than a window may be.
    pub fn new(id: u128, value: u32, lasts: Span) -> Result<Self, QuotaError> {
        let algorithm = SubWindows::new(Quota::new(LIMIT, lasts)?, BUCKETS)?;
        let value = value.min(Self::MAX_VALUE);
        Ok(Self { id, value, algorithm: Algorithm::SubWindows(algorithm) })
    }

    /// The charge that sets the mark of the lease beside this counter.
    pub fn charge(&self, beside: Key) -> Charge<'_> {
        let shared = u128::MAX >> (128 - SHARED_BITS);
        let principal = beside.principal.bits() & shared | self.id & !shared;
        // Leases have several counters, of which some may be of one principal.
        let id = u64::try_from(self.id & u128::from(u64::MAX)).unwrap_or_default();
        Charge {
            key: Key {
                principal: Principal::from_bits(principal),
                counter: Counter::from_bits(id ^ beside.counter.bits()),
            },
            algorithm: &self.algorithm,
            cost: BASE + u64::from(self.value),
            binding: true,
            consistency: Consistency::default(),
        }
    }

    /// The outcome by the verdict on the charge.
    pub fn outcome(verdict: &Verdict) -> Marked {
        if verdict.admitted {
            return Marked::Now;
        }
        let value = LIMIT.saturating_sub(verdict.remaining).saturating_sub(BASE);
        Marked::Before(u32::try_from(value).unwrap_or(Self::MAX_VALUE))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::{FixedWindow, Op};
    use crate::store::MemoryStore;
    use crate::time::Timestamp;

    const COST: u64 = 5;

    fn key(principal: u128) -> Key {
        Key { principal: Principal::from_bits(principal), counter: Counter::from_bits(9) }
    }

    fn hourly() -> Algorithm {
        let quota = Quota::new(100, Span::from_secs(3600)).expect("it is a quota");
        Algorithm::FixedWindow(FixedWindow::new(quota))
    }

    fn charge(key: Key, algorithm: &Algorithm) -> Charge<'_> {
        let consistency = Consistency::default();
        Charge { key, algorithm, cost: COST, binding: true, consistency }
    }

    #[test]
    fn a_mark_is_set_once_and_tells_its_value_until_it_ends() {
        let store = MemoryStore::new(1000);
        let algorithm = hourly();
        let at = |ms| Timestamp::from_micros(1_795_246_126_000_000).plus(Span::from_millis(ms));
        let charge = charge(key(7), &algorithm);
        let used = |now| 100 - store.look(&charge, now).remaining;
        store.apply(&[charge], at(0));
        let settle = |id, value, actual, ms| {
            let mark = Mark::new(id, value, Span::from_secs(60)).expect("it is a time");
            let op = Op::Settle { reserved: COST, actual, taken: at(0) };
            store.correct_once(&charge, op, &mark, at(ms)).0
        };
        assert_eq!(settle(1 << 100, 2, 2, 10), Marked::Now);
        assert_eq!(used(at(10)), 2);
        for ms in [10, 30_000, 60_009] {
            assert_eq!(settle(1 << 100, 9, 0, ms), Marked::Before(2), "{ms}");
            assert_eq!(used(at(ms)), 2, "{ms}");
        }
        // Another lease of the same counter has a mark of its own.
        assert_eq!(settle(2 << 100, 3, COST + 1, 20), Marked::Now);
        assert_eq!(used(at(20)), 3);
        assert_eq!(settle(1 << 100, 2, COST, 75_011), Marked::Now, "it has ended");
    }

    #[test]
    fn counters_of_one_principal_have_different_marks() {
        let mark = Mark::new(77 << 70, 1, Span::SECOND).expect("it is a time");
        let other = Key { counter: Counter::from_bits(10), ..key(7) };
        let [one, two] = [key(7), other].map(|key| mark.charge(key).key);
        assert_ne!(one.counter.stored(), two.counter.stored());
    }

    proptest! {
        #[test]
        fn a_mark_lies_in_the_bucket_and_the_shard_of_its_counter(
            principal in any::<u128>(),
            id in any::<u128>(),
        ) {
            let mark = Mark::new(id, 0, Span::SECOND).expect("it is a time").charge(key(principal)).key;
            prop_assert_eq!(mark.principal.bits() << 56, principal << 56);
            prop_assert_eq!(mark.principal.bits() >> 72, id >> 72);
        }

        #[test]
        fn every_value_is_told(value in 0..=Mark::MAX_VALUE, second in 0..=Mark::MAX_VALUE) {
            let now = Timestamp::from_micros(1_795_246_126_000_000);
            let mark = |value| Mark::new(1, value, Span::SECOND).expect("it is a time");
            let first = mark(value);
            let second = mark(second);
            let [first, second] = [&first, &second].map(|mark| mark.charge(key(3)));
            let (state, verdict) = first.algorithm.apply(None, Op::Take(first.cost), now);
            prop_assert_eq!(Mark::outcome(&verdict), Marked::Now);
            let (_, verdict) = second.algorithm.apply(state.as_ref(), Op::Take(second.cost), now);
            prop_assert_eq!(Mark::outcome(&verdict), Marked::Before(value));
        }
    }
}

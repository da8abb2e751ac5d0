//! For which principals anything may be known of what the store has said last.
//!
//! Most answers are of principals of which nothing is known. That is found out by one
//! load, without a lock. It may be wrong in one direction only: a principal shares
//! its place with others, so that something may seem to be known.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::algorithm::{Algorithm, MAX_LIMIT, Op};
use crate::digest::Key;
use crate::time::Timestamp;

/// Places, each of which many principals share. They take 8 KiB.
const PLACES: usize = 1024;

/// Until when anything is known, in microseconds, by place.
#[derive(Debug)]
pub(super) struct Known(Box<[AtomicU64; PLACES]>);

impl Default for Known {
    fn default() -> Self {
        Self(Box::new([const { AtomicU64::new(0) }; PLACES]))
    }
}

impl Known {
    /// Something is known of this principal, for as long as any state of the counter
    /// lasts that is changed at `now`.
    pub(super) fn remember(&self, key: &Key, algorithm: &Algorithm, now: Timestamp) {
        let most = Op::Settle { reserved: 0, actual: MAX_LIMIT, taken: now };
        if let (Some(state), _) = algorithm.apply(None, most, now) {
            let until = algorithm.expires_at(&state);
            self.place(key).fetch_max(until.as_micros(), Ordering::Relaxed);
        }
    }

    /// Whether anything may be known of this principal.
    pub(super) fn may_be(&self, key: &Key, now: Timestamp) -> bool {
        self.place(key).load(Ordering::Relaxed) > now.as_micros()
    }

    fn place(&self, key: &Key) -> &AtomicU64 {
        let bits = key.principal.bits() % PLACES as u128;
        &self.0[usize::try_from(bits).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::tests::{algorithms, cases};
    use crate::digest::{Counter, Principal};
    use crate::time::Span;

    proptest! {
        #![proptest_config(cases())]

        /// Whatever is done to a state that is remembered each time, it is known until
        /// its end.
        #[test]
        fn a_state_that_lasts_is_known(
            algorithm in algorithms(),
            steps in prop::collection::vec((0..4_u8, 0..9_u64, 0..3_000_000_u64), 1..30),
        ) {
            let key = Key { principal: Principal::from_bits(7), counter: Counter::from_bits(1) };
            let (known, mut state) = (Known::default(), None);
            let mut now = Timestamp::from_micros(1_795_246_126_000_000);
            for (step, units, later_us) in steps {
                now = now.plus(Span::from_micros(later_us));
                if let Some(state) = &state {
                    prop_assert!(known.may_be(&key, now) || algorithm.expires_at(state) <= now);
                }
                let op = match step {
                    0 | 1 => Op::Take(units),
                    2 => Op::Settle { reserved: 0, actual: units, taken: now },
                    _ => Op::Give { cost: units, taken: now },
                };
                let (next, _) = algorithm.apply(state.as_ref(), op, now);
                state = next.or(state);
                known.remember(&key, &algorithm, now);
            }
        }
    }
}

//! A filter of the principals for which this node may hold a state that the store reported.
//!
//! Most principals have no such state. One atomic load tells so, without a lock. The filter
//! can be wrong in one direction only: principals share cells, so it may name a principal
//! that has no state.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::algorithm::{Algorithm, MAX_LIMIT, Op};
use tollgate_core::digest::Key;
use tollgate_core::time::Timestamp;

/// The number of cells. Many principals share each cell. All cells take 8 KiB.
const CELLS: usize = 1024;

/// The latest end of the states in each cell, in microseconds.
#[derive(Debug)]
pub(super) struct PrincipalFilter(Box<[AtomicU64; CELLS]>);

impl Default for PrincipalFilter {
    fn default() -> Self {
        Self(Box::new([const { AtomicU64::new(0) }; CELLS]))
    }
}

impl PrincipalFilter {
    /// Adds a principal, for as long as any state of this counter can last that is changed
    /// at `now`.
    pub(super) fn insert(&self, key: &Key, algorithm: &Algorithm, now: Timestamp) {
        let most = Op::Settle { reserved: 0, actual: MAX_LIMIT, taken: now };
        if let (Some(state), _) = algorithm.apply(None, most, now) {
            self.insert_until(key, algorithm.expires_at(&state));
        }
    }

    /// Adds a principal until a state ends that does not change before.
    pub(super) fn insert_until(&self, key: &Key, until: Timestamp) {
        let cell = self.cell(key);
        let until = until.as_micros();
        // The cell is written only if that is needed, because all workers read it.
        if cell.load(Ordering::Relaxed) < until {
            cell.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// Whether this node may hold a state of this principal. False is certain.
    pub(super) fn may_contain(&self, key: &Key, now: Timestamp) -> bool {
        self.cell(key).load(Ordering::Relaxed) > now.as_micros()
    }

    fn cell(&self, key: &Key) -> &AtomicU64 {
        let bits = key.principal.bits() % CELLS as u128;
        &self.0[usize::try_from(bits).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_core::algorithm::testing::{algorithms, cases};
    use tollgate_core::digest::{Counter, Principal};
    use tollgate_core::time::Span;

    use super::*;

    proptest! {
        #![proptest_config(cases())]

        /// A state that is added after each change stays in the filter until its end.
        #[test]
        fn the_filter_contains_a_principal_until_its_state_ends(
            algorithm in algorithms(),
            steps in prop::collection::vec((0..4_u8, 0..9_u64, 0..3_000_000_u64), 1..30),
        ) {
            let key = Key { principal: Principal::from_bits(7), counter: Counter::from_bits(1) };
            let filter = PrincipalFilter::default();
            let mut state = None;
            let mut now = Timestamp::from_micros(1_795_246_126_000_000);
            for (step, units, later_us) in steps {
                now = now.plus(Span::from_micros(later_us));
                if let Some(state) = &state {
                    prop_assert!(filter.may_contain(&key, now) || algorithm.expires_at(state) <= now);
                }
                let op = match step {
                    0 | 1 => Op::Take(units),
                    2 => Op::Settle { reserved: 0, actual: units, taken: now },
                    _ => Op::Give { cost: units, taken: now },
                };
                let (next, _) = algorithm.apply(state.as_ref(), op, now);
                state = next.or(state);
                filter.insert(&key, &algorithm, now);
            }
        }
    }
}

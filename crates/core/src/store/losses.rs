//! The units that a node has lost since it started. They are for metrics only, and no decision
//! depends on them.

use super::Forgiven;

/// The units and states that a node has lost since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// States in memory that were forgotten because no slot was free.
    pub forgiven: Forgiven,
    /// Units that were reported to the store without a reply, so that it is unknown whether the
    /// store has counted them.
    pub lost_units: u64,
    /// Units that were never reported to the store, because a table was full.
    pub forgotten_units: u64,
    /// Units that were given back without a reply of the store, so that they may stay charged.
    pub unknown_refunds: u64,
    /// Units that were never given back to the store, because too many waited. They stay charged
    /// until they expire.
    pub dropped_refunds: u64,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::algorithm::{Algorithm, FixedWindow, Quota};
    use crate::consistency::Consistency;
    use crate::digest::{Counter, Key, Principal};
    use crate::store::{Charge, MemoryStore, SharedStore};
    use crate::time::{Span, Timestamp};

    #[test]
    fn the_losses_of_a_store_in_memory_are_its_forgotten_states() {
        let memory = Arc::new(MemoryStore::new(1));
        let store = SharedStore::Memory(Arc::clone(&memory));
        assert_eq!(store.losses(), Losses::default());
        let quota = Quota::new(2, Span::from_secs(60)).unwrap();
        let algorithm = Algorithm::FixedWindow(FixedWindow::new(quota));
        for number in 0..100_000_u128 {
            let principal = Principal::from_bits(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c));
            let key = Key { principal, counter: Counter::from_bits(1) };
            let algorithm = &algorithm;
            let consistency = Consistency::default();
            memory.apply(
                &[Charge { key, algorithm, cost: 1, binding: true, consistency }],
                Timestamp::default(),
            );
        }
        let losses = store.losses();
        assert!(losses.forgiven.states > 0);
        assert_eq!(losses, Losses { forgiven: memory.forgiven(), ..Losses::default() });
    }
}

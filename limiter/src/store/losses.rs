//! What a node has lost count of since it started. Nothing here decides; it is
//! for metrics, and this is the one place where they find it.

use super::Forgiven;

/// What a node has lost count of since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// States in memory that were forgotten for want of room.
    pub forgiven: Forgiven,
    /// Units told to the store of which it is not known whether it has counted
    /// them.
    pub lost_units: u64,
    /// Units of which the store was never told, for want of room.
    pub forgotten_units: u64,
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
    fn the_losses_of_a_store_in_memory_are_what_it_has_forgotten() {
        let memory = Arc::new(MemoryStore::new(1));
        let store = SharedStore::Memory(Arc::clone(&memory));
        assert_eq!(store.losses(), Losses::default());
        let quota = Quota::new(2, Span::from_secs(60)).unwrap();
        let algorithm = Algorithm::FixedWindow(FixedWindow::new(quota));
        for number in 0..100_000_u128 {
            let principal = Principal::from_bits(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c));
            let key = Key { principal, counter: Counter::from_bits(1) };
            let (algorithm, consistency) = (&algorithm, Consistency::default());
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

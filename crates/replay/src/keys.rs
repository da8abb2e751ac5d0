//! How many different keys there are, in bounded memory.

use std::collections::HashSet;

/// The most keys that are remembered.
const MAX_KEYS: usize = 1 << 18;

/// Counts different keys. Beyond a bound it remembers a sample by the keys' digests, half as
/// large each time, and the number becomes an estimate.
#[derive(Clone, Debug, Default)]
pub(super) struct KeySet {
    keys: HashSet<u64>,
    /// Only keys whose digest ends in so many zeros are remembered.
    halvings: u32,
}

impl KeySet {
    /// Adds a key by its digest, all bits of which are as good as random.
    pub(super) fn add(&mut self, digest: u64) {
        self.add_up_to(digest, MAX_KEYS);
    }

    fn add_up_to(&mut self, digest: u64, most: usize) {
        if digest.trailing_zeros() < self.halvings {
            return;
        }
        self.keys.insert(digest);
        while self.keys.len() > most {
            self.halvings += 1;
            let halvings = self.halvings;
            self.keys.retain(|digest| digest.trailing_zeros() >= halvings);
        }
    }

    /// How many different keys were added.
    pub(super) fn count(&self) -> u64 {
        u64::try_from(self.keys.len()).unwrap_or(u64::MAX) << self.halvings
    }

    /// Whether the number is an estimate.
    pub(super) const fn is_estimate(&self) -> bool {
        self.halvings > 0
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::digest::Secret;

    use super::*;

    fn digest(number: u64) -> u64 {
        let mut digest = Secret::from_bytes([7; 16]).digest();
        digest.value(&number.to_le_bytes());
        u64::try_from(digest.finish() & u128::from(u64::MAX)).expect("64 bits fit")
    }

    #[test]
    fn few_keys_are_counted_and_many_are_estimated_in_bounded_memory() {
        let mut keys = KeySet::default();
        for number in (0..1000).chain(0..1000) {
            keys.add_up_to(digest(number), 1000);
        }
        assert_eq!((keys.count(), keys.is_estimate()), (1000, false));
        for number in 0..64_000 {
            keys.add_up_to(digest(number), 1000);
            assert!(keys.keys.len() <= 1000);
        }
        assert!(keys.is_estimate());
        assert!((55_000..73_000).contains(&keys.count()), "{}", keys.count());
    }
}

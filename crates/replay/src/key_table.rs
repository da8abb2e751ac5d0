//! What is known of the keys of all policies, in a table that is small for a million keys.
//!
//! The entries lie one after the other, in the order in which they came. A second list, at
//! most half full, has the place of each entry at the bits of its key. The standard map would
//! take twice the memory, since it holds keys and values in a list that is only half full.
//!
//! The slot of a key depends on a secret of the process. Digests are no secret here: they come
//! from the key ids of a log, or are made of its texts under a secret that everybody knows.
//! Otherwise clients whose requests are in the log could choose keys that all lie at one slot,
//! and each look-up would read all of them.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

/// The secret. All tables have the same one, so that the same log takes the same work.
static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A free slot.
const FREE: u32 = u32::MAX;
const FIRST_SLOTS: usize = 64;

/// The key of a policy: the index of the policy, and bits of the key's digest.
pub(super) type PolicyKey = (u16, u64);

/// Values by keys.
#[derive(Debug)]
pub(super) struct KeyTable<T> {
    slots: Vec<u32>,
    entries: Vec<Entry<T>>,
    /// How many slots were read.
    #[cfg(test)]
    pub(super) probes: std::cell::Cell<u64>,
}

#[derive(Debug)]
struct Entry<T> {
    digest: u64,
    value: T,
    policy: u16,
}

impl<T> Default for KeyTable<T> {
    fn default() -> Self {
        Self {
            slots: vec![FREE; FIRST_SLOTS],
            entries: Vec::new(),
            #[cfg(test)]
            probes: Default::default(),
        }
    }
}

impl<T> KeyTable<T> {
    /// The number of keys.
    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    /// The value of a key.
    pub(super) fn get(&self, key: PolicyKey) -> Option<&T> {
        let place = self.slots[self.slot_of(key)];
        Some(&self.entries.get(usize::try_from(place).ok()?)?.value)
    }

    /// The value of a key, to be changed.
    pub(super) fn get_mut(&mut self, key: PolicyKey) -> Option<&mut T> {
        let place = self.slots[self.slot_of(key)];
        Some(&mut self.entries.get_mut(usize::try_from(place).ok()?)?.value)
    }

    /// Adds a key that the table does not have. There is room for 2^32 - 1 keys.
    pub(super) fn insert(&mut self, (policy, digest): PolicyKey, value: T) {
        self.entries.push(Entry { digest, value, policy });
        if self.entries.len() * 2 > self.slots.len() {
            self.index(self.slots.len() * 2);
        } else {
            let slot = self.slot_of((policy, digest));
            self.slots[slot] = u32::try_from(self.entries.len() - 1).unwrap_or(FREE);
        }
    }

    /// Keeps the keys for which this is true.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(PolicyKey) -> bool) {
        self.entries.retain(|entry| is_kept((entry.policy, entry.digest)));
        self.index(self.slots.len());
    }

    /// All keys with their values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PolicyKey, &T)> {
        self.entries.iter().map(|entry| ((entry.policy, entry.digest), &entry.value))
    }

    /// All values, to be changed.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|entry| &mut entry.value)
    }

    /// The slot with the place of a key, or the free one where it belongs.
    fn slot_of(&self, key: PolicyKey) -> usize {
        let last = self.slots.len() - 1;
        let mut slot = usize::try_from(HASHES.hash_one(key) >> 32).unwrap_or(0) & last;
        loop {
            #[cfg(test)]
            self.probes.set(self.probes.get() + 1);
            let entry = usize::try_from(self.slots[slot]).ok().and_then(|at| self.entries.get(at));
            match entry {
                Some(entry) if (entry.policy, entry.digest) != key => {
                    slot = (slot + 1) & last;
                }
                _ => return slot,
            }
        }
    }

    /// Finds the places of all entries anew. `slots` is a power of two.
    fn index(&mut self, slots: usize) {
        self.slots.clear();
        self.slots.resize(slots, FREE);
        for place in 0..self.entries.len() {
            let entry = &self.entries[place];
            let slot = self.slot_of((entry.policy, entry.digest));
            self.slots[slot] = u32::try_from(place).unwrap_or(FREE);
        }
    }

    /// The bytes that the table takes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>() + self.entries.capacity() * size_of::<Entry<T>>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(
            steps in prop::collection::vec((0..3_u16, 0..300_u64, any::<u8>(), 0..60_u8), 0..600),
            shift in prop_oneof![Just(0), Just(40)],
        ) {
            let mut table = KeyTable::default();
            let mut map = HashMap::new();
            for (policy, digest, value, kind) in steps {
                let key = (policy, digest << shift);
                match table.get_mut(key) {
                    Some(known) => *known = value,
                    None => table.insert(key, value),
                }
                map.insert(key, value);
                if kind == 0 {
                    table.retain(|(_, digest)| digest >> shift & 1 == 0);
                    map.retain(|(_, digest), _| *digest >> shift & 1 == 0);
                }
                prop_assert_eq!(table.get(key), map.get(&key));
            }
            prop_assert_eq!(table.len(), map.len());
            prop_assert!(table.iter().all(|(key, value)| map.get(&key) == Some(value)));
            prop_assert_eq!(table.get((7, 1)), None);
        }
    }

    /// The table multiplied digests by a constant that everybody knows. These all had one slot,
    /// and the look-ups read half a million slots for the last thousand keys alone.
    #[test]
    fn digests_that_a_log_has_chosen_are_spread_over_the_slots() {
        const KEYS: u64 = 1000;
        // The inverse of the constant modulo 2^64.
        const INVERSE: u64 = 0xf1de_83e1_9937_733d;
        assert_eq!(INVERSE.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1);
        let mut table = KeyTable::default();
        for number in 0..KEYS {
            table.insert((0, INVERSE.wrapping_mul(number)), number);
        }
        table.probes.set(0);
        for number in 0..KEYS {
            assert_eq!(table.get((0, INVERSE.wrapping_mul(number))), Some(&number));
        }
        assert!(table.probes.get() < 5 * KEYS, "{}", table.probes.get());
    }
}

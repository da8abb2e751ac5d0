//! A bounded table of keys. What it evicts is handed over, because it may hold units.

use std::ops::DerefMut;

use quick_cache::unsync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, UnitWeighter};

use tollgate_core::digest::Key;

/// One value for each key, for a bounded number of keys.
#[derive(Debug)]
pub(super) struct Table<V>(Cache<Key, V, UnitWeighter, DefaultHashBuilder, Evictions>);

/// Collects the entries that an insertion evicts.
#[derive(Clone, Debug)]
struct Evictions;

impl<V> Lifecycle<Key, V> for Evictions {
    type RequestState = Vec<(Key, V)>;

    fn on_evict(&self, evicted: &mut Self::RequestState, key: Key, value: V) {
        evicted.push((key, value));
    }
}

impl<V> Table<V> {
    /// An empty table for up to `max_keys` keys.
    pub(super) fn new(max_keys: usize) -> Self {
        let capacity = u64::try_from(max_keys).unwrap_or(u64::MAX);
        let hashing = DefaultHashBuilder::default();
        Self(Cache::with(max_keys, capacity, UnitWeighter, hashing, Evictions))
    }

    /// The value of a key. The key counts as used, so it is evicted later than others.
    pub(super) fn use_mut(&mut self, key: &Key) -> Option<impl DerefMut<Target = V>> {
        self.0.get_mut(key)
    }

    /// The value of a key, which does not count as used.
    pub(super) fn peek(&self, key: &Key) -> Option<&V> {
        self.0.peek(key)
    }

    /// The value of a key, to be changed. The key does not count as used.
    pub(super) fn peek_mut(&mut self, key: &Key) -> Option<impl DerefMut<Target = V>> {
        self.0.peek_mut(key)
    }

    /// Inserts a value. Returns the entries that are evicted for it. If the table has no
    /// room at all, that is the new entry itself.
    #[must_use = "evicted values may hold units"]
    pub(super) fn insert(&mut self, key: Key, value: V) -> Vec<(Key, V)> {
        let mut evicted = Vec::new();
        self.0.insert_with_lifecycle(key, value, &mut evicted);
        evicted
    }

    /// All entries, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &V)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::testing::key;

    use super::*;

    #[test]
    fn each_value_is_in_the_table_or_was_handed_over() {
        for max_keys in [0, 1, 16] {
            let mut table = Table::new(max_keys);
            let mut evicted = Vec::new();
            for number in 0..100_u64 {
                evicted.extend(table.insert(key(number.into()), number));
            }
            assert!(table.iter().count() <= max_keys);
            let mut all: Vec<_> = evicted.iter().map(|(_, number)| *number).collect();
            all.extend(table.iter().map(|(_, number)| *number));
            all.sort_unstable();
            assert_eq!(all, (0..100).collect::<Vec<_>>());
        }
    }
}

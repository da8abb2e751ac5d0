//! One worker's cache of overrides: for each key an override, or that it has none. The cache
//! is bounded and reads no clock.

use quick_cache::unsync;

use super::marks::{ReadAt, part};
use super::{Marks, Override};
use crate::digest::Key;
use crate::time::Timestamp;

/// The cache.
#[derive(Debug)]
pub(super) struct Cache(unsync::Cache<Key, Entry>);

/// The entry of one key.
#[derive(Clone, Copy, Debug)]
struct Entry {
    said: Option<Override>,
    asked: ReadAt,
}

impl Cache {
    /// An empty cache for up to `max_keys` keys.
    pub(super) fn new(max_keys: usize) -> Self {
        Self(unsync::Cache::new(max_keys))
    }

    /// Whether the entry of a key is still valid at `now`. It is not if there is none.
    pub(super) fn is_fresh(&self, key: &Key, marks: &Marks, now: Timestamp) -> bool {
        self.0.get(key).is_some_and(|entry| entry.asked.is_fresh(part(key), marks, now))
    }

    /// The override of a key, as last read.
    pub(super) fn last_known(&self, key: &Key) -> Option<Override> {
        self.0.peek(key)?.said
    }

    /// Stores the override of a key, or that it has none.
    pub(super) fn learn(&mut self, key: Key, said: Option<Override>, asked: ReadAt) {
        self.0.insert(key, Entry { said, asked });
    }

    /// The number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{after, key};

    const LIMIT: Option<Override> = Some(Override::Limited { units: 5, window: None });

    #[test]
    fn an_entry_is_valid_while_marks_are_read_and_its_mark_is_the_same() {
        let marks = Marks::default();
        let mut cache = Cache::new(10);
        cache.learn(key(7), LIMIT, ReadAt { mark: marks.of(&key(7)), at: after(0) });
        let is_fresh = |marks: &Marks, ms| cache.is_fresh(&key(7), marks, after(ms));
        assert!(is_fresh(&marks, 1499));
        assert!(!is_fresh(&marks, 1500), "the marks were not read");
        marks.hear([(9, 3)], after(1400));
        assert!(is_fresh(&marks, 2899), "another part was changed");
        marks.hear([(7, 3)], after(1400));
        assert!(!is_fresh(&marks, 1400), "its part was changed");
        assert_eq!(cache.last_known(&key(7)), LIMIT);
        assert!(!cache.is_fresh(&key(8), &marks, after(0)), "it was never read");
    }

    #[test]
    fn no_entry_is_valid_for_longer_than_a_minute_or_before_it_was_read() {
        let marks = Marks::default();
        let mut cache = Cache::new(10);
        cache.learn(key(7), None, ReadAt { mark: 0, at: after(0) });
        marks.hear([], after(59_000));
        assert!(cache.is_fresh(&key(7), &marks, after(59_999)));
        marks.hear([], after(60_000));
        assert!(!cache.is_fresh(&key(7), &marks, after(60_000)));
        assert!(!cache.is_fresh(&key(7), &marks, Timestamp::default()));
    }

    proptest! {
        #[test]
        fn a_change_is_known_within_two_seconds(
            polls in prop::collection::vec(1..3000_u64, 0..20),
            asked_ms in 0..20_000_u64,
            changed_ms in 0..20_000_u64,
        ) {
            // The entry is older than the change. Later polls read the change.
            prop_assume!(asked_ms < changed_ms);
            let marks = Marks::default();
            let mut cache = Cache::new(10);
            cache.learn(key(7), LIMIT, ReadAt { mark: 0, at: after(asked_ms) });
            let mut poll_ms = 0;
            for gap_ms in polls {
                poll_ms += gap_ms;
                let mark = u64::from(poll_ms >= changed_ms);
                marks.hear([(7, mark)], after(poll_ms));
                for later_ms in [0, 700, 1400, 1999] {
                    let now_ms = poll_ms + later_ms;
                    if now_ms >= changed_ms + 1500 {
                        prop_assert!(!cache.is_fresh(&key(7), &marks, after(now_ms)));
                    }
                }
            }
        }

        #[test]
        fn the_cache_stays_within_its_bound(keys in prop::collection::vec(0..9999_u128, 0..500)) {
            let mut cache = Cache::new(50);
            for bits in keys {
                cache.learn(key(bits), LIMIT, ReadAt { mark: 0, at: after(0) });
                prop_assert!(cache.len() <= 50);
            }
        }
    }
}

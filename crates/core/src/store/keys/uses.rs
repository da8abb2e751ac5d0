//! When keys were last used. A node stores it at most once in ten minutes for each key.

use std::sync::Arc;

use parking_lot::Mutex;
use quick_cache::unsync;

use super::cache::MAX_KNOWN;
use crate::api_keys::KeyId;
use crate::time::{Span, Timestamp};

/// The time between two notes of one node about one key.
pub(super) const EVERY: Span = Span::from_secs(600);

/// The last uses that the workers of this node have noted. A worker asks it at most once in ten
/// minutes for each key, so the lock is rarely taken.
#[derive(Clone, Debug)]
pub(super) struct NodeUses(Arc<Mutex<unsync::Cache<KeyId, Timestamp>>>);

impl Default for NodeUses {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(unsync::Cache::new(MAX_KNOWN))))
    }
}

impl NodeUses {
    /// Whether a use at `now` is to be stored.
    pub(super) fn notes(&self, id: KeyId, now: Timestamp) -> bool {
        let mut uses = self.0.lock();
        let is_due = uses.get(&id).is_none_or(|last| now.since(*last) >= EVERY);
        if is_due {
            uses.insert(id, now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::after;

    #[test]
    fn a_node_notes_a_key_once_in_ten_minutes() {
        let uses = NodeUses::default();
        let one = KeyId::from_bits(1);
        let other = KeyId::from_bits(2);
        let noted = [0, 1, 599_999, 600_000, 600_001].map(|ms| uses.notes(one, after(ms)));
        assert_eq!(noted, [true, false, false, true, false]);
        assert!(uses.notes(other, after(1)));
    }
}

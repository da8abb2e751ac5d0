//! The keys as the workers of a node have last read them. A worker that has not read a key itself
//! trusts what another one has read, while the storage is away.

use std::sync::Arc;

use parking_lot::Mutex;
use quick_cache::unsync;

use super::cache::MAX_KNOWN;
use crate::api_keys::{KeyEntry, Sought};
use crate::store::overrides::ReadAt;

/// A key, and when it was read.
pub(super) type Read = (Arc<KeyEntry>, ReadAt);

/// The keys of a node. It is used when keys are read, and when they cannot be read.
#[derive(Clone, Debug)]
pub(super) struct LastKnown(Arc<Mutex<unsync::Cache<Sought, Read>>>);

impl Default for LastKnown {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(unsync::Cache::new(MAX_KNOWN))))
    }
}

impl LastKnown {
    /// A worker has read this key.
    pub(super) fn learn(&self, sought: Sought, entry: Arc<KeyEntry>, read: ReadAt) {
        let mut known = self.0.lock();
        if known.peek(&sought).is_none_or(|(_, before)| before.at <= read.at) {
            known.insert(sought, (entry, read));
        }
    }

    /// A worker has read that there is no such key.
    pub(super) fn forget(&self, sought: &Sought) {
        self.0.lock().remove(sought);
    }

    /// The key as it was last read.
    pub(super) fn get(&self, sought: &Sought) -> Option<Read> {
        self.0.lock().get(sought).cloned()
    }
}

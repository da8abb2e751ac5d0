//! Keys that are all known, as those of a file.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::{KeyDigest, KeyEntry, KeyId, KeyRecord, Sought, TeamRecord};

/// All keys of a file. It never changes: a changed file makes another table.
#[derive(Default)]
pub struct KeyTable {
    by_id: HashMap<KeyId, Arc<KeyEntry>>,
    by_digest: HashMap<KeyDigest, KeyId>,
}

impl KeyTable {
    /// The table of these keys, whose teams are among `teams` or have only a name. Of several keys
    /// with the same id, the last one counts.
    pub fn new(
        keys: impl IntoIterator<Item = KeyRecord>,
        teams: impl IntoIterator<Item = TeamRecord>,
    ) -> Self {
        let teams: HashMap<Arc<str>, Arc<TeamRecord>> =
            teams.into_iter().map(|team| (Arc::clone(&team.name), Arc::new(team))).collect();
        let mut table = Self::default();
        for key in keys {
            let team = key.team.as_ref().and_then(|name| teams.get(name)).cloned();
            table.by_digest.extend(key.digests.iter().map(|held| (held.digest, key.id)));
            table.by_id.insert(key.id, Arc::new(KeyEntry { key, team }));
        }
        table
    }

    /// The key, if it is in the table.
    pub fn find(&self, sought: &Sought) -> Option<&Arc<KeyEntry>> {
        match sought {
            Sought::Id(id) => self.by_id.get(id),
            Sought::Digest(digest) => self.by_id.get(self.by_digest.get(digest)?),
        }
    }

    /// All keys, in no order.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<KeyEntry>> {
        self.by_id.values()
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

/// Prints how many keys there are.
impl fmt::Debug for KeyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyTable({} keys)", self.len())
    }
}

//! Keys of the file, which win over those of the store with the same ids.

use std::sync::Arc;

use tollgate_core::api_keys::{KeyDigest, KeyEntry, KeyForm, KeyId, KeyTable, Sought};
use tollgate_core::policy::KeySettings;
use tollgate_core::time::Timestamp;

use super::forms::FoundKey;
use super::{KeyError, Teams};

/// The keys of a file.
#[derive(Clone, Debug)]
pub struct FileKeys {
    name: Arc<str>,
    table: Arc<KeyTable>,
}

impl FileKeys {
    /// Those of the settings of `client.keys`, if a file is among them.
    pub fn of(settings: &KeySettings) -> Option<Self> {
        let name = settings.file.clone()?;
        Some(Self { name, table: Arc::clone(&settings.table) })
    }

    /// The name of the file, if it has this key.
    pub fn with(&self, id: KeyId) -> Option<&str> {
        self.table.find(&Sought::Id(id)).map(|_| &*self.name)
    }

    /// A key of the file cannot be changed by calls.
    pub fn check(&self, id: KeyId) -> Result<(), KeyError> {
        match self.with(id) {
            Some(file) => Err(KeyError::InFile { id, file: file.to_owned() }),
            None => Ok(()),
        }
    }

    /// The key that a text belongs to.
    pub fn find(
        &self,
        form: &KeyForm,
        text: &[u8],
        digest: &KeyDigest,
        teams: &Teams,
        now: Timestamp,
    ) -> Option<FoundKey> {
        let sought = form.parse(text).map_or(Sought::Digest(*digest), Sought::Id);
        let is_it = |entry: &&Arc<KeyEntry>| {
            entry.key.digests.iter().any(|held| held.digest.is(digest))
                && teams.include(entry.key.team.as_deref())
        };
        let KeyEntry { key, .. } = &**self.table.find(&sought).filter(is_it)?;
        let team = key.team.as_deref().map(str::to_owned);
        Some(FoundKey { id: key.id.to_string(), team, state: key.state(now).into() })
    }
}

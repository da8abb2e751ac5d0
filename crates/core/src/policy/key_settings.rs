//! How API keys are known, and what a known key has.

use std::fmt;
use std::sync::Arc;

use http::HeaderName;

use super::LimitOwner;
use crate::api_keys::{KeyDigest, KeyEntry, KeyForm, KeyLimit, KeyTable, Sought};

/// How the API keys of requests are known.
#[derive(Clone, Debug)]
pub struct KeySettings {
    /// The form of the keys.
    pub form: KeyForm,
    /// The file of these keys, as the configuration names it.
    pub file: Option<Arc<str>>,
    /// The keys of a file.
    pub table: Arc<KeyTable>,
    /// Whether texts of other forms can be keys, too: those that were imported.
    pub foreign: bool,
    /// Whether the upstream gets the key.
    pub forward: bool,
    /// The fields that tell the upstream about the key.
    pub identity_headers: Vec<(IdentityPart, HeaderName)>,
    /// Whether requests without a right credential pass, and are only reported.
    pub is_shadow: bool,
    /// Whether keys are also in the store.
    pub in_store: bool,
}

/// What an upstream is told of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityPart {
    /// Its id.
    Id,
    /// Its team.
    Team,
    /// Its plan, or that of its team.
    Plan,
}

impl KeyEntry {
    /// Its plan, or that of its team.
    pub fn plan(&self) -> Option<&str> {
        self.key.plan.as_deref().or_else(|| self.team.as_ref()?.plan.as_deref())
    }

    /// What `api_key:NAME` means: the team, the plan, or a label of the key or its team.
    pub fn part(&self, name: &str) -> Option<&str> {
        match name {
            "team" => self.key.team.as_deref(),
            "plan" => self.plan(),
            label => self.key.label(label).or_else(|| self.team.as_ref()?.label(label)),
        }
    }

    /// Its limit for this policy: its own, or that of its team.
    pub fn limit(&self, policy: &str) -> Option<(KeyLimit, LimitOwner)> {
        let own = self.key.limit(policy).map(|limit| (limit, LimitOwner::Key));
        let of_team = || Some((self.team.as_ref()?.limit(policy)?, LimitOwner::Team));
        own.or_else(of_team)
    }

    /// What an upstream is told of it.
    pub fn identity(&self, part: IdentityPart) -> Option<&str> {
        match part {
            IdentityPart::Id => Some(self.key.id.as_str()),
            IdentityPart::Team => self.key.team.as_deref(),
            IdentityPart::Plan => self.plan(),
        }
    }
}

impl KeySettings {
    /// What a text is looked up by. None: it is not a key, and no lookup would find it.
    pub(super) fn sought(&self, text: &[u8]) -> Option<Sought> {
        match self.form.parse(text) {
            Ok(id) => Some(Sought::Id(id)),
            Err(_) => self.foreign.then(|| Sought::Digest(digest(text))),
        }
    }
}

#[cfg(feature = "keys")]
pub(super) fn digest(text: &[u8]) -> KeyDigest {
    KeyDigest::of(text)
}

/// Without the feature `keys`, there are no settings with keys.
#[cfg(not(feature = "keys"))]
pub(super) fn digest(_: &[u8]) -> KeyDigest {
    KeyDigest::from_bytes([0; 32])
}

impl fmt::Display for IdentityPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Id => "id",
            Self::Team => "team",
            Self::Plan => "plan",
        })
    }
}

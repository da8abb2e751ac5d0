//! What the API key of a request says.

use std::ops::Deref;
use std::sync::Arc;

use crate::api_keys::{KeyEntry, KeyRefusal};

/// The key that a request has proved to have.
#[derive(Clone, Debug)]
pub enum KnownKey<'r> {
    /// One of the configuration, which all workers share. Its count of references is not touched:
    /// all workers would write it.
    OfTable(&'r KeyEntry),
    /// One that a directory of the worker has found.
    Found(Arc<KeyEntry>),
}

impl KnownKey<'_> {
    /// The same key, which does not borrow the configuration.
    pub fn into_owned(self) -> KnownKey<'static> {
        match self {
            Self::OfTable(entry) => KnownKey::Found(Arc::new(entry.clone())),
            Self::Found(entry) => KnownKey::Found(entry),
        }
    }
}

impl Deref for KnownKey<'_> {
    type Target = KeyEntry;

    fn deref(&self) -> &KeyEntry {
        match self {
            Self::OfTable(entry) => entry,
            Self::Found(entry) => entry,
        }
    }
}

/// What the API key of a request says.
#[derive(Clone, Debug)]
pub enum Identified<'r> {
    /// The request has no API key.
    Absent,
    /// The key is known, and good now.
    Known(KnownKey<'r>),
    /// The key is not accepted. It is here if the secret is right.
    Refused(KeyRefusal, Option<KnownKey<'r>>),
    /// Backends may read different keys.
    Ambiguous,
    /// Whether the key is known cannot be found out at the moment.
    Away,
}

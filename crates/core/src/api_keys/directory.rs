//! Where a request's key is looked up.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::{KeyDigest, KeyId, KeyLookups, KeyRecord, TeamRecord};
use crate::time::Timestamp;

/// What a key is looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sought {
    /// The id in the text of a key.
    Id(KeyId),
    /// The digest of the whole text: an imported key of another form.
    Digest(KeyDigest),
}

/// A key with the team that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEntry {
    /// The key.
    pub key: KeyRecord,
    /// Its team, if it is known by more than its name.
    pub team: Option<Arc<TeamRecord>>,
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The key. Whether a text is its secret is for [`KeyRecord::admit`].
    Known(Arc<KeyEntry>),
    /// There is no such key.
    Unknown,
    /// Whether there is such a key is not known, because the store cannot be read.
    Away,
}

/// A lookup, which is at its end or waits for a store.
pub enum KeyLookup<'d> {
    /// The result was known.
    Now(Found),
    /// The result comes from a store. The lookup has a deadline of its own.
    Later(Pin<Box<dyn Future<Output = Found> + 'd>>),
}

/// Finds keys. One worker uses it: a directory with a store keeps the keys that the worker knows.
pub trait KeyDirectory: Debug {
    /// Looks up a key. A directory that knows the answer gives it without waiting.
    fn find(&self, sought: Sought, now: Timestamp) -> KeyLookup<'_>;

    /// Whether the answer to this question is known, or was: an invented key never was, so an address
    /// with too many wrong keys can cause no lookups of such keys.
    fn knows(&self, sought: Sought, now: Timestamp) -> bool;

    /// A request was admitted with the key `id`, which was found by `sought`. A directory that
    /// stores when keys were last used notes it.
    fn used(&self, sought: Sought, id: KeyId, now: Timestamp) {
        let _ = (sought, id, now);
    }

    /// How keys were found, since the directory was made.
    fn lookups(&self) -> KeyLookups {
        KeyLookups::default()
    }
}

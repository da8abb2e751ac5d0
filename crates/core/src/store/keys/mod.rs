//! API keys and teams in the shared store or in a file, read through bounded caches.
//!
//! Guarantees: a change takes effect on all nodes within two seconds. A known key costs no call.
//! A request waits for another key for at most the timeout. If there is no reply by then, or the
//! storage is away, a known key is trusted for the time `stale` after it was last certain. Then
//! the result is `Found::Away`, and never `Found::Unknown`. The caches and the number of
//! concurrent lookups are bounded, and invented ids displace no key.
//!
//! How nodes find changes: see [`Marks`](super::overrides::Marks).

mod backend;
#[cfg(feature = "keys")]
mod cache;
mod condition;
#[cfg(feature = "keys-file")]
mod file;
#[cfg(feature = "keys")]
mod last_known;
mod place;
#[cfg(feature = "keys")]
mod shared;
mod storage;
#[cfg(feature = "keys")]
mod uses;
#[cfg(feature = "keys")]
mod worker;

pub use self::backend::{ReadKeys, ReadRecord, VERSION_CHARS};
pub use self::condition::{KeysAway, KeysCondition};
#[cfg(feature = "keys-file")]
pub use self::file::{KeysFile, KeysFileError};
pub use self::place::{part_of_digest, part_of_id, part_of_team};
#[cfg(feature = "keys")]
pub use self::shared::{OnFailure, SharedKeys};
pub use self::storage::{
    Expected, KeyStorage, KeyWrite, MAX_TEAMS, StorageError, StoredRecord, TeamWrite, Version,
    Written,
};
#[cfg(feature = "keys")]
pub use self::worker::StoredKeys;

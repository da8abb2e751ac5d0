//! A storage of keys, as operators read and write it. It knows bytes and versions, and not what is
//! in a record.

use std::fmt;
use std::fmt::Debug;

use futures_util::future::LocalBoxFuture;
use thiserror::Error;

use super::VERSION_CHARS;
use crate::api_keys::{KeyDigest, KeyId};
use crate::time::{Span, Timestamp};

/// The most teams.
pub const MAX_TEAMS: usize = 10_000;

/// Identifies one state of a record: 16 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(Box<str>);

impl Version {
    /// A new version.
    pub fn random() -> Self {
        Self(format!("{:016x}", fastrand::u64(..)).into())
    }

    /// The version that a caller has seen.
    pub fn of(text: &str) -> Self {
        Self(text.into())
    }

    /// Its characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a record must be for a write to succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It does not exist.
    Absent,
    /// It has this version.
    Version(Version),
}

impl Expected {
    /// The version, or an empty text for a record that does not exist.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Absent => "",
            Self::Version(version) => version.as_str(),
        }
    }
}

/// A record as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its version.
    pub version: Version,
    /// The record, in its stored form.
    pub bytes: Vec<u8>,
    /// When it was last used, of a key.
    pub used: Option<Timestamp>,
}

/// Does not print the record, which has digests.
impl Debug for StoredRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredRecord").field("version", &self.version).finish_non_exhaustive()
    }
}

impl StoredRecord {
    /// The record in bytes that begin with its version.
    pub fn of(bytes: &[u8], used: Option<Timestamp>) -> Option<Self> {
        let (version, bytes) = bytes.split_at_checked(VERSION_CHARS)?;
        let version = Version::of(std::str::from_utf8(version).ok()?);
        Some(Self { version, bytes: bytes.to_vec(), used })
    }
}

/// A write of the record of a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyWrite<'w> {
    /// The key.
    pub id: KeyId,
    /// What the record must be before.
    pub expected: &'w Expected,
    /// The record, in its stored form.
    pub record: &'w [u8],
    /// How long it stays. None: for ever.
    pub lasts: Option<Span>,
    /// The digests of the key by which it is found, because its text does not have the form of a
    /// key. They stay at least as long as the record, also if it is written without them later.
    pub foreign: &'w [KeyDigest],
}

/// A write of the record of a team.
#[derive(Clone, Copy, Debug)]
pub struct TeamWrite<'w> {
    /// The team.
    pub name: &'w str,
    /// What the record must be before.
    pub expected: &'w Expected,
    /// The record, in its stored form.
    pub record: &'w [u8],
}

/// A record that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its new version.
    pub version: Version,
    /// Why the other nodes could not be told. Then they find the change within a minute.
    pub unannounced: Option<String>,
}

impl Written {
    /// A record of which all nodes are told.
    pub const fn announced(version: Version) -> Self {
        Self { version, unannounced: None }
    }

    /// What does not hold yet, if the other nodes could not be told.
    pub fn warning(&self) -> Option<String> {
        let cause = self.unannounced.as_deref()?;
        Some(format!(
            "the key is written, but the other nodes could not be notified ({cause}): it takes \
             effect there within a minute"
        ))
    }

    /// Its version, if the other nodes are told.
    ///
    /// # Errors
    /// [`StorageError::NotAnnounced`], if they are not. The record is written.
    pub fn check(self) -> Result<Version, StorageError> {
        match self.unannounced {
            Some(cause) => Err(StorageError::NotAnnounced(cause)),
            None => Ok(self.version),
        }
    }
}

/// Why keys cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StorageError {
    /// The record has another version, or exists already.
    #[error("it has been changed in the meantime")]
    Stale,
    /// The digest belongs to another key.
    #[error("this key is stored already, as {0}")]
    Taken(KeyId),
    /// There is no sign that the storage has keys: it is new, or it was emptied.
    #[error(
        "the store does not have keys: it is new, or it was emptied; import a backup with tollgate \
         key import, or begin a new one with tollgate key create --store --first"
    )]
    NotBegun,
    /// There are too many teams.
    #[error("there are {MAX_TEAMS} teams already")]
    Full,
    /// The storage does not answer. The record may have been written.
    #[error("the store of keys did not process the call: {0}; try again")]
    Away(String),
    /// The record is written, and other nodes could not be told.
    #[error(
        "the change is written, but the other nodes could not be notified ({0}): it takes effect \
         within a minute, or try again"
    )]
    NotAnnounced(String),
}

/// A storage of keys and teams, as operators read and write it.
pub trait KeyStorage: Debug {
    /// The records of these keys, in their order.
    fn read_keys<'a>(
        &'a self,
        ids: &'a [KeyId],
    ) -> LocalBoxFuture<'a, Result<Vec<Option<StoredRecord>>, StorageError>>;

    /// The key that has this digest and another form.
    fn id_of<'a>(
        &'a self,
        digest: &'a KeyDigest,
    ) -> LocalBoxFuture<'a, Result<Option<KeyId>, StorageError>>;

    /// The ids of a part after this one, in their order, at most `most`.
    fn ids(
        &self,
        part: usize,
        after: Option<KeyId>,
        most: usize,
    ) -> LocalBoxFuture<'_, Result<Vec<KeyId>, StorageError>>;

    /// Writes a record, in one step with the test of its version, and tells all nodes. If the
    /// record or a digest is not as it must be, nothing is changed.
    fn write_key<'a>(
        &'a self,
        write: KeyWrite<'a>,
    ) -> LocalBoxFuture<'a, Result<Written, StorageError>>;

    /// The record of a team.
    fn read_team<'a>(
        &'a self,
        name: &'a str,
    ) -> LocalBoxFuture<'a, Result<Option<StoredRecord>, StorageError>>;

    /// All teams by name, in no order.
    fn teams(&self) -> LocalBoxFuture<'_, Result<Vec<StoredRecord>, StorageError>>;

    /// Writes the record of a team, as [`write_key`](Self::write_key) does.
    fn write_team<'a>(
        &'a self,
        write: TeamWrite<'a>,
    ) -> LocalBoxFuture<'a, Result<Written, StorageError>>;

    /// Notes that the storage has keys from now on, so that one that is not in it is unknown.
    fn begin(&self) -> LocalBoxFuture<'_, Result<(), StorageError>>;
}

//! Entries that operators write: named values in one hash, `{prefix}:meta:patches`, on one
//! server.
//!
//! Each entry begins with its version, and the field without a name has the mark of the last
//! change. If that has not changed, nothing else is read. An entry is written only if it has
//! the version that its writer has seen.

use redis::{Value, cmd};

use super::super::failure::StoreError;
use super::ControlStore;

const WRITE: &str = include_str!("write_entry.lua");
const RESTORE: &str = include_str!("restore_entries.lua");
/// The most entries.
const MAX_ENTRIES: usize = 256;
/// The most bytes of one entry, without its version.
const MAX_BYTES: usize = 4096;
/// The length of a version in characters.
const VERSION_CHARS: usize = 16;
/// The field with the mark. No entry has this name.
const MARK: &str = "";

/// Identifies one state of an entry: random, 16 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryVersion(Box<str>);

impl EntryVersion {
    /// A new version.
    pub fn random() -> Self {
        Self(format!("{:016x}", fastrand::u64(..)).into())
    }

    /// Its 16 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What the entry must be for a write to succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It does not exist.
    Absent,
    /// It has this version.
    Version(EntryVersion),
    /// Anything.
    Anything,
}

/// The entries that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadEntries {
    /// The mark of the last change. None: there has never been one, or Redis was emptied.
    pub mark: Option<String>,
    /// Name, version and value, by name. At most 256. A value that is too long is empty.
    pub entries: Vec<(String, EntryVersion, Vec<u8>)>,
}

/// Why an entry was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The entry has another version.
    #[error("the entry has been changed in the meantime")]
    Stale,
    /// There are too many entries.
    #[error("there are {MAX_ENTRIES} entries already; remove one")]
    Full,
    /// The value is too long.
    #[error("the entry is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// Redis does not answer. The entry may have been written.
    #[error("Redis did not process the entry: {0}")]
    Store(#[from] StoreError),
}

impl ControlStore {
    /// All entries, unless their mark is still `known`: then None.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn entries(&self, known: Option<&str>) -> Result<Option<ReadEntries>, StoreError> {
        let key = self.key("patches");
        if let Some(known) = known {
            let mut look = cmd("HGET");
            look.arg(&key).arg(MARK);
            if matches!(self.ask(&key, look).await?, Value::BulkString(mark) if mark == known.as_bytes())
            {
                return Ok(None);
            }
        }
        let mut read = cmd("HGETALL");
        read.arg(&key);
        let pairs: Vec<(Vec<u8>, Vec<u8>)> =
            redis::from_redis_value(self.ask(&key, read).await?)
                .map_err(|_| StoreError::InvalidReply("the entries are not a hash"))?;
        let mut read = ReadEntries { mark: None, entries: Vec::new() };
        for (name, mut value) in pairs {
            let Ok(name) = String::from_utf8(name) else { continue };
            if name == MARK {
                read.mark = String::from_utf8(value).ok();
            } else if read.entries.len() < MAX_ENTRIES {
                let bytes = value.split_off(value.len().min(VERSION_CHARS));
                let bytes = if bytes.len() > MAX_BYTES { Vec::new() } else { bytes };
                let version = EntryVersion(String::from_utf8_lossy(&value).into());
                read.entries.push((name, version, bytes));
            }
        }
        read.entries.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(Some(read))
    }

    /// Writes an entry, or removes it if there is no value, in one step with the test of its
    /// version. Returns the new version. `name` must not be empty.
    ///
    /// # Errors
    /// If the entry is not as expected, there is no room for it, or Redis does not answer.
    pub async fn write_entry(
        &self,
        name: &str,
        expected: &Expected,
        value: Option<&[u8]>,
    ) -> Result<EntryVersion, WriteError> {
        if value.is_some_and(|value| value.len() > MAX_BYTES) {
            return Err(WriteError::TooLong);
        }
        let key = self.key("patches");
        let version = EntryVersion::random();
        let expected = match expected {
            Expected::Absent => "",
            Expected::Version(version) => version.as_str(),
            Expected::Anything => "*",
        };
        let value = value.map(|value| [version.as_str().as_bytes(), value].concat());
        let mut write = cmd("EVAL");
        write.arg(WRITE).arg(1).arg(&key).arg(name).arg(expected);
        write.arg(value.unwrap_or_default()).arg(version.as_str()).arg(MAX_ENTRIES);
        match self.ask(&key, write).await? {
            Value::Int(0) => Ok(version),
            Value::Int(1) => Err(WriteError::Stale),
            Value::Int(2) => Err(WriteError::Full),
            _ => Err(StoreError::InvalidReply("the result of a write is not known").into()),
        }
    }

    /// Writes these entries after Redis was emptied. Nothing changes if another node has been
    /// faster.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn restore_entries(&self, read: &ReadEntries) -> Result<(), StoreError> {
        let Some(mark) = &read.mark else { return Ok(()) };
        let key = self.key("patches");
        let mut restore = cmd("EVAL");
        restore.arg(RESTORE).arg(1).arg(&key).arg(mark);
        for (name, version, value) in &read.entries {
            restore.arg(name).arg([version.as_str().as_bytes(), value].concat());
        }
        self.ask(&key, restore).await.map(drop)
    }
}

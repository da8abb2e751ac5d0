//! API keys in an embedded database, for nodes without Redis.
//!
//! The file is one of redb, in the mode in which several processes share it, as for the limits of
//! single keys. Nodes keep it open for reads, while operators write to it.

mod operators;
mod reader;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{ReadableDatabase as _, ReadableTable as _, TableDefinition, WriteTransaction};
use thiserror::Error;

pub(super) use reader::Reader;

use super::backend::ReadRecord;
use super::place::{part_of_digest, part_of_id, part_of_team};
use super::storage::{
    Expected, KeyWrite, MAX_TEAMS, StorageError, StoredRecord, TeamWrite, Version,
};
use crate::api_keys::{KeyDigest, KeyId, Sought};
use crate::store::shared_file::{self, MARKS, OpenFile, existing, other_content, writer};
use crate::time::{Clock, Span, Timestamp};

/// The version and the record, by part and id, so that the keys of a part follow each other.
const KEYS: TableDefinition<'_, (u8, &str), &[u8]> = TableDefinition::new("keys by part");
/// The id, by digest.
const DIGESTS: TableDefinition<'_, [u8; 32], &str> = TableDefinition::new("digests");
/// The version and the record, by name.
const TEAMS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("teams");
/// When a key was last used, in seconds since 1970, by id.
const USES: TableDefinition<'_, &str, u64> = TableDefinition::new("uses");
/// The digests that lead to an id, beside the id.
const DIGESTS_OF: TableDefinition<'_, (&str, [u8; 32]), ()> = TableDefinition::new("digests of");
/// When a record ends, in microseconds since 1970, and its id.
const ENDS: TableDefinition<'_, (u64, &str), ()> = TableDefinition::new("ends");
/// When a record ends, in microseconds since 1970, by id.
const END_OF: TableDefinition<'_, &str, u64> = TableDefinition::new("end of");
/// What the file contains, in messages.
const CONTENT: &str = "keys";
/// The most records that one write removes because they have ended.
const MAX_ENDED: usize = 64;

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot use the file of keys {}: {problem}", path.display())]
pub struct KeysFileError {
    path: PathBuf,
    problem: String,
}

/// A file that exists.
#[derive(Clone, Debug)]
pub struct KeysFile {
    path: Arc<Path>,
}

impl KeysFile {
    /// Opens the file at `path`, and creates it if it does not exist.
    ///
    /// # Errors
    /// If the file can be neither read nor created, or has another format.
    pub fn open(path: &Path) -> Result<Self, KeysFileError> {
        let file = Self { path: path.into() };
        let opened = match fs::exists(path) {
            Ok(true) => Opened::open(path).and_then(|opened| opened.marks()).map(drop),
            _ => make(path),
        };
        opened.map_err(|problem| KeysFileError { path: path.to_owned(), problem })?;
        Ok(file)
    }

    /// Reads from the file as it is now.
    fn read<T>(
        &self,
        read: impl FnOnce(&Opened) -> Result<T, redb::Error>,
    ) -> Result<T, StorageError> {
        let opened = Opened::open(&self.path).map_err(StorageError::Away)?;
        read(&opened).map_err(|error| StorageError::Away(explained(error)))
    }

    /// Changes the file in one step, and the marks of these parts.
    fn write<T>(
        &self,
        parts: &[usize],
        change: impl FnOnce(&WriteTransaction) -> Result<Result<T, StorageError>, redb::Error>,
    ) -> Result<T, StorageError> {
        let done = || -> Result<Result<T, StorageError>, redb::Error> {
            let database = existing(&self.path)?;
            let transaction = database.begin_write()?;
            let done = change(&transaction)?;
            if done.is_ok() {
                remove_ended(&transaction, Clock::System.wall())?;
                set_marks(&transaction, parts)?;
                transaction.commit()?;
            }
            Ok(done)
        };
        done().map_err(|error| StorageError::Away(explained(error)))?
    }

    /// The records of these keys, in their order.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read_keys(&self, ids: &[KeyId]) -> Result<Vec<Option<StoredRecord>>, StorageError> {
        self.read(|opened| {
            let transaction = opened.file.database.begin_read()?;
            let keys = transaction.open_table(KEYS)?;
            let uses = transaction.open_table(USES)?;
            let mut records = Vec::with_capacity(ids.len());
            for id in ids {
                let seconds = uses.get(id.as_str())?.map(|seconds| seconds.value());
                let used = seconds.map(|it| Timestamp::default().plus(Span::from_secs(it)));
                let bytes = keys.get(place_of(id))?;
                records.push(bytes.and_then(|bytes| StoredRecord::of(bytes.value(), used)));
            }
            Ok(records)
        })
    }

    /// The key that has this digest and another form.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn id_of(&self, digest: &KeyDigest) -> Result<Option<KeyId>, StorageError> {
        self.read(|opened| {
            let digests = opened.file.database.begin_read()?.open_table(DIGESTS)?;
            let id = digests.get(*digest.as_bytes())?;
            Ok(id.and_then(|id| id.value().parse().ok()))
        })
    }

    /// The ids of a part after this one, in their order, at most `most`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn ids(
        &self,
        part: usize,
        after: Option<KeyId>,
        most: usize,
    ) -> Result<Vec<KeyId>, StorageError> {
        self.read(|opened| {
            let keys = opened.file.database.begin_read()?.open_table(KEYS)?;
            let part = part_number(part);
            let first = after.as_ref().map_or("", KeyId::as_str);
            let mut ids = Vec::new();
            for entry in keys.range((part, first)..(part + 1, ""))? {
                let (place, _) = entry?;
                let Ok(id) = place.value().1.parse::<KeyId>() else { continue };
                if ids.len() == most {
                    break;
                }
                if after != Some(id) {
                    ids.push(id);
                }
            }
            Ok(ids)
        })
    }

    /// Writes a record, in one step with the test of its version. When this returns, it is on disk.
    ///
    /// # Errors
    /// If the record is not as expected, or the file cannot be written. Then nothing is changed.
    pub fn write_key(&self, write: KeyWrite<'_>) -> Result<Version, StorageError> {
        let KeyWrite { id, expected, record, lasts, foreign } = write;
        let version = Version::random();
        let mut parts: Vec<usize> = foreign.iter().map(part_of_digest).collect();
        parts.push(part_of_id(id));
        self.write(&parts, |transaction| {
            let mut keys = transaction.open_table(KEYS)?;
            if !is_expected(keys.get(place_of(&id))?.map(|it| it.value().to_vec()), expected) {
                return Ok(Err(StorageError::Stale));
            }
            let mut digests = transaction.open_table(DIGESTS)?;
            let mut digests_of = transaction.open_table(DIGESTS_OF)?;
            for digest in foreign {
                let known = digests.insert(*digest.as_bytes(), id.as_str())?;
                let known = known.and_then(|known| known.value().parse::<KeyId>().ok());
                if let Some(known) = known.filter(|known| *known != id) {
                    return Ok(Err(StorageError::Taken(known)));
                }
                digests_of.insert((id.as_str(), *digest.as_bytes()), ())?;
            }
            let bytes = [version.as_str().as_bytes(), record].concat();
            keys.insert(place_of(&id), &*bytes)?;
            set_end(transaction, &id, lasts)?;
            Ok(Ok(version))
        })
    }

    /// The record of a team.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read_team(&self, name: &str) -> Result<Option<StoredRecord>, StorageError> {
        self.read(|opened| {
            let teams = opened.file.database.begin_read()?.open_table(TEAMS)?;
            let bytes = teams.get(name)?;
            Ok(bytes.and_then(|bytes| StoredRecord::of(bytes.value(), None)))
        })
    }

    /// All teams by name.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn teams(&self) -> Result<Vec<StoredRecord>, StorageError> {
        self.read(|opened| {
            let table = opened.file.database.begin_read()?.open_table(TEAMS)?;
            let mut teams = Vec::new();
            for entry in table.iter()? {
                teams.extend(StoredRecord::of(entry?.1.value(), None));
            }
            Ok(teams)
        })
    }

    /// Writes the record of a team, as [`write_key`](Self::write_key) does.
    ///
    /// # Errors
    /// As there, and if there are too many teams.
    pub fn write_team(&self, write: TeamWrite<'_>) -> Result<Version, StorageError> {
        let TeamWrite { name, expected, record } = write;
        let version = Version::random();
        self.write(&[part_of_team(name)], |transaction| {
            let mut teams = transaction.open_table(TEAMS)?;
            if !is_expected(teams.get(name)?.map(|it| it.value().to_vec()), expected) {
                return Ok(Err(StorageError::Stale));
            }
            let is_full = teams.iter()?.take(MAX_TEAMS).count() == MAX_TEAMS;
            if *expected == Expected::Absent && is_full {
                return Ok(Err(StorageError::Full));
            }
            let bytes = [version.as_str().as_bytes(), record].concat();
            teams.insert(name, &*bytes)?;
            Ok(Ok(version))
        })
    }

    /// Stores when keys were last used.
    fn store_uses(&self, uses: &[(KeyId, Timestamp)]) -> Result<(), StorageError> {
        self.write(&[], |transaction| {
            let keys = transaction.open_table(KEYS)?;
            let mut table = transaction.open_table(USES)?;
            for (id, at) in uses {
                if keys.get(place_of(id))?.is_some() {
                    table.insert(id.as_str(), at.as_secs())?;
                }
            }
            Ok(Ok(()))
        })
    }
}

/// Whether the bytes that are stored have the version that is expected.
fn is_expected(stored: Option<Vec<u8>>, expected: &Expected) -> bool {
    let stored = stored.and_then(|bytes| StoredRecord::of(&bytes, None));
    match (stored, expected) {
        (None, Expected::Absent) => true,
        (Some(stored), Expected::Version(version)) => stored.version == *version,
        _ => false,
    }
}

/// Where the record of a key is.
fn place_of(id: &KeyId) -> (u8, &str) {
    (part_number(part_of_id(*id)), id.as_str())
}

fn part_number(part: usize) -> u8 {
    u8::try_from(part).expect("less than 64")
}

fn set_marks(transaction: &WriteTransaction, parts: &[usize]) -> Result<(), redb::Error> {
    let mut marks = transaction.open_table(MARKS)?;
    for part in parts {
        marks.insert(u64::try_from(*part).expect("less than 64"), fastrand::u64(1..))?;
    }
    Ok(())
}

/// Notes when the record of a key ends, whenever the one that it replaces would have ended.
fn set_end(
    transaction: &WriteTransaction,
    id: &KeyId,
    lasts: Option<Span>,
) -> Result<(), redb::Error> {
    let mut ends = transaction.open_table(ENDS)?;
    let mut end_of = transaction.open_table(END_OF)?;
    if let Some(end) = end_of.remove(id.as_str())? {
        ends.remove((end.value(), id.as_str()))?;
    }
    if let Some(lasts) = lasts {
        let end = Clock::System.wall().plus(lasts).as_micros();
        ends.insert((end, id.as_str()), ())?;
        end_of.insert(id.as_str(), end)?;
    }
    Ok(())
}

/// Removes records that have ended, and what leads to them.
fn remove_ended(transaction: &WriteTransaction, now: Timestamp) -> Result<(), redb::Error> {
    let mut ends = transaction.open_table(ENDS)?;
    let mut ended = Vec::new();
    for entry in ends.range(..(now.as_micros(), ""))?.take(MAX_ENDED) {
        let (end, _) = entry?;
        let (end, id) = end.value();
        ended.push((end, id.to_owned()));
    }
    for (end, id) in ended {
        ends.remove((end, &*id))?;
        transaction.open_table(END_OF)?.remove(&*id)?;
        transaction.open_table(USES)?.remove(&*id)?;
        if let Ok(id) = id.parse::<KeyId>() {
            transaction.open_table(KEYS)?.remove(place_of(&id))?;
        }
        remove_digests(transaction, &id)?;
    }
    Ok(())
}

/// Removes the digests that lead to this id, also those of secrets that a rotation has replaced.
fn remove_digests(transaction: &WriteTransaction, id: &str) -> Result<(), redb::Error> {
    let mut digests_of = transaction.open_table(DIGESTS_OF)?;
    let mut digests = transaction.open_table(DIGESTS)?;
    for entry in digests_of.extract_from_if((id, [0; 32])..=(id, [0xff; 32]), |_, ()| true)? {
        let (of_id, _) = entry?;
        digests.remove(of_id.value().1)?;
    }
    Ok(())
}

/// Creates the file with its tables.
fn make(path: &Path) -> Result<(), String> {
    let made = || -> Result<(), redb::Error> {
        let database = writer(path)?;
        let transaction = database.begin_write()?;
        {
            transaction.open_table(KEYS)?;
            transaction.open_table(DIGESTS)?;
            transaction.open_table(TEAMS)?;
            transaction.open_table(USES)?;
            transaction.open_table(DIGESTS_OF)?;
            transaction.open_table(ENDS)?;
            transaction.open_table(END_OF)?;
            transaction.open_table(MARKS)?;
        }
        transaction.commit()?;
        Ok(())
    };
    made().map_err(explained)
}

/// The error of redb, and what to do about it.
fn explained(error: impl Into<redb::Error>) -> String {
    match error.into() {
        redb::Error::TableDoesNotExist(_) => other_content(CONTENT),
        other => shared_file::explained(other, CONTENT),
    }
}

/// The file, open for reads.
struct Opened {
    file: OpenFile,
}

impl Opened {
    fn open(path: &Path) -> Result<Self, String> {
        OpenFile::open(path).map(|file| Self { file }).map_err(explained)
    }

    /// The records of these keys, in their order.
    fn keys(&self, sought: &[Sought]) -> Result<Vec<ReadRecord>, String> {
        let read = || -> Result<Vec<ReadRecord>, redb::Error> {
            let transaction = self.file.database.begin_read()?;
            let keys = transaction.open_table(KEYS)?;
            let digests = transaction.open_table(DIGESTS)?;
            let mut records = Vec::with_capacity(sought.len());
            for sought in sought {
                let bytes = match sought {
                    Sought::Id(id) => keys.get(place_of(id))?,
                    Sought::Digest(digest) => match digests.get(*digest.as_bytes())? {
                        Some(id) => match id.value().parse::<KeyId>() {
                            Ok(id) => keys.get(place_of(&id))?,
                            Err(_) => None,
                        },
                        None => None,
                    },
                };
                records.push(bytes.map_or(ReadRecord::Absent, |it| told(it.value())));
            }
            Ok(records)
        };
        read().map_err(explained)
    }

    /// The records of these teams, in their order.
    fn teams(&self, names: &[Arc<str>]) -> Result<Vec<ReadRecord>, String> {
        let read = || -> Result<Vec<ReadRecord>, redb::Error> {
            let teams = self.file.database.begin_read()?.open_table(TEAMS)?;
            let mut records = Vec::with_capacity(names.len());
            for name in names {
                let bytes = teams.get(&**name)?;
                records.push(bytes.map_or(ReadRecord::Absent, |it| told(it.value())));
            }
            Ok(records)
        };
        read().map_err(explained)
    }

    fn marks(&self) -> Result<Vec<(usize, u64)>, String> {
        self.file.marks().map_err(explained)
    }
}

fn told(bytes: &[u8]) -> ReadRecord {
    ReadRecord::Record(bytes.to_vec())
}

#[cfg(test)]
mod tests;

//! Limits of single keys in an embedded database, for nodes without Redis.
//!
//! The file is one of redb, in the mode in which several processes share it. Nodes keep it open
//! for reads, while the command line writes to it. A node sees committed changes, and never
//! parts of them. A writer that dies does not disturb readers.
//!
//! An alternative with plain redb was measured: opening and closing the file for each lookup
//! takes 39 µs with a thousand entries and 56 µs with a million, and a writer waits for
//! readers. A file that stays open takes 7 and 13 µs, without waits.
//!
//! Keys are digested with a secret from the file, so that all processes that open it compute
//! the same digests.

mod reader;

use std::fs;
use std::path::{Path, PathBuf};

use redb::{ReadableDatabase as _, ReadableTable as _, TableDefinition};
use thiserror::Error;

pub(super) use reader::Reader;

use super::codec::{decode, encode};
use super::marks::part;
use super::stored::{Stored, Unreadable};
use crate::digest::{Key, Secret};
use crate::store::override_limit::Override;
use crate::store::shared_file::{self, MARKS, OpenFile, existing, writer};

/// By principal and policy.
const LIMITS: TableDefinition<'_, (u128, u64), &[u8]> = TableDefinition::new("limits");
/// By name.
const ABOUT: TableDefinition<'_, &str, u128> = TableDefinition::new("about");
const SECRET: &str = "secret";
/// What the file contains, in messages.
const CONTENT: &str = "overrides";

/// Why a file cannot be used.
#[derive(Debug, Error)]
#[error("cannot use the file of overrides {}: {problem}", path.display())]
pub struct FileError {
    path: PathBuf,
    problem: String,
}

/// Why an override cannot be read from a file.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The stored value of the key is invalid.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// A file that exists and has a secret.
#[derive(Clone, Debug)]
pub struct OverridesFile {
    path: PathBuf,
    secret: u128,
}

impl OverridesFile {
    /// Opens the file at `path`, and creates it if it does not exist.
    ///
    /// # Errors
    /// If the file can be neither read nor created, or has another format.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let error = |problem| FileError { path: path.to_owned(), problem };
        let secret = match fs::exists(path) {
            Ok(true) => Opened::open(path).and_then(|file| file.secret()).map_err(&error)?,
            _ => None,
        };
        let secret = match secret {
            Some(secret) => secret,
            None => make(path).map_err(error)?,
        };
        Ok(Self { path: path.to_owned(), secret })
    }

    /// The secret with which keys are digested.
    pub fn secret(&self) -> Secret {
        Secret::from_bytes(self.secret.to_be_bytes())
    }

    /// The override of a key, if it has one.
    ///
    /// # Errors
    /// If the file or the stored value cannot be read.
    pub fn get(&self, key: Key) -> Result<Option<Override>, ReadError> {
        let opened = Opened::open(&self.path).map_err(|problem| self.error(problem))?;
        let said = opened.read(&[key]).map_err(|problem| self.error(problem))?;
        Ok(said[0].ok_or(Unreadable)?)
    }

    /// Sets or removes the limit of a key. When this returns, it is on disk. All nodes apply
    /// it within two seconds.
    ///
    /// # Errors
    /// If the file cannot be written. Then nothing is changed.
    pub fn put(&self, key: Key, what: Option<Override>) -> Result<(), FileError> {
        let done = || -> Result<(), redb::Error> {
            let database = existing(&self.path)?;
            let transaction = database.begin_write()?;
            {
                let mut limits = transaction.open_table(LIMITS)?;
                let place = (key.principal.bits(), key.counter.bits());
                match what {
                    Some(what) => limits.insert(place, &*encode(what))?,
                    None => limits.remove(place)?,
                };
                let mut marks = transaction.open_table(MARKS)?;
                let part = u64::try_from(part(&key)).expect("less than 64");
                marks.insert(part, fastrand::u64(1..))?;
            }
            transaction.commit()?;
            Ok(())
        };
        done().map_err(|error| self.error(explained(error)))
    }

    fn error(&self, problem: String) -> FileError {
        FileError { path: self.path.clone(), problem }
    }
}

/// Creates the file and its secret, unless another process has created them meanwhile.
fn make(path: &Path) -> Result<u128, String> {
    let made = || -> Result<u128, redb::Error> {
        let database = writer(path)?;
        let transaction = database.begin_write()?;
        let secret = {
            transaction.open_table(LIMITS)?;
            transaction.open_table(MARKS)?;
            let mut about = transaction.open_table(ABOUT)?;
            let known = about.get(SECRET)?.map(|secret| secret.value());
            let secret = known.unwrap_or_else(|| u128::from_be_bytes(*Secret::random().expose()));
            about.insert(SECRET, secret)?;
            secret
        };
        transaction.commit()?;
        Ok(secret)
    };
    made().map_err(explained)
}

/// The error of redb, and what to do about it.
fn explained(error: impl Into<redb::Error>) -> String {
    shared_file::explained(error, CONTENT)
}

/// The file, open for reads.
struct Opened {
    file: OpenFile,
}

impl Opened {
    fn open(path: &Path) -> Result<Self, String> {
        OpenFile::open(path).map(|file| Self { file }).map_err(explained)
    }

    fn secret(&self) -> Result<Option<u128>, String> {
        let read = || -> Result<Option<u128>, redb::Error> {
            match self.file.database.begin_read()?.open_table(ABOUT) {
                Ok(about) => Ok(about.get(SECRET)?.map(|secret| secret.value())),
                Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        };
        read().map_err(explained)
    }

    /// The overrides of these keys, in their order. An invalid value is none.
    fn read(&self, keys: &[Key]) -> Result<Vec<Stored>, String> {
        let read = || -> Result<Vec<Stored>, redb::Error> {
            let limits = self.file.database.begin_read()?.open_table(LIMITS)?;
            let mut said = Vec::with_capacity(keys.len());
            for key in keys {
                let found = limits.get((key.principal.bits(), key.counter.bits()))?;
                said.push(match found {
                    None => Some(None),
                    Some(bytes) => decode(bytes.value()).map(Some),
                });
            }
            Ok(said)
        };
        read().map_err(explained)
    }

    fn marks(&self) -> Result<Vec<(usize, u64)>, String> {
        self.file.marks().map_err(explained)
    }
}

#[cfg(test)]
mod tests;

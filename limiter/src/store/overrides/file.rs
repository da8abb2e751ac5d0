//! Limits of single keys in an embedded database, for nodes without Redis.
//!
//! The file is redb's, in the mode in which processes share it: nodes keep it
//! open and read, while the command line writes beside them. A node sees what
//! was committed, never half of it, and a writer that dies disturbs no reader.
//!
//! To open and close it for every question was tried with redb alone: that takes
//! 39 µs among a thousand entries and 56 µs among a million, and a writer would
//! wait for readers. A file that stays open takes 7 and 13 µs, and nobody waits.
//!
//! Keys are digested under a secret that is kept in the file, so that they are
//! the same for every process that opens it.

mod reader;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use redb::{
    Builder, ConcurrencyMode, Database, DatabaseError, ReadOnlyDatabase, ReadableDatabase as _,
    ReadableTable as _, TableDefinition,
};
use thiserror::Error;

pub(super) use reader::Reader;

use crate::digest::{Key, Secret};
use crate::store::override_limit::Override;
use crate::store::shared::overrides::{Stored, Unreadable, decode, encode, part};

/// By principal and policy.
const LIMITS: TableDefinition<'_, (u128, u64), &[u8]> = TableDefinition::new("limits");
/// By part.
const MARKS: TableDefinition<'_, u64, u64> = TableDefinition::new("marks");
/// By name.
const ABOUT: TableDefinition<'_, &str, u128> = TableDefinition::new("about");
const SECRET: &str = "secret";
/// What a process keeps of the file in its own memory.
const CACHE_BYTES: usize = 8 << 20;

/// Why a file cannot be used.
#[derive(Debug, Error)]
#[error("cannot use the file of overrides {}: {problem}", path.display())]
pub struct FileError {
    path: PathBuf,
    problem: String,
}

/// Why an override is not read from a file.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// What is stored for the key cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// A file that is there and has a secret.
#[derive(Clone, Debug)]
pub struct OverridesFile {
    path: PathBuf,
    secret: u128,
}

impl OverridesFile {
    /// The file at `path`. It is made if it is not there.
    ///
    /// # Errors
    /// If it can be neither read nor made, or is another kind of file.
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

    /// Under which keys are digested.
    pub fn secret(&self) -> Secret {
        Secret::from_bytes(self.secret.to_be_bytes())
    }

    /// What is kept of a key.
    ///
    /// # Errors
    /// If the file, or what is stored in it, cannot be read.
    pub fn get(&self, key: Key) -> Result<Option<Override>, ReadError> {
        let opened = Opened::open(&self.path).map_err(|problem| self.error(problem))?;
        let said = opened.read(&[key]).map_err(|problem| self.error(problem))?;
        Ok(said[0].ok_or(Unreadable)?)
    }

    /// Keeps another limit of a key, or none. When this returns it is on disk;
    /// all nodes go by it within two seconds.
    ///
    /// # Errors
    /// If the file cannot be written. Then nothing has changed.
    pub fn put(&self, key: Key, what: Option<Override>) -> Result<(), FileError> {
        let done = || -> Result<(), redb::Error> {
            let database = writer(&self.path)?;
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

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_concurrency_mode(ConcurrencyMode::MultiWriter).set_cache_size(CACHE_BYTES);
    builder
}

fn writer(path: &Path) -> Result<Database, redb::Error> {
    Ok(builder().create(path)?)
}

/// Makes the file and its secret, unless another process was faster.
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

/// What redb says, and what to do about it.
fn explained(error: impl Into<redb::Error>) -> String {
    match error.into() {
        redb::Error::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("{error}; make its directory, or choose another path")
        }
        redb::Error::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            format!("{error}; the gateway must be allowed to read and write it")
        }
        redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            "it is no file of overrides; choose another path".to_owned()
        }
        redb::Error::DatabaseAlreadyOpen => {
            "another program has locked it; end that, or choose another path".to_owned()
        }
        other => other.to_string(),
    }
}

/// The file, open for reading.
struct Opened {
    database: ReadOnlyDatabase,
    /// Which file it is, whatever has become of its path.
    inode: (u64, u64),
}

impl Opened {
    fn open(path: &Path) -> Result<Self, String> {
        let database = match builder().open_read_only(path) {
            // Whoever wrote last did not come to an end. Opening it to write mends that.
            Err(DatabaseError::RepairAborted) => {
                drop(writer(path).map_err(explained)?);
                builder().open_read_only(path)
            }
            opened => opened,
        };
        let inode = inode(path).map_err(|error| explained(redb::Error::Io(error)))?;
        Ok(Self { database: database.map_err(explained)?, inode })
    }

    /// Whether its path leads to it still.
    fn is_at(&self, path: &Path) -> bool {
        inode(path).is_ok_and(|inode| inode == self.inode)
    }

    fn secret(&self) -> Result<Option<u128>, String> {
        let read = || -> Result<Option<u128>, redb::Error> {
            match self.database.begin_read()?.open_table(ABOUT) {
                Ok(about) => Ok(about.get(SECRET)?.map(|secret| secret.value())),
                Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        };
        read().map_err(explained)
    }

    /// What is kept of these keys, in their order; none where it makes no sense.
    fn read(&self, keys: &[Key]) -> Result<Vec<Stored>, String> {
        let read = || -> Result<Vec<Stored>, redb::Error> {
            let limits = self.database.begin_read()?.open_table(LIMITS)?;
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
        let read = || -> Result<Vec<(usize, u64)>, redb::Error> {
            let table = self.database.begin_read()?.open_table(MARKS)?;
            let mut marks = Vec::new();
            for entry in table.iter()? {
                let (part, mark) = entry?;
                marks.push((usize::try_from(part.value()).unwrap_or(usize::MAX), mark.value()));
            }
            Ok(marks)
        };
        read().map_err(explained)
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let about = fs::metadata(path)?;
    Ok((about.dev(), about.ino()))
}

#[cfg(test)]
mod tests;

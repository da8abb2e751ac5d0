//! A file of redb that several processes share. Nodes keep it open for reads, while the command line
//! or an operator's call writes to it.

mod reader;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use redb::{
    Builder, ConcurrencyMode, Database, DatabaseError, ReadOnlyDatabase, ReadableDatabase as _,
    ReadableTable as _, TableDefinition,
};

pub(super) use self::reader::{FileReader, ReadFile, reply};

/// By part.
pub(super) const MARKS: TableDefinition<'_, u64, u64> = TableDefinition::new("marks");
/// The part of the file's memory cache of one process, in bytes.
const CACHE_BYTES: usize = 8 << 20;

/// The file, open for reads.
pub(super) struct OpenFile {
    pub(super) database: ReadOnlyDatabase,
    /// The identity of the file, whatever its path now leads to.
    inode: (u64, u64),
}

impl OpenFile {
    pub(super) fn open(path: &Path) -> Result<Self, redb::Error> {
        let database = match builder().open_read_only(path) {
            // The last writer has crashed. Opening the file for writes repairs it.
            Err(DatabaseError::RepairAborted) => {
                drop(writer(path)?);
                builder().open_read_only(path)
            }
            opened => opened,
        };
        let inode = inode(path).map_err(redb::Error::Io)?;
        Ok(Self { database: database?, inode })
    }

    /// Whether the path still leads to this file.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        inode(path).is_ok_and(|inode| inode == self.inode)
    }

    /// The mark of each part.
    pub(super) fn marks(&self) -> Result<Vec<(usize, u64)>, redb::Error> {
        let table = self.database.begin_read()?.open_table(MARKS)?;
        let mut marks = Vec::new();
        for entry in table.iter()? {
            let (part, mark) = entry?;
            marks.push((usize::try_from(part.value()).unwrap_or(usize::MAX), mark.value()));
        }
        Ok(marks)
    }
}

/// The file, open for writes. It is created if it does not exist.
pub(super) fn writer(path: &Path) -> Result<Database, redb::Error> {
    Ok(builder().create(path)?)
}

/// The file, open for writes. A file that is gone is not made anew: it would have lost what was in it.
pub(super) fn existing(path: &Path) -> Result<Database, redb::Error> {
    Ok(builder().open(path)?)
}

/// The error of redb, and what to do about it. `content` names what the file should contain.
pub(super) fn explained(error: impl Into<redb::Error>, content: &str) -> String {
    match error.into() {
        redb::Error::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("{error}; make its directory, restore the file, or choose another path")
        }
        redb::Error::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            format!("{error}; the gateway must be allowed to read and write it")
        }
        redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            other_content(content)
        }
        redb::Error::DatabaseAlreadyOpen => {
            "another program has locked it; end that, or choose another path".to_owned()
        }
        other => other.to_string(),
    }
}

/// What is said of a file that does not contain `content`.
pub(super) fn other_content(content: &str) -> String {
    format!("it is not a file of {content}; choose another path")
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_concurrency_mode(ConcurrencyMode::MultiWriter).set_cache_size(CACHE_BYTES);
    builder
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let about = fs::metadata(path)?;
    Ok((about.dev(), about.ino()))
}

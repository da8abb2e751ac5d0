//! Files with databases of locations. A file is read as a whole, and again only after it changed.
//!
//! Such a file is large, and it is replaced while the gateway runs. A file that changes while it is
//! read gives no database. When it is complete, it has changed again and is read again.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_core::policy::{GeoDatabase, Places};

use super::regular_file;

/// The largest file that is read, in bytes: 1 GiB. A database of cities has about a tenth of it.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// What distinguishes a file from an earlier file with the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    size_bytes: u64,
    modified: (i64, i64),
}

impl FileStamp {
    /// The stamp of the file behind all links. None if it cannot be read.
    pub fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|file| Self::new(&file))
    }

    /// The stamp of an open file.
    ///
    /// # Errors
    /// If the system does not tell it.
    pub fn of_file(file: &File) -> io::Result<Self> {
        file.metadata().map(|it| Self::new(&it))
    }

    fn new(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            size_bytes: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
        }
    }
}

/// A database, and the file that it was read from.
#[derive(Clone, Debug)]
pub struct GeoFile {
    path: PathBuf,
    stamp: FileStamp,
    /// The database.
    pub database: Arc<dyn Places>,
}

impl GeoFile {
    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file at `path`. If `known` contains the same file, it is not read again.
    ///
    /// # Errors
    /// The reason, as the end of a sentence about the file.
    pub fn read(path: PathBuf, known: &[Self]) -> Result<Self, String> {
        let unreadable = |error: io::Error| format!("it cannot be read: {error}");
        let file = regular_file::open(&path).map_err(unreadable)?;
        let before = FileStamp::new(&file.metadata().map_err(unreadable)?);
        if let Some(same) = known.iter().find(|it| it.path == path && it.stamp == before) {
            return Ok(same.clone());
        }
        let bytes = whole(&file, before.size_bytes)?;
        let after = FileStamp::new(&file.metadata().map_err(unreadable)?);
        if before != after {
            return Err("it is being written".to_owned());
        }
        let database = GeoDatabase::from_bytes(bytes).map_err(|error| error.to_string())?;
        Ok(Self { path, stamp: after, database: Arc::new(database) })
    }
}

/// The contents of a file with about this size.
fn whole(file: &File, size_bytes: u64) -> Result<Vec<u8>, String> {
    if size_bytes > MAX_BYTES {
        return Err("it is larger than 1 GiB".to_owned());
    }
    let mut bytes = Vec::new();
    let wanted = usize::try_from(size_bytes).unwrap_or(usize::MAX);
    if bytes.try_reserve_exact(wanted.saturating_add(1)).is_err() {
        return Err("there is no memory for it".to_owned());
    }
    let read = file.take(size_bytes.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| format!("it cannot be read: {error}"))?;
    Ok(bytes)
}

//! A file of redb that several processes share. Nodes keep it open for reads, while the command line
//! or an operator's call writes to it.

mod reader;

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
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
/// The mode of a new file.
const MODE: u32 = 0o600;
const ROOT: u32 = 0;

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
    create(path).map_err(redb::Error::Io)?;
    Ok(builder().create(path)?)
}

/// Makes an empty file, unless there is one. Only its owner may read it: it tells whose keys there are, or
/// has the secret of their digests. A command that root runs gives it to the owner of the directory, so
/// that a gateway of that user can open it.
fn create(path: &Path) -> io::Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        opened => opened?,
    };
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    let directory = fs::metadata(parent.unwrap_or(Path::new(".")))?;
    if file.metadata()?.uid() == ROOT && directory.uid() != ROOT {
        // Without that right the file is of the user that has made it, as other files are.
        let _ = fchown(&file, Some(directory.uid()), Some(directory.gid()));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    /// Regression: it had the mode of the umask, so that every user could read whose keys there are.
    #[test]
    fn a_new_file_is_for_its_owner_alone_and_an_old_one_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.redb");
        let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
        drop(writer(&path).unwrap());
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        drop(writer(&path).unwrap());
        assert_eq!(mode(), 0o640);
        assert!(OpenFile::open(&path).unwrap().is_at(&path));
    }

    /// As `sudo tollgate key create --store` makes it before the gateway runs for the first time.
    #[test]
    fn a_file_that_root_makes_is_of_the_owner_of_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        // Another user than root cannot give a directory away, and makes files of its own.
        let given = chown(directory.path(), Some(65_533), Some(65_534)).is_ok();
        let path = directory.path().join("keys.redb");
        drop(writer(&path).unwrap());
        let file = fs::metadata(&path).unwrap();
        let owner = fs::metadata(directory.path()).unwrap();
        assert_eq!((file.uid(), file.mode() & 0o7777), (owner.uid(), 0o600));
        assert!(!given || (file.uid(), file.gid()) == (65_533, 65_534));
    }
}

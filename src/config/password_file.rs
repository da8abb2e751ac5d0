//! The file of users and passwords. It is read as a whole, and again only after it changed.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_core::passwords::{LineFault, PasswordTable};

use super::geo_file::FileStamp;
use super::regular_file;

/// The largest file, in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The users of a file, as it was read last.
#[derive(Clone, Debug)]
pub struct PasswordFile {
    path: PathBuf,
    /// The file as the configuration names it.
    pub name: String,
    stamp: FileStamp,
    /// The users.
    pub table: Arc<PasswordTable>,
    /// Whether these are the users that the file has now. If not, it has mistakes.
    pub is_current: bool,
}

/// Why a file gives no users.
pub enum UnusablePasswords {
    /// It cannot be read: the reason, as the end of a sentence about the file.
    Unreadable(String),
    /// Lines of it have mistakes.
    Mistakes(Vec<LineFault>),
}

impl PasswordFile {
    /// Whether it was read from the file at this path.
    pub fn is_of(&self, path: &Path) -> bool {
        self.path == path
    }

    /// The same users, after the file could not be read again.
    #[must_use]
    pub fn outdated(self) -> Self {
        Self { is_current: false, ..self }
    }

    /// Reads the file at `path`, which the configuration names `name`. If `known` is the same file,
    /// it is not read again.
    ///
    /// # Errors
    /// If it cannot be read, or has mistakes.
    pub fn read(
        path: PathBuf,
        name: &str,
        known: Option<&Self>,
    ) -> Result<Self, UnusablePasswords> {
        let before = FileStamp::of(&path);
        let same = known.filter(|it| it.is_current && it.is_of(&path));
        if let Some(same) = same.filter(|it| Some(it.stamp) == before) {
            return Ok(same.clone());
        }
        let (text, stamp) = text_of(&path).map_err(UnusablePasswords::Unreadable)?;
        let table = PasswordTable::parse(&text).map_err(UnusablePasswords::Mistakes)?;
        let name = name.to_owned();
        Ok(Self { path, name, stamp, table: Arc::new(table), is_current: true })
    }
}

/// The text of the file, and its state before it was read.
fn text_of(path: &Path) -> Result<(String, FileStamp), String> {
    let unreadable = |error: io::Error| format!("it cannot be read: {error}");
    let file = regular_file::open(path).map_err(unreadable)?;
    let stamp = FileStamp::of_file(&file).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_BYTES) {
        return Err("it is larger than 4 MiB".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    Ok((text, stamp))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_has_a_largest_size_and_is_not_read_again_without_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("htpasswd");
        let why = |known: Option<&PasswordFile>| match PasswordFile::read(
            path.clone(),
            "htpasswd",
            known,
        ) {
            Ok(file) => Ok(file),
            Err(UnusablePasswords::Unreadable(why)) => Err(why),
            Err(UnusablePasswords::Mistakes(faults)) => Err(format!("{faults:?}")),
        };
        assert!(why(None).unwrap_err().contains("cannot be read"));
        fs::write(&path, "#".repeat(4 * 1024 * 1024)).unwrap();
        let known = why(None).unwrap();
        assert!(known.table.is_empty() && known.is_current);
        let again = why(Some(&known)).unwrap();
        assert!(Arc::ptr_eq(&known.table, &again.table));
        let anew = why(Some(&known.outdated())).unwrap();
        assert!(!Arc::ptr_eq(&again.table, &anew.table) && anew.is_current);
        fs::write(&path, "#".repeat(4 * 1024 * 1024 + 1)).unwrap();
        assert_eq!(why(None).unwrap_err(), "it is larger than 4 MiB");
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(why(None).unwrap_err(), "it is not UTF-8 text");
    }
}

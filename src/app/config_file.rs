//! Writes the configuration file: as a whole or not at all.
//!
//! The text goes into a new file in the same directory, with the mode and the owner of the old
//! one, and onto the disk. Then the new file takes the place of the old one. Links stay: the file
//! behind them is replaced.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::config::{FileStamp, check_regular};
use crate::platform::is_mount;

/// A text on the disk beside the file that it is to replace. It is removed if it does not.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    /// The file behind all links.
    target: PathBuf,
    /// The file that was named: its links may lead elsewhere in the meantime.
    named: PathBuf,
}

/// Why a file is not replaced. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum NotReplaced {
    /// Another program has changed it.
    #[error("it has changed in the meantime")]
    Changed,
    /// The system refuses it.
    #[error(transparent)]
    Refused(#[from] io::Error),
}

impl NewFile {
    /// Writes `text` beside the file at `path`.
    ///
    /// # Errors
    /// If the file is no regular one; if it or its directory is read-only, is mounted itself, or has
    /// no room; or if the new file cannot have the owner of the old one.
    pub fn write(path: &Path, text: &str) -> io::Result<Self> {
        let target = fs::canonicalize(path)?;
        let about = fs::metadata(&target)?;
        check_regular(&about)?;
        if about.mode() & 0o222 == 0 {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "the file is read-only"));
        }
        if is_mount(&target) {
            let why = "the file itself is mounted, so that no other can take its place; mount its \
                       directory";
            return Err(io::Error::new(ErrorKind::ResourceBusy, why));
        }
        // Tells whether this process may write the file itself. Its contents stay.
        OpenOptions::new().write(true).open(&target)?;
        Self::beside(target, path, text.as_bytes(), &about)
    }

    /// Writes a text beside the file at `target`, with the owner and the mode of that.
    fn beside(target: PathBuf, named: &Path, text: &[u8], about: &Metadata) -> io::Result<Self> {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let path = target.with_file_name(format!(".{name}.{}.new", std::process::id()));
        // Of an earlier process with this number, which has ended in between.
        let _ = fs::remove_file(&path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let written = Self { path, target, named: named.to_owned() };
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (about.uid(), about.gid()) {
            fchown(&file, Some(about.uid()), Some(about.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(about.mode() & 0o7777))?;
        file.write_all(text)?;
        file.sync_all()?;
        Ok(written)
    }

    /// Replaces the file, and returns the stamp that it has now. `over` is the stamp of the text that
    /// may be lost; without it, every text may be lost.
    ///
    /// # Errors
    /// If the system refuses it, or the file is not the one with that stamp.
    pub fn replace(self, over: Option<FileStamp>) -> Result<Option<FileStamp>, NotReplaced> {
        let stamp = FileStamp::of(&self.path);
        if over.is_some() && FileStamp::of(&self.named) != over {
            return Err(NotReplaced::Changed);
        }
        fs::rename(&self.path, &self.target)?;
        // The name itself is on the disk only with its directory. The text is there either way.
        if let Some(directory) = self.target.parent() {
            let _ = File::open(directory).and_then(|directory| directory.sync_all());
        }
        Ok(stamp)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // It is not there any more if it has replaced the other one.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn files(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_file_behind_links_is_replaced_with_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        let link = directory.path().join("link");
        fs::create_dir(&inner).unwrap();
        let file = inner.join("gateway.yaml");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("inner/gateway.yaml", &link).unwrap();
        let new = NewFile::write(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&link).unwrap(), "old");
        let stamp = new.replace(FileStamp::of(&link)).unwrap();
        assert!(stamp.is_some() && stamp == FileStamp::of(&link));
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(files(&inner), ["gateway.yaml"]);
    }

    /// Another program writes while the new text is compiled.
    #[test]
    fn a_file_that_has_changed_in_the_meantime_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let link = at("link");
        fs::write(at("one"), "one").unwrap();
        fs::write(at("other"), "other").unwrap();
        symlink("one", &link).unwrap();
        let refused = |change: &dyn Fn()| {
            let over = FileStamp::of(&link);
            let new = NewFile::write(&link, "new").unwrap();
            change();
            let error = new.replace(over).unwrap_err();
            assert_eq!(error.to_string(), "it has changed in the meantime");
        };
        refused(&|| fs::write(at("one"), "in place").unwrap());
        refused(&|| {
            fs::write(at("beside"), "renamed").unwrap();
            fs::rename(at("beside"), at("one")).unwrap();
        });
        refused(&|| {
            symlink("other", at("beside")).unwrap();
            fs::rename(at("beside"), &link).unwrap();
        });
        assert_eq!(files(directory.path()), ["link", "one", "other"]);
        assert_eq!(fs::read_to_string(at("one")).unwrap(), "renamed");
        assert_eq!(fs::read_to_string(at("other")).unwrap(), "other");
        let new = NewFile::write(&link, "new").unwrap();
        fs::write(at("other"), "in place").unwrap();
        new.replace(None).unwrap();
        assert_eq!(fs::read_to_string(&link).unwrap(), "new", "it was forced");
    }

    #[test]
    fn a_text_that_is_not_used_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gateway.yaml");
        fs::write(&file, "old").unwrap();
        drop(NewFile::write(&file, "new").unwrap());
        assert_eq!(files(directory.path()), ["gateway.yaml"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    }

    #[test]
    fn a_file_that_is_read_only_or_missing_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gateway.yaml");
        NewFile::write(&file, "new").unwrap_err();
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
        let error = NewFile::write(&file, "new").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert_eq!(files(directory.path()), ["gateway.yaml"]);
    }
}

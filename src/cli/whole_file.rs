//! Files that are written as a whole, so that a gateway never reads a part of them.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::config::{FileStamp, check_regular, open_regular};

/// Writes the file, or replaces it. A new one has this mode without the bits of the umask; another one
/// keeps its own mode, owner and group, so that a gateway of another user can still read it. A link
/// stays a link.
///
/// # Errors
/// If it cannot be written, is no regular file, or the owner or the group cannot be kept. Then it is
/// as before.
pub fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    NewFile::beside(path, mode)?.replace(text)
}

/// Writes a file that is not there yet. It has this mode without the bits of the umask.
///
/// # Errors
/// If it cannot be written. The kind is [`ErrorKind::AlreadyExists`] if the file, or a link, is there.
pub fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    check_absent(path)?;
    NewFile::beside(path, mode)?.appear(text)
}

/// Whether [`write`] could write the file. It leaves nothing.
///
/// # Errors
/// Why not.
pub fn check(path: &Path) -> io::Result<()> {
    NewFile::beside(path, 0o600).map(drop)
}

/// The same for [`write_new`].
///
/// # Errors
/// Why not.
pub fn check_new(path: &Path) -> io::Result<()> {
    check_absent(path)?;
    check(path)
}

/// A link that leads to no file is there, too.
fn check_absent(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        Err(_) => Ok(()),
    }
}

/// A file that is read and then written with a change, by one process of this program at a time.
#[derive(Debug)]
pub struct Edited {
    path: PathBuf,
    /// The file that was read. None: there was none.
    stamp: Option<FileStamp>,
    /// The directory, which is locked until this is dropped.
    _lock: Option<File>,
}

/// Why an edited file is not written. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    /// Another program has written it.
    #[error("it has changed in the meantime")]
    Changed,
    /// The system refuses it.
    #[error(transparent)]
    Refused(#[from] io::Error),
}

impl Edited {
    /// The text of a file, and what writes another one over it. A file that does not exist has no text.
    /// This waits for processes that edit files of the same directory.
    ///
    /// # Errors
    /// If the file cannot be read, or is no regular file.
    pub fn read(path: &Path) -> io::Result<(Self, String)> {
        let lock = lock(&behind_links(path));
        let path = path.to_owned();
        match open_regular(&path) {
            Ok(file) => {
                // Of the open file, before its text is read: what changes later is seen.
                let stamp = Some(FileStamp::of_file(&file)?);
                Ok((Self { path, stamp, _lock: lock }, io::read_to_string(file)?))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok((Self { path, stamp: None, _lock: lock }, String::new()))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the file, as [`write`] does.
    ///
    /// # Errors
    /// Then it is as before.
    pub fn write(self, text: &str, mode: u32) -> Result<(), NotWritten> {
        let mut new = NewFile::beside(&self.path, mode)?;
        new.fill(text)?;
        // An editor takes no lock.
        if FileStamp::of(&self.path) != self.stamp {
            return Err(NotWritten::Changed);
        }
        Ok(new.rename()?)
    }
}

/// The directory of a file with an exclusive lock. The file itself is replaced, so that its lock would be
/// one of the old file. None: the system has no such lock, or the directory cannot be read.
fn lock(path: &Path) -> Option<File> {
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    let directory = File::open(parent.unwrap_or(Path::new("."))).ok()?;
    directory.lock().ok()?;
    Some(directory)
}

fn behind_links(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A file beside the one whose place it is to take. It is removed if it does not.
#[derive(Debug)]
struct NewFile {
    file: File,
    path: PathBuf,
    /// The path of the other file, behind all links.
    target: PathBuf,
    /// The other file, if it exists.
    old: Option<Metadata>,
}

impl NewFile {
    fn beside(path: &Path, mode: u32) -> io::Result<Self> {
        let target = behind_links(path);
        let old = fs::metadata(&target).ok();
        old.as_ref().map_or(Ok(()), check_regular)?;
        // The mode of the old file goes with its owner, which the new one does not have yet.
        let mode = if old.is_some() { 0o600 } else { mode };
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let path = target.with_file_name(name);
        let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        let file = opened.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                io::Error::other(format!("{} is in the way: remove it", path.display()))
            }
            _ => error,
        })?;
        Ok(Self { file, path, target, old })
    }

    /// Takes the place of the file, if there is one.
    fn replace(mut self, text: &str) -> io::Result<()> {
        self.fill(text)?;
        self.rename()
    }

    /// Takes the place of no file.
    fn appear(mut self, text: &str) -> io::Result<()> {
        self.fill(text)?;
        match fs::hard_link(&self.path, &self.target) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                // A file system without links. A file that appears right now is lost.
                check_absent(&self.target)?;
                self.rename()
            }
            linked => linked,
        }
    }

    /// Writes the text onto the disk, with the owner and the mode of the file that is to be replaced.
    fn fill(&mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        if let Some(old) = &self.old {
            keep_owner(&self.file, old)?;
            let mode = old.permissions().mode() & 0o7777;
            self.file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        self.file.sync_all()
    }

    fn rename(self) -> io::Result<()> {
        fs::rename(&self.path, &self.target)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // It is not there any more if it has replaced the other one.
        let _ = fs::remove_file(&self.path);
    }
}

/// Gives the new file the owner and the group of the old one.
fn keep_owner(new: &File, old: &Metadata) -> io::Result<()> {
    let made = new.metadata()?;
    let uid = (made.uid() != old.uid()).then_some(old.uid());
    let gid = (made.gid() != old.gid()).then_some(old.gid());
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    fchown(new, uid, gid).map_err(|error| {
        let why =
            format!("it cannot keep its owner {} and group {}: {error}", old.uid(), old.gid());
        io::Error::new(error.kind(), why)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, chown, symlink};
    use std::os::unix::net::UnixListener;

    use rustix::process::geteuid;

    use super::*;

    const MODE: u32 = 0o644;

    #[test]
    fn a_new_file_has_the_mode_and_a_replaced_one_keeps_its_own_behind_its_link() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keys.yaml");
        let link = directory.path().join("link");
        write(&file, "old", MODE).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, MODE);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("keys.yaml", &link).unwrap();
        write(&link, "new", MODE).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    /// As the package for Debian makes files: of root and the group of the gateway.
    #[test]
    fn a_replaced_file_keeps_its_owner_and_its_group() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keys.yaml");
        write(&file, "old", MODE).unwrap();
        if !geteuid().is_root() {
            // Another user cannot make such a file.
            let error = chown(&file, Some(65_533), None).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            return;
        }
        for (uid, gid) in [(0, 65_534), (65_533, 65_534)] {
            chown(&file, Some(uid), Some(gid)).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
            write(&file, "new", MODE).unwrap();
            let about = fs::metadata(&file).unwrap();
            assert_eq!((about.uid(), about.gid()), (uid, gid));
            assert_eq!(about.mode() & 0o7777, 0o640);
        }
    }

    /// Such as /dev/null, which root could replace. The test has a socket of its own.
    #[test]
    fn what_is_no_regular_file_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let link = directory.path().join("link");
        symlink("socket", &link).unwrap();
        let error = write(&link, "new", MODE).unwrap_err();
        assert_eq!(error.to_string(), "it is a socket, not a regular file");
        assert!(fs::metadata(&link).unwrap().file_type().is_socket());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    /// An editor saves while a command works on what it has read, and takes no lock.
    #[test]
    fn a_file_that_has_changed_since_it_was_read_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keys.yaml");
        for before in [None, Some("old")] {
            if let Some(text) = before {
                fs::write(&file, text).unwrap();
            }
            let (edited, text) = Edited::read(&file).unwrap();
            assert_eq!(text, before.unwrap_or_default());
            fs::write(&file, "of an editor").unwrap();
            assert!(matches!(edited.write("new", MODE), Err(NotWritten::Changed)));
            assert_eq!(fs::read_to_string(&file).unwrap(), "of an editor");
        }
        let (edited, _) = Edited::read(&file).unwrap();
        edited.write("new", MODE).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_file_takes_the_place_of_none_and_leaves_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gateway.yaml");
        let link = directory.path().join("link");
        check_new(&file).unwrap();
        symlink("absent.yaml", &link).unwrap();
        let exists = |done: io::Result<()>| done.unwrap_err().kind() == ErrorKind::AlreadyExists;
        assert!(exists(check_new(&link)) && exists(write_new(&link, "new", MODE)));
        // The file appears while the text is made.
        let new = NewFile::beside(&file, MODE).unwrap();
        fs::write(&file, "of another").unwrap();
        assert!(exists(new.appear("new")));
        assert!(exists(check_new(&file)) && exists(write_new(&file, "new", MODE)));
        assert_eq!(fs::read_to_string(&file).unwrap(), "of another");
        fs::remove_file(&file).unwrap();
        write_new(&file, "new", MODE).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().nlink(), 1);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }
}

//! Files that are written as a whole, so that a gateway never reads a part of them.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use crate::config::check_regular;

/// Writes the file, or replaces it. A new one has this mode; another one keeps its own mode, owner and
/// group, so that a gateway of another user can still read it. A link stays a link.
///
/// # Errors
/// If it cannot be written, is no regular file, or the owner or the group cannot be kept. Then it is
/// as before.
pub fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = fs::metadata(&path).ok();
    old.as_ref().map_or(Ok(()), check_regular)?;
    let mode = old.as_ref().map_or(mode, |old| old.permissions().mode() & 0o7777);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let written = (|| {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        old.as_ref().map_or(Ok(()), |old| keep_owner(&file, old))?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&new, &path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
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
}

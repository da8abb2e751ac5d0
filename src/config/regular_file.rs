//! Opens files that a configuration names.
//!
//! Only regular files are opened. To read from a FIFO, a terminal or another device may wait for
//! ever, and a configuration is read while the gateway serves clients.

use std::fs::{self, File, FileType, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens the regular file behind all links at `path`, to read it.
///
/// # Errors
/// If it cannot be opened, or is no regular file; then the error says what it is.
pub fn open(path: &Path) -> io::Result<File> {
    // Looked at before it is opened, because that alone does something with some devices.
    check(&fs::metadata(path)?)?;
    // Another file may have taken its place in between.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    check(&file.metadata()?)?;
    Ok(file)
}

/// # Errors
/// If this is no regular file; the error says what it is.
pub fn check(about: &Metadata) -> io::Result<()> {
    if about.is_file() {
        return Ok(());
    }
    let kind = kind(about.file_type());
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {kind}, not a regular file")))
}

fn kind(kind: FileType) -> &'static str {
    match () {
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a FIFO (a pipe)",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() => "a character device",
        () if kind.is_block_device() => "a block device",
        () => "something else",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_others_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        for name in ["file", "link"] {
            let mut text = String::new();
            open(&at(name)).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
        }
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        for (path, what) in [
            (at("pipe"), "a FIFO"),
            (at("socket"), "a socket"),
            (directory.path().to_owned(), "a directory"),
            ("/dev/zero".into(), "a character device"),
        ] {
            let error = open(&path).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("not a regular file"), "{error}");
        }
        assert_eq!(open(&at("none")).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

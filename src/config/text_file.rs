//! Reads the text of configuration files, up to the size that is parsed.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use super::{regular_file, yaml};

/// The text of a configuration file.
///
/// # Errors
/// If it is no regular file, cannot be read, is too large, or is not UTF-8.
pub fn read(path: &Path) -> io::Result<String> {
    text(regular_file::open(path)?)
}

/// The text of a configuration file, which may be a pipe: this waits for its end. `-` is standard
/// input.
///
/// # Errors
/// If it cannot be read, is too large, or is not UTF-8.
pub fn read_any(path: &Path) -> io::Result<String> {
    if path == Path::new("-") {
        return text(io::stdin().lock());
    }
    text(File::open(path)?)
}

fn text(file: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    // One more byte than allowed is enough to see that the file is too large.
    file.take(yaml::MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|bytes| bytes > yaml::MAX_BYTES) {
        return Err(io::Error::other("it is larger than 8 MiB"));
    }
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

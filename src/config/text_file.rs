//! Reads the text of configuration files, up to the size that is parsed.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use super::yaml;

/// The text of a configuration file.
///
/// # Errors
/// If it cannot be read, is too large, or is not UTF-8.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    // One more byte than allowed is enough to see that the file is too large.
    file.take(yaml::MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|bytes| bytes > yaml::MAX_BYTES) {
        return Err(io::Error::other("it is larger than 8 MiB"));
    }
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

//! Reads files whose size has a bound.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The content of a file of at most `most` bytes. A device can be endless.
///
/// # Errors
/// If the file cannot be read, or has more bytes.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let read = File::open(path)?.take(most + 1).read_to_end(&mut content)?;
    match u64::try_from(read) {
        Ok(read) if read <= most => Ok(content),
        _ => Err(io::Error::other(format!("it has more than {most} bytes"))),
    }
}

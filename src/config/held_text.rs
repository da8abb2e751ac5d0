//! Texts of large files that stay in use: read whole, with the state of the file before.

use std::io::{self, Read as _};
use std::path::Path;

use super::geo_file::FileStamp;
use super::regular_file;

const MIB: u64 = 1024 * 1024;

/// The text of the file, which has at most this many MiB, and its state before it was read.
///
/// # Errors
/// The reason, as the end of a sentence about the file.
pub fn read(path: &Path, max_mib: u64) -> Result<(String, FileStamp), String> {
    let unreadable = |error: io::Error| format!("it cannot be read: {error}");
    let max_bytes = max_mib * MIB;
    let file = regular_file::open(path).map_err(unreadable)?;
    let stamp = FileStamp::of_file(&file).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > max_bytes) {
        return Err(format!("it is larger than {max_mib} MiB"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    Ok((text, stamp))
}

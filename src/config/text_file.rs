//! Reads the text of configuration files, up to the size that is parsed.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use super::geo_file::FileStamp;
use super::{regular_file, yaml};

/// The text of a configuration file.
///
/// # Errors
/// If it is no regular file, cannot be read, is too large, or is not UTF-8.
pub fn read(path: &Path) -> io::Result<String> {
    text(regular_file::open(path)?)
}

/// A text, and what it was read from.
#[derive(Debug)]
pub struct ReadText {
    pub text: String,
    /// The stamp of the file before it was read. None: it is no regular file.
    pub stamp: Option<FileStamp>,
}

/// The text of a configuration file, which may be a pipe: this waits for its end. `-` is standard
/// input.
///
/// # Errors
/// If it cannot be read, is too large, or is not UTF-8.
pub fn read_any(path: &Path) -> io::Result<ReadText> {
    if path == Path::new("-") {
        return Ok(ReadText { text: text(io::stdin().lock())?, stamp: None });
    }
    let file = File::open(path)?;
    let is_regular = regular_file::check(&file.metadata()?).is_ok();
    let stamp = is_regular.then(|| FileStamp::of_file(&file)).transpose()?;
    Ok(ReadText { text: text(file)?, stamp })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stamp_is_that_of_the_file_that_was_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "text").unwrap();
        let read = read_any(&path).unwrap();
        assert_eq!((&*read.text, read.stamp), ("text", FileStamp::of(&path)));
        std::fs::write(&path, "longer").unwrap();
        assert_ne!(read.stamp, FileStamp::of(&path));
        let device = read_any(Path::new("/dev/null")).unwrap();
        assert_eq!((&*device.text, device.stamp), ("", None));
    }
}

//! Large text files that stay in use: read whole, and again only after they changed.

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::geo_file::FileStamp;
use super::{byte_order_mark, regular_file};

const MIB: u64 = 1024 * 1024;

/// What a file contains, as it was read last.
pub struct HeldText<T> {
    path: PathBuf,
    /// The file as the configuration names it.
    pub name: String,
    stamp: FileStamp,
    /// What it contains.
    pub table: Arc<T>,
    /// Whether the file contains this now. If not, it has mistakes.
    pub is_current: bool,
}

/// Why a file is of no use.
pub enum Unusable<E> {
    /// It cannot be read: the reason, as the end of a sentence about the file.
    Unreadable(String),
    /// It has mistakes.
    Mistakes(E),
}

impl<T> HeldText<T> {
    /// Whether it was read from the file at this path.
    pub fn is_of(&self, path: &Path) -> bool {
        self.path == path
    }

    /// The same, after the file could not be read again.
    #[must_use]
    pub fn outdated(self) -> Self {
        Self { is_current: false, ..self }
    }

    /// Reads the file at `path`, which the configuration names `name` and which has at most `max_mib`
    /// MiB. If `known` is the same file, it is not read again.
    ///
    /// # Errors
    /// If it cannot be read, or has mistakes.
    pub fn read<E>(
        path: PathBuf,
        name: &str,
        known: Option<&Self>,
        max_mib: u64,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Self, Unusable<E>> {
        let before = FileStamp::of(&path);
        let same = known.filter(|it| it.is_current && it.is_of(&path));
        if let Some(same) = same.filter(|it| Some(it.stamp) == before) {
            return Ok(same.clone());
        }
        let (text, stamp) = read(&path, max_mib).map_err(Unusable::Unreadable)?;
        let table = parse(&text).map_err(Unusable::Mistakes)?;
        Ok(Self { path, name: name.to_owned(), stamp, table: Arc::new(table), is_current: true })
    }
}

/// Shares what it contains.
impl<T> Clone for HeldText<T> {
    fn clone(&self) -> Self {
        let Self { path, name, stamp, table, is_current } = self;
        let path = path.clone();
        let name = name.clone();
        let table = Arc::clone(table);
        Self { path, name, stamp: *stamp, table, is_current: *is_current }
    }
}

/// Leaves out what it contains, which is large and may be secret.
impl<T> fmt::Debug for HeldText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldText")
            .field("path", &self.path)
            .field("is_current", &self.is_current)
            .finish_non_exhaustive()
    }
}

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
    let mut text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    byte_order_mark::remove(&mut text);
    Ok((text, stamp))
}

//! Which file is being read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// The file that is being read or written, as other threads see it. If its file system does not
/// answer, the thread that uses it cannot say so.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Option<PathBuf>>>);

impl Progress {
    /// The file at `path` is used next.
    pub fn at(&self, path: &Path) {
        *self.0.lock() = Some(path.to_owned());
    }

    /// The file that is used.
    pub fn file(&self) -> Option<PathBuf> {
        self.0.lock().clone()
    }
}

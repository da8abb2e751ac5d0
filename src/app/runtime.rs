//! The runtime of one thread.

use std::io;

use tokio::runtime::{Builder, LocalRuntime};

/// A runtime that runs all its tasks on the current thread.
///
/// # Errors
/// If the system refuses it.
pub(crate) fn local_runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(Default::default())
}

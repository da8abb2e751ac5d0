//! The runtime of one thread.

use std::io;

use tokio::runtime::{Builder, LocalRuntime};

use crate::turn::Turn;

/// A runtime that runs all its tasks on the current thread.
///
/// # Errors
/// If the system refuses it.
pub fn local_runtime() -> io::Result<LocalRuntime> {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().on_thread_park(Turn::end).build_local(Default::default())
}

//! Why the process cannot run.

use std::io;

use tollgate_core::store::keys::KeysFileError;
use tollgate_core::store::overrides::FileError;

use crate::server::BindError;
use crate::telemetry::Output;

/// Why the process cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A listener cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The access log cannot be written.
    #[error("cannot open the access log {output}: {source}; choose a file that can be written")]
    AccessLog {
        /// The configured output.
        output: Output,
        /// The error of the system.
        source: io::Error,
    },
    /// The file of overrides cannot be used.
    #[error(transparent)]
    Overrides(#[from] FileError),
    /// The file of API keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeysFileError),
    /// The system refuses a thread, a runtime or a signal handler.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

//! What can go wrong with `tollgate init`.

use std::io;
use std::path::PathBuf;

use crate::config::Report;

/// Why no configuration is written.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// An argument is wrong.
    #[error("{option} {text:?}: {why}")]
    Value {
        /// The option.
        option: &'static str,
        /// Its value.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// No backend is named, and there is no terminal to ask at.
    #[error("where do admitted requests go? Write --to http://HOST:PORT, or --to builtin:echo")]
    NoBackend,
    /// The user has ended the questions.
    #[error("no configuration is written: {0}")]
    Input(io::Error),
    /// The values do not go with each other.
    #[error("the configuration would have mistakes:\n{0}")]
    Mistakes(Report),
    /// The file is there.
    #[error(
        "{} is there already, and stays as it is: name another file, or use --print or --force",
        .0.display()
    )]
    Exists(PathBuf),
    /// The file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

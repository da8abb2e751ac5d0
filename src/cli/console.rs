//! What commands read and print in the same way.

use std::io::Write as _;
use std::path::Path;

use super::paint;
use crate::config::{self, Compiled, LoadError, Report};

/// Loads a file, and prints the warnings about it.
pub fn load(path: &Path) -> Result<Compiled, LoadError> {
    let compiled = config::load(path)?;
    if !Report::is_empty(&compiled.warnings) {
        say(&paint::report(&compiled.warnings.to_string()));
    }
    Ok(compiled)
}

/// Prints to standard error. If that is closed, the text is lost.
pub fn say(text: &str) {
    // In one piece, because the log is written by another thread.
    let _ = anstream::stderr().lock().write_all(format!("{}\n", text.trim_end()).as_bytes());
}

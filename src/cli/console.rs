//! What commands read and print in the same way.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};

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

/// Prints to standard error with one write, because another thread writes the log there. If it is
/// closed, the text is lost.
pub fn say(text: &str) {
    let mut text = format!("{}\n", text.trim_end());
    // A stream that removes the colours itself would write the pieces between them.
    if AutoStream::choice(&io::stderr()) == ColorChoice::Never {
        text = strip_str(&text).to_string();
    }
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Standard output for text without colours.
pub fn out() -> impl Write {
    UntilClosed(io::stdout().lock())
}

/// Standard output for text with colours, which only a terminal gets.
pub fn styled_out() -> impl Write {
    UntilClosed(anstream::stdout().lock())
}

/// An output whose reader may need no more, as in `tollgate schema | head`. What follows is dropped
/// then, and a command goes on to its exit code.
struct UntilClosed<W>(W);

impl<W: Write> Write for UntilClosed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush(), ())
    }
}

fn unless_closed<T>(done: io::Result<T>, dropped: T) -> io::Result<T> {
    match done {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(dropped),
        done => done,
    }
}

/// A word of a command line.
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_as_a_shell_reads_them() {
        assert_eq!(quoted("per-client"), "per-client");
        assert_eq!(quoted("a b'c"), "'a b'\\''c'");
        assert_eq!(quoted(""), "''");
    }
}

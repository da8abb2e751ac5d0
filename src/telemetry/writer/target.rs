//! The output of a log.
//!
//! Standard output and standard error are written by descriptors of our own. So a thread
//! that waits for a full pipe holds no lock of the standard library, and a panic in another
//! thread can still be printed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::super::settings::Output;

/// How long to wait for an output that does not block and accepts nothing.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Two logs that go to one stream take turns, so that no line is torn.
static STDOUT: Mutex<()> = Mutex::new(());
static STDERR: Mutex<()> = Mutex::new(());

/// Where lines are written.
pub struct Target {
    /// The settings, by which a file is opened again.
    output: Output,
    writer: Box<dyn Write + Send>,
}

impl Target {
    /// # Errors
    /// If the file cannot be opened for appending.
    pub fn open(output: &Output) -> io::Result<Self> {
        let file = match output {
            Output::Stdout => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            Output::Stderr => File::from(io::stderr().as_fd().try_clone_to_owned()?),
            Output::File(path) => open(path)?,
        };
        Ok(Self { output: output.clone(), writer: Box::new(file) })
    }

    /// One that writes to `writer`, and has the name of standard output.
    #[cfg(test)]
    pub fn of(writer: impl Write + Send + 'static) -> Self {
        Self { output: Output::Stdout, writer: Box::new(writer) }
    }

    /// Its settings.
    pub const fn output(&self) -> &Output {
        &self.output
    }

    /// Opens the file again. If that fails, lines go on to the file that is open.
    pub fn reopen(&mut self) {
        let Output::File(path) = &self.output else { return };
        match open(path) {
            Ok(file) => self.writer = Box::new(file),
            Err(error) => {
                let path = path.display();
                tracing::error!(%error, %path, "cannot open the log file again; lines still go to the old file");
            }
        }
    }

    /// Writes all of `bytes`, and waits until the output accepts them.
    ///
    /// # Errors
    /// If the output fails, such as a closed pipe or a full disk.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let _turn = match self.output {
            Output::Stdout => Some(STDOUT.lock()),
            Output::Stderr => Some(STDERR.lock()),
            Output::File(_) => None,
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.writer.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A terminal or a pipe that another process has made non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    thread::sleep(RETRY_INTERVAL);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

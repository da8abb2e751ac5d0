//! The output of a log.
//!
//! Standard output and standard error are written by descriptors of our own. So a thread
//! that waits for a full pipe holds no lock of the standard library, and a panic in another
//! thread can still be printed.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::super::settings::Output;

/// How long to wait for an output that does not block and accepts nothing.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Two logs that go to one stream take turns, so that no line is torn by the other.
static STDOUT: Mutex<LastLine> = Mutex::new(LastLine::Whole);
static STDERR: Mutex<LastLine> = Mutex::new(LastLine::Whole);

/// What the output has of the last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastLine {
    Whole,
    /// Its begin only: the output has failed within it.
    Torn,
}

/// Where lines are written.
pub struct Target {
    /// The settings, by which a file is opened again.
    output: Output,
    writer: Box<dyn Write + Send>,
    /// The last line in a file. That of a stream belongs to the stream.
    last_line: LastLine,
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
        Ok(Self { output: output.clone(), writer: Box::new(file), last_line: LastLine::Whole })
    }

    /// One that writes to `writer`, and has the name of a file.
    #[cfg(test)]
    pub fn of(writer: impl Write + Send + 'static) -> Self {
        let output = Output::File("test".into());
        Self { output, writer: Box::new(writer), last_line: LastLine::Whole }
    }

    /// Its settings.
    pub const fn output(&self) -> &Output {
        &self.output
    }

    /// Opens the file again. If that fails, lines go on to the file that is open.
    pub fn reopen(&mut self) {
        let Output::File(path) = &self.output else { return };
        match open(path) {
            Ok(file) => {
                if file.metadata().is_ok_and(|it| it.len() == 0) {
                    self.last_line = LastLine::Whole;
                }
                self.writer = Box::new(file);
            }
            Err(error) => {
                let path = path.display();
                tracing::error!(%error, %path, "cannot open the log file again; lines still go to the old file");
            }
        }
    }

    /// Writes all of `rest`, and waits until the output accepts it. What it has accepted is
    /// removed from `rest`. If it has failed within a line, the next one begins a new line.
    ///
    /// # Errors
    /// If the output fails, such as a closed pipe or a full disk.
    pub fn write(&mut self, rest: &mut &[u8]) -> io::Result<()> {
        let Self { output, writer, last_line } = self;
        let mut turn = match output {
            Output::Stdout => Some(STDOUT.lock()),
            Output::Stderr => Some(STDERR.lock()),
            Output::File(_) => None,
        };
        let last_line = turn.as_deref_mut().unwrap_or(last_line);
        if *last_line == LastLine::Torn {
            write_all(writer, &mut &b"\n"[..])?;
            *last_line = LastLine::Whole;
        }
        let whole = *rest;
        let result = write_all(writer, rest);
        let accepted = whole.strip_suffix(*rest).unwrap_or_default();
        if accepted.last().is_some_and(|last| *last != b'\n') {
            *last_line = LastLine::Torn;
        }
        result
    }
}

fn write_all(writer: &mut dyn Write, rest: &mut &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match writer.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => *rest = rest.get(written..).unwrap_or_default(),
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

/// Opens a file for appending. It does not wait for a process that reads a FIFO.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => Ok(file.into()),
        Err(Errno::NXIO) if path.metadata().is_ok_and(|it| it.file_type().is_fifo()) => {
            let text = "it is a FIFO (a pipe) that no process reads";
            Err(io::Error::new(io::ErrorKind::NotFound, text))
        }
        Err(error) => Err(error.into()),
    }
}

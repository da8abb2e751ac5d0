//! The access log: one line for every request that is written.
//!
//! Each worker collects its lines and passes them in batches to one writing thread, so
//! that a slow disk does not slow the workers. If the queue is full, the batch is dropped,
//! and the next batch says how many lines are missing. Keys, queries and values of path
//! parameters are never written, and whole addresses only if the owner chose so.

mod line;

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::io;

use super::record::Record;
use super::settings::{AccessLogSettings, LineFormat};
use super::writer::{LogQueue, LogWriter, Reopener};
use line::Line;

/// Bytes after which a worker passes its batch on at once.
const BATCH_BYTES: usize = 32 * 1024;
/// A request that takes longer is always written, in microseconds.
const SLOW_US: u64 = 1_000_000;

/// The access log of the process, with its writing thread.
#[derive(Debug)]
pub(crate) struct AccessLog {
    writer: LogWriter,
    settings: AccessLogSettings,
}

impl AccessLog {
    /// Opens the output and starts the writing thread.
    ///
    /// # Errors
    /// If the file cannot be opened for appending, or the thread cannot be started.
    pub(crate) fn open(settings: &AccessLogSettings) -> io::Result<Self> {
        let writer = LogWriter::start("access-log", &settings.output)?;
        Ok(Self { writer, settings: settings.clone() })
    }

    /// The part of one worker.
    pub(crate) fn worker(&self) -> WorkerLog {
        WorkerLog::new(self.writer.queue(), self.settings.clone())
    }

    /// What has its file opened again.
    pub(crate) fn reopener(&self) -> Reopener {
        self.writer.reopener()
    }

    /// Writes the remaining batches, for a second at most. All [`WorkerLog`]s must have been
    /// dropped.
    pub(crate) fn close(self) {
        if !self.writer.close() {
            tracing::warn!(
                output = %self.settings.output,
                "the output of the access log accepts nothing: its last lines are lost"
            );
        }
    }
}

/// The part of the access log that belongs to one worker.
#[derive(Debug)]
pub(crate) struct WorkerLog {
    queue: LogQueue,
    settings: AccessLogSettings,
    batch: RefCell<String>,
    /// Lines in the batch.
    lines: Cell<u64>,
    /// Lines that were lost since the last batch that was passed on.
    dropped: Cell<u64>,
}

impl WorkerLog {
    fn new(queue: LogQueue, settings: AccessLogSettings) -> Self {
        let (batch, lines, dropped) = (RefCell::default(), Cell::new(0), Cell::new(0));
        Self { queue, settings, batch, lines, dropped }
    }

    /// Adds the line of a request, if it is one of those that are written.
    pub(super) fn write(&self, record: &Record) {
        if !self.is_written(record) {
            return;
        }
        let full = {
            let mut batch = self.batch.borrow_mut();
            let line = Line::of(record, &self.settings);
            // Writing to a String cannot fail.
            let _ = match self.settings.format {
                LineFormat::Json => line.write_json(&mut batch),
                LineFormat::Text => line.write_text(&mut batch),
                LineFormat::Combined => line.write_combined(&mut batch),
            };
            batch.len() >= BATCH_BYTES
        };
        self.lines.set(self.lines.get() + 1);
        if full {
            self.flush();
        }
    }

    /// Requests that operators look for are always written: refused ones, also those that a
    /// policy in shadow mode would have refused, failures and slow ones. Of the others, a
    /// sample is written.
    fn is_written(&self, record: &Record) -> bool {
        let percent = self.settings.sample_percent;
        percent >= 100 || is_notable(record) || fastrand::u8(0..100) < percent
    }

    /// Passes the batch on to the writing thread.
    pub(super) fn flush(&self) {
        if self.lines.get() == 0 {
            return;
        }
        let mut batch = self.batch.take();
        let lines = self.lines.take();
        let dropped = self.dropped.take();
        if dropped > 0 {
            let _ = match self.settings.format {
                LineFormat::Json => writeln!(batch, "{{\"dropped_lines\":{dropped}}}"),
                LineFormat::Text | LineFormat::Combined => {
                    writeln!(batch, "{dropped} lines dropped")
                }
            };
        }
        if !self.queue.send(batch.into_bytes()) {
            self.dropped.set(dropped + lines);
        }
    }
}

impl Drop for WorkerLog {
    fn drop(&mut self) {
        self.flush();
    }
}

fn is_notable(record: &Record) -> bool {
    let is_failure = record.status.is_none_or(|status| {
        status.is_server_error() || status == http::StatusCode::TOO_MANY_REQUESTS
    });
    is_failure
        || record.is_refused
        || record.duration_us >= SLOW_US
        || record.policies.iter().any(|policy| policy.is_shadow_refused)
}

#[cfg(test)]
mod tests;

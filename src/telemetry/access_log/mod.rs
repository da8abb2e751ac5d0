//! The access log: one line for every request that is written.
//!
//! Each worker collects its lines and passes them in batches to one writing thread, so
//! that a slow disk does not slow the workers. If the queue is full, the batch is dropped,
//! and a later line says how many lines are missing. Keys, queries and values of path
//! parameters are never written, and whole addresses only if the owner chose so.

mod clock_text;
mod line;
mod terminal;
mod value;
mod visitor;

use std::cell::{Cell, RefCell};
use std::io;
use std::time::Instant;

use tollgate_core::log_fields::FieldNames;

use super::lost_lines::LostLines;
use super::record::Record;
use super::settings::{AccessLogSettings, LineFormat, Terminal};
use super::writer::{LogKind, LogQueue, LogWriter, Reopener};
use line::{Lines, dropped};

/// Bytes after which a worker passes its batch on at once.
const BATCH_BYTES: usize = 32 * 1024;
/// The most batches that wait for the writing thread.
const QUEUE_BATCHES: usize = 64;
/// A request that takes longer is always written, in microseconds.
const SLOW_US: u64 = 1_000_000;

/// The access log of the process, with its writing thread.
#[derive(Debug)]
pub struct AccessLog {
    writer: LogWriter,
    settings: AccessLogSettings,
    format: LineFormat,
    lost: LostLines,
}

impl AccessLog {
    /// Opens the output and starts the writing thread.
    ///
    /// # Errors
    /// If the file cannot be opened for appending, or the thread cannot be started.
    pub fn open(settings: &AccessLogSettings) -> io::Result<Self> {
        let format = settings.format.clone().unwrap_or_else(|| by_output(settings));
        let lost = LostLines::default();
        let writer = LogWriter::start(kind(&format, lost.clone()), &settings.output)?;
        Ok(Self { writer, settings: settings.clone(), format, lost })
    }

    /// The part of one worker.
    pub fn worker(&self) -> WorkerLog {
        WorkerLog::new(self.writer.queue(), self.settings.clone(), self.format.clone())
    }

    /// Counts the lines that are dropped because the queue is full.
    pub fn lost_lines(&self) -> LostLines {
        self.lost.clone()
    }

    /// What has its file opened again.
    pub fn reopener(&self) -> Reopener {
        self.writer.reopener()
    }

    /// Writes the remaining batches. What is not written at `end` is lost, and so are lines
    /// of workers that still run.
    pub fn close_by(self, end: Instant) {
        if !self.writer.close_by(end) {
            tracing::warn!(
                output = %self.settings.output,
                "the output of the access log accepts nothing: its last lines are lost"
            );
        }
    }
}

/// Text for people on a terminal. Ids of clients need JSON.
fn by_output(settings: &AccessLogSettings) -> LineFormat {
    match Terminal::of(&settings.output).filter(|_| !settings.has_keys) {
        Some(terminal) => LineFormat::Terminal(terminal),
        None => LineFormat::Json(FieldNames::Own),
    }
}

fn kind(format: &LineFormat, lost: LostLines) -> LogKind {
    LogKind { name: "access-log", batches: QUEUE_BATCHES, dropped: dropped(format), lost }
}

/// The part of the access log that belongs to one worker.
#[derive(Debug)]
pub struct WorkerLog {
    queue: LogQueue,
    writing: Lines,
    batch: RefCell<String>,
    /// Lines in the batch.
    lines: Cell<u64>,
}

impl WorkerLog {
    fn new(queue: LogQueue, settings: AccessLogSettings, format: LineFormat) -> Self {
        let writing = Lines::new(settings, format);
        Self { queue, writing, batch: RefCell::default(), lines: Cell::new(0) }
    }

    /// Adds the line of a request, if it is one of those that are written.
    pub fn write(&self, record: &Record) {
        let sample = self.sample(record);
        if !is_drawn(sample) {
            return;
        }
        let full = {
            let mut batch = self.batch.borrow_mut();
            let shown = (self.writing.settings().sample_percent < 100).then_some(sample);
            // Writing to a String cannot fail.
            let _ = self.writing.add(record, shown, &mut batch);
            batch.len() >= BATCH_BYTES
        };
        self.lines.set(self.lines.get() + 1);
        if full {
            self.flush();
        }
    }

    /// How many of 100 requests like this one are written. Requests that operators look for
    /// are always written: refused ones, also those that a policy in shadow mode would have
    /// refused, failures and slow ones.
    fn sample(&self, record: &Record) -> u8 {
        if is_notable(record) { 100 } else { self.writing.settings().sample_percent }
    }

    /// Passes the batch on to the writing thread.
    pub fn flush(&self) {
        if self.lines.get() == 0 {
            return;
        }
        // The next batch is about as long. With an eighth more it need not grow, which would
        // copy it.
        let room = self.batch.borrow().len() / 8 * 9;
        let batch = self.batch.replace(String::with_capacity(room));
        self.queue.send(batch.into_bytes(), self.lines.take());
    }
}

impl Drop for WorkerLog {
    fn drop(&mut self) {
        self.flush();
    }
}

fn is_drawn(percent: u8) -> bool {
    percent >= 100 || fastrand::u8(0..100) < percent
}

fn is_notable(record: &Record) -> bool {
    let is_failure = record.status.is_none_or(|status| {
        status.is_server_error() || status == http::StatusCode::TOO_MANY_REQUESTS
    });
    is_failure
        || record.is_broken
        || record.is_refused
        || record.duration_us >= SLOW_US
        || record.policies.iter().any(|policy| policy.is_shadow_refused)
}

#[cfg(test)]
mod tests;

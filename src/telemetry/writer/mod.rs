//! A thread that writes the lines of one log, so that a slow disk or a stuck pipe delays no
//! other thread.
//!
//! Lines come in batches through a bounded queue. What does not fit is dropped by the
//! sender and counted. As soon as the output accepts lines again, one line says how many
//! are missing. The thread opens a file again when it is asked to ([`Reopener::reopen`]),
//! as after a rotation. It is the only thread that touches the output.

mod target;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_core::time::monotonic;

use super::lost_lines::LostLines;
use super::settings::Output;
use target::Target;

/// The longest time until a file is opened again, and until lost lines are reported, while
/// no lines come.
const IDLE_INTERVAL: Duration = Duration::from_millis(200);

/// What distinguishes one log from another.
#[derive(Clone, Debug)]
pub struct LogKind {
    /// The name of its thread.
    pub name: &'static str,
    /// How many batches may wait for the thread.
    pub batches: usize,
    /// The line, with its end, that says how many lines are missing.
    pub dropped: fn(u64) -> String,
    /// Counts all lines that are lost.
    pub lost: LostLines,
}

/// The thread of one log.
#[derive(Debug)]
pub struct LogWriter {
    queue: LogQueue,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

/// Sends batches of lines to the thread.
#[derive(Clone, Debug)]
pub struct LogQueue {
    batches: SyncSender<Batch>,
    state: Arc<State>,
}

/// Lines on their way to the thread.
#[derive(Debug, Default)]
pub struct Batch {
    /// The lines. The first one may be the one that says how many are missing.
    pub bytes: Vec<u8>,
    /// How long the line is that says how many are missing; 0 if there is none.
    report_bytes: usize,
    /// How many lines it says are missing.
    reported: u64,
}

impl Batch {
    /// The lines of which the output has not accepted the last `left` bytes. The line that
    /// says how many are missing is not one of them.
    fn lines_in_last(&self, left: usize) -> u64 {
        let accepted = self.bytes.len().saturating_sub(left);
        let lost = self.bytes.get(accepted.max(self.report_bytes)..).unwrap_or_default();
        u64::try_from(memchr::memchr_iter(b'\n', lost).count()).unwrap_or(u64::MAX)
    }

    /// How many missing lines remain to be reported, if the output has not accepted the last
    /// `left` bytes.
    fn unreported(&self, left: usize) -> u64 {
        let is_reported = self.bytes.len().saturating_sub(left) >= self.report_bytes;
        if is_reported { 0 } else { self.reported }
    }
}

/// What the thread shares with its senders.
#[derive(Debug)]
struct State {
    kind: LogKind,
    /// Lost lines that no line has reported yet.
    unreported: AtomicU64,
    /// Set if the file must be opened again before the next batch.
    reopen: AtomicBool,
    /// Set if the thread must end when the queue is empty.
    closing: AtomicBool,
}

impl State {
    fn new(kind: LogKind) -> Arc<Self> {
        let reopen = AtomicBool::new(false);
        let closing = AtomicBool::new(false);
        Arc::new(Self { kind, unreported: AtomicU64::new(0), reopen, closing })
    }

    fn lose(&self, lines: u64) {
        self.kind.lost.add(lines);
        self.unreported.fetch_add(lines, Ordering::Relaxed);
    }

    /// These lines, after the one that says how many are missing, if there are new ones.
    fn batch(&self, lines: Vec<u8>) -> Batch {
        let reported = self.unreported.swap(0, Ordering::Relaxed);
        if reported == 0 {
            return Batch { bytes: lines, report_bytes: 0, reported };
        }
        let report = (self.kind.dropped)(reported);
        let report_bytes = report.len();
        Batch { bytes: [report.as_bytes(), &lines].concat(), report_bytes, reported }
    }
}

impl LogQueue {
    /// Passes a batch of so many lines on. If the queue is full or the thread has ended, the
    /// lines are lost.
    pub fn send(&self, batch: Vec<u8>, lines: u64) {
        match self.batches.try_send(self.state.batch(batch)) {
            Ok(()) => {}
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => {
                self.state.unreported.fetch_add(batch.reported, Ordering::Relaxed);
                self.state.lose(lines);
            }
        }
    }

    /// A queue without a thread.
    #[cfg(test)]
    pub fn unread(kind: LogKind) -> (Self, Receiver<Batch>) {
        let (batches, receiver) = sync_channel(kind.batches);
        (Self { batches, state: State::new(kind) }, receiver)
    }
}

/// Has the file of a log opened again, as after a rotation.
#[derive(Clone, Debug)]
pub struct Reopener(Arc<State>);

impl Reopener {
    /// Has the file opened again before more lines are written, and within a fifth of a
    /// second if no lines come. It does nothing for standard output and standard error.
    pub fn reopen(&self) {
        self.0.reopen.store(true, Ordering::Relaxed);
    }
}

impl LogWriter {
    /// Opens the output and starts the thread.
    ///
    /// # Errors
    /// If the file cannot be opened for appending, or the thread cannot be started.
    pub fn start(kind: LogKind, output: &Output) -> io::Result<Self> {
        let target = Target::open(output)?;
        Self::with(kind, target)
    }

    fn with(kind: LogKind, target: Target) -> io::Result<Self> {
        let (sender, batches) = sync_channel(kind.batches);
        let (running, ended) = sync_channel(0);
        let name = kind.name.to_owned();
        let state = State::new(kind);
        let writing = Writing { target, state: Arc::clone(&state), is_failing: false };
        thread::Builder::new().name(name).spawn(move || {
            writing.run(&batches);
            // First, so that what is sent after the end counts as lost.
            drop(batches);
            drop(running);
        })?;
        Ok(Self { queue: LogQueue { batches: sender, state }, ended })
    }

    /// The queue of the thread.
    pub fn queue(&self) -> LogQueue {
        self.queue.clone()
    }

    /// What has the file opened again.
    pub fn reopener(&self) -> Reopener {
        Reopener(Arc::clone(&self.queue.state))
    }

    /// Writes what is queued, and ends the thread. What is not written at `end` is lost, and
    /// so are lines that are sent later. Returns whether the thread has ended in time.
    pub fn close_by(self, end: Instant) -> bool {
        self.queue.state.closing.store(true, Ordering::Release);
        // An empty batch wakes the thread. If the queue is full, the thread does not sleep.
        let _ = self.queue.batches.try_send(Batch::default());
        let left = end.saturating_duration_since(monotonic());
        // Nothing is ever sent: the channel is disconnected when the thread ends.
        !matches!(self.ended.recv_timeout(left), Err(RecvTimeoutError::Timeout))
    }
}

/// The state of the thread.
struct Writing {
    target: Target,
    state: Arc<State>,
    /// Whether the last batch was lost.
    is_failing: bool,
}

impl Writing {
    fn run(mut self, batches: &Receiver<Batch>) {
        loop {
            let batch = if self.state.closing.load(Ordering::Acquire) {
                batches.try_recv().map_err(|_: TryRecvError| RecvTimeoutError::Disconnected)
            } else {
                batches.recv_timeout(IDLE_INTERVAL)
            };
            if self.state.reopen.swap(false, Ordering::Relaxed) {
                self.target.reopen();
            }
            match batch {
                Ok(batch) => self.write(&batch),
                Err(RecvTimeoutError::Timeout) => self.report(),
                Err(RecvTimeoutError::Disconnected) => return self.report(),
            }
        }
    }

    /// If the output fails, as with a closed pipe or a full disk, the lines are lost that it
    /// has not accepted as a whole, and the failure is logged once.
    fn write(&mut self, batch: &Batch) {
        let mut rest = &*batch.bytes;
        match self.target.write(&mut rest) {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                self.state.unreported.fetch_add(batch.unreported(rest.len()), Ordering::Relaxed);
                self.state.lose(batch.lines_in_last(rest.len()));
                if !std::mem::replace(&mut self.is_failing, true) {
                    let output = self.target.output();
                    tracing::error!(%error, %output, "cannot write a log; its lines are lost");
                }
            }
        }
    }

    /// Says how many lines are missing, if there are new ones.
    fn report(&mut self) {
        let batch = self.state.batch(Vec::new());
        if !batch.bytes.is_empty() {
            self.write(&batch);
        }
    }
}

#[cfg(test)]
mod tests;

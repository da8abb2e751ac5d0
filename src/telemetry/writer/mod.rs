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
    batches: SyncSender<Vec<u8>>,
    state: Arc<State>,
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

    /// The line about lost lines, if there are new ones, and their number.
    fn report(&self) -> Option<(String, u64)> {
        let lines = self.unreported.swap(0, Ordering::Relaxed);
        (lines > 0).then(|| ((self.kind.dropped)(lines), lines))
    }
}

impl LogQueue {
    /// Passes a batch of so many lines on. If the queue is full or the thread has ended, the
    /// lines are lost.
    pub fn send(&self, batch: Vec<u8>, lines: u64) {
        let (batch, reported) = match self.state.report() {
            Some((report, reported)) => ([report.as_bytes(), &batch].concat(), reported),
            None => (batch, 0),
        };
        match self.batches.try_send(batch) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.state.unreported.fetch_add(reported, Ordering::Relaxed);
                self.state.lose(lines);
            }
        }
    }

    /// A queue without a thread.
    #[cfg(test)]
    pub fn unread(kind: LogKind) -> (Self, Receiver<Vec<u8>>) {
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
        let _ = self.queue.batches.try_send(Vec::new());
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
    fn run(mut self, batches: &Receiver<Vec<u8>>) {
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

    /// If the output fails, as with a closed pipe or a full disk, lines are lost, and the
    /// failure is logged once.
    fn write(&mut self, batch: &[u8]) {
        match self.target.write(batch) {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                let lines = memchr::memchr_iter(b'\n', batch).count();
                self.state.lose(u64::try_from(lines).unwrap_or(u64::MAX));
                if !std::mem::replace(&mut self.is_failing, true) {
                    let output = self.target.output();
                    tracing::error!(%error, %output, "cannot write a log; its lines are lost");
                }
            }
        }
    }

    fn report(&mut self) {
        if let Some((line, lines)) = self.state.report()
            && self.target.write(line.as_bytes()).is_err()
        {
            self.state.unreported.fetch_add(lines, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;

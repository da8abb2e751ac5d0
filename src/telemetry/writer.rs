//! A thread that writes the lines of one log, so that a slow disk or a stuck pipe delays no
//! other thread.
//!
//! Lines come in batches through a bounded queue. What does not fit is dropped by the
//! sender, which counts it. The thread opens a file again when it is asked to
//! ([`Reopener::reopen`]), as after a rotation. It is the only thread that touches the
//! output.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use super::settings::Output;

/// Batches that may wait for the thread.
const QUEUE_BATCHES: usize = 64;
/// The longest time for which an output that accepts nothing delays the end of the process.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// The longest time until a file is opened again while no lines come.
const REOPEN_INTERVAL: Duration = Duration::from_millis(200);

/// The thread of one log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    queue: SyncSender<Vec<u8>>,
    /// Set if the file must be opened again before the next batch.
    reopen: Arc<AtomicBool>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

/// Sends batches of lines to the thread.
#[derive(Clone, Debug)]
pub(crate) struct LogQueue(SyncSender<Vec<u8>>);

impl LogQueue {
    /// Passes a batch on. Returns false if it is lost: the queue is full or the thread has
    /// ended.
    pub(super) fn send(&self, batch: Vec<u8>) -> bool {
        match self.0.try_send(batch) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    /// A queue for `batches` without a thread.
    #[cfg(test)]
    pub(super) fn unread(batches: usize) -> (Self, Receiver<Vec<u8>>) {
        let (queue, receiver) = sync_channel(batches);
        (Self(queue), receiver)
    }
}

/// Has the file of a log opened again, as after a rotation.
#[derive(Clone, Debug)]
pub(crate) struct Reopener(Arc<AtomicBool>);

impl Reopener {
    /// Has the file opened again before more lines are written, and within a fifth of a
    /// second if no lines come. It does nothing for standard output and standard error.
    pub(crate) fn reopen(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl LogWriter {
    /// Opens the output and starts the thread. `name` is the name of the thread.
    ///
    /// # Errors
    /// If the file cannot be opened for appending, or the thread cannot be started.
    pub(crate) fn start(name: &str, output: &Output) -> io::Result<Self> {
        let target = Target::open(output)?;
        Self::with(name, target)
    }

    fn with(name: &str, target: Target) -> io::Result<Self> {
        let (queue, batches) = sync_channel(QUEUE_BATCHES);
        let (running, ended) = sync_channel(0);
        let reopen = Arc::new(AtomicBool::new(false));
        let wanted = Arc::clone(&reopen);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            write_all(target, &batches, &wanted);
            drop(running);
        })?;
        Ok(Self { queue, reopen, ended })
    }

    /// The queue of the thread.
    pub(crate) fn queue(&self) -> LogQueue {
        LogQueue(self.queue.clone())
    }

    /// What has the file opened again.
    pub(crate) fn reopener(&self) -> Reopener {
        Reopener(Arc::clone(&self.reopen))
    }

    /// Writes what is queued, and ends the thread. All queues must have been dropped. If the
    /// output accepts nothing for a second, the rest is lost. Returns whether all lines were
    /// written.
    pub(crate) fn close(self) -> bool {
        drop(self.queue);
        // Nothing is ever sent: the channel is disconnected when the thread ends.
        !matches!(self.ended.recv_timeout(CLOSE_LIMIT), Err(RecvTimeoutError::Timeout))
    }
}

/// Where lines are written.
struct Target {
    /// The settings, by which a file is opened again.
    output: Output,
    writer: Box<dyn Write + Send>,
}

impl Target {
    fn open(output: &Output) -> io::Result<Self> {
        let writer: Box<dyn Write + Send> = match output {
            Output::Stdout => Box::new(io::stdout()),
            Output::Stderr => Box::new(io::stderr()),
            Output::File(path) => Box::new(open(path)?),
        };
        Ok(Self { output: output.clone(), writer })
    }

    /// Opens the file again. If that fails, lines go on to the file that is open.
    fn reopen(&mut self) {
        let Output::File(path) = &self.output else { return };
        match open(path) {
            Ok(file) => self.writer = Box::new(file),
            Err(error) => {
                let path = path.display();
                tracing::error!(%error, %path, "cannot open the log file again; lines still go to the old file");
            }
        }
    }
}

fn open(path: &Path) -> io::Result<std::fs::File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Writes all batches. If the output fails, as with a closed pipe or a full disk, lines are
/// lost, and the failure is logged once.
fn write_all(mut target: Target, batches: &Receiver<Vec<u8>>, reopen: &AtomicBool) {
    let mut is_failing = false;
    loop {
        let batch = batches.recv_timeout(REOPEN_INTERVAL);
        if reopen.swap(false, Ordering::Relaxed) {
            target.reopen();
        }
        match batch {
            Ok(batch) => {
                match target.writer.write_all(&batch).and_then(|()| target.writer.flush()) {
                    Ok(()) => is_failing = false,
                    Err(error) if !is_failing => {
                        is_failing = true;
                        tracing::error!(%error, output = %target.output, "cannot write a log; its lines are lost");
                    }
                    Err(_) => {}
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use tollgate_limiter::time::monotonic;

    use super::*;

    #[test]
    fn a_file_is_opened_again_after_it_was_renamed() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, old) = (directory.path().join("log"), directory.path().join("log.1"));
        let writer = LogWriter::start("test", &Output::File(path.clone())).expect("a file");
        let queue = writer.queue();
        assert!(queue.send(b"one\n".to_vec()));
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let wait_for = |path: &Path, text: &str| {
            while read(path) != text {
                thread::sleep(Duration::from_millis(1));
            }
        };
        wait_for(&path, "one\n");
        fs::rename(&path, &old).expect("it is there");
        assert!(queue.send(b"two\n".to_vec()));
        wait_for(&old, "one\ntwo\n");
        writer.reopener().reopen();
        assert!(queue.send(b"three\n".to_vec()));
        drop(queue);
        assert!(writer.close());
        assert_eq!((read(&old), read(&path)), ("one\ntwo\n".into(), "three\n".into()));
    }

    #[test]
    fn a_file_is_opened_again_while_no_lines_come() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let writer = LogWriter::start("test", &Output::File(path.clone())).expect("a file");
        fs::remove_file(&path).expect("it is there");
        writer.reopener().reopen();
        while !path.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(writer.close());
    }

    /// Accepts nothing until the other end of its channel is dropped.
    struct Stuck(mpsc::Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, batch: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(batch.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_output_that_accepts_nothing_blocks_neither_lines_nor_the_end() {
        let (stuck, receiver) = mpsc::channel();
        let target = Target { output: Output::Stdout, writer: Box::new(Stuck(receiver)) };
        let writer = LogWriter::with("test", target).expect("a thread");
        let queue = writer.queue();
        let sent = (0..1000).filter(|_| queue.send(b"line\n".to_vec())).count();
        assert!((QUEUE_BATCHES..=QUEUE_BATCHES + 1).contains(&sent), "{sent}");
        drop(queue);
        let begun = monotonic();
        assert!(!writer.close(), "the lines are lost");
        assert!(begun.elapsed() >= CLOSE_LIMIT);
        drop(stuck);
    }
}

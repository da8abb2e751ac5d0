//! The thread that reads a file for all workers. A disk may be slow, and the requests of a worker
//! have deadlines.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::time::{Clock, Timestamp, monotonic};

/// The time between two looks for changes.
const INTERVAL: Duration = Duration::from_secs(1);
/// The most waiting questions. Each worker has few at a time, so this is enough for many workers.
const MAX_WAITING: usize = 1024;

/// What the thread does with its file.
pub(in crate::store) trait ReadFile: Send + 'static {
    /// The file while it is open for reads.
    type Opened;
    /// What workers ask.
    type Question: Send;
    /// The name of the thread.
    const THREAD: &'static str;

    /// Where the file is.
    fn path(&self) -> &Path;

    /// Opens the file.
    fn open(&self) -> Result<Self::Opened, String>;

    /// Whether a path still leads to this file.
    fn is_at(opened: &Self::Opened, path: &Path) -> bool;

    /// The mark of each part.
    fn marks(opened: &Self::Opened) -> Result<Vec<(usize, u64)>, String>;

    /// Answers a question. The file is none if it cannot be opened. An error says that it cannot be
    /// read.
    fn answer(
        &mut self,
        opened: Option<&Self::Opened>,
        question: Self::Question,
    ) -> Result<(), String>;

    /// Takes the marks, which were read at this time.
    fn hear(&mut self, marks: Vec<(usize, u64)>, at: Timestamp);

    /// Notes that the file can no longer be read, for this reason, or can be read again.
    fn changed(&mut self, problem: Option<&str>);
}

/// A handle of the thread. The thread ends with its last handle.
#[derive(Debug)]
pub(in crate::store) struct FileReader<Q>(SyncSender<Q>);

impl<Q> Clone for FileReader<Q> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Q: Send + 'static> FileReader<Q> {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(in crate::store) fn start<F: ReadFile<Question = Q>>(file: F) -> std::io::Result<Self> {
        let (sender, questions) = sync_channel(MAX_WAITING);
        let name = F::THREAD.to_owned();
        let run = move || Watch { file, opened: None, is_away: false }.run(&questions);
        thread::Builder::new().name(name).spawn(run)?;
        Ok(Self(sender))
    }

    /// Passes on a question that needs no answer. Returns whether there is room for it.
    pub(in crate::store) fn tell(&self, question: Q) -> bool {
        self.0.try_send(question).is_ok()
    }

    /// The answer to a question about `count` things: one for each, or so many times `away` if the
    /// thread has too much to do or has ended.
    pub(in crate::store) async fn ask<T: Clone>(
        &self,
        count: usize,
        away: T,
        question: impl FnOnce(oneshot::Sender<Vec<T>>) -> Q,
    ) -> Vec<T> {
        let (answer, said) = oneshot::channel();
        let said = if self.tell(question(answer)) { said.await.ok() } else { None };
        said.unwrap_or_else(|| vec![away; count])
    }
}

/// Sends what was read of `count` things, or so many times `away` if nothing could be read.
pub(in crate::store) fn reply<T: Clone>(
    answer: oneshot::Sender<Vec<T>>,
    read: Option<Result<Vec<T>, String>>,
    count: usize,
    away: T,
) -> Result<(), String> {
    let nothing = || vec![away; count];
    let (said, done) = match read {
        Some(Ok(said)) => (said, Ok(())),
        Some(Err(problem)) => (nothing(), Err(problem)),
        None => (nothing(), Ok(())),
    };
    // The caller may have stopped waiting.
    drop(answer.send(said));
    done
}

/// The state of the thread.
struct Watch<F: ReadFile> {
    file: F,
    opened: Option<F::Opened>,
    /// Whether the file could not be read at the last attempt.
    is_away: bool,
}

impl<F: ReadFile> Watch<F> {
    fn run(mut self, questions: &Receiver<F::Question>) {
        loop {
            self.look_for_changes();
            let next = monotonic() + INTERVAL;
            loop {
                match questions.recv_timeout(until(next)) {
                    Ok(question) => {
                        if let Err(problem) = self.file.answer(self.opened.as_ref(), question) {
                            self.give_up(&problem);
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                if monotonic() >= next {
                    break;
                }
            }
        }
    }

    /// Reads the marks. If the path leads to another file, that file is opened.
    fn look_for_changes(&mut self) {
        let at = Clock::System.now();
        match self.open().and_then(|opened| F::marks(opened)) {
            Ok(marks) => {
                self.file.hear(marks, at);
                if std::mem::take(&mut self.is_away) {
                    self.file.changed(None);
                }
            }
            Err(problem) => self.give_up(&problem),
        }
    }

    fn open(&mut self) -> Result<&F::Opened, String> {
        let path = self.file.path();
        let opened = match self.opened.take().filter(|opened| F::is_at(opened, path)) {
            Some(opened) => opened,
            None => self.file.open()?,
        };
        Ok(self.opened.insert(opened))
    }

    fn give_up(&mut self, problem: &str) {
        self.opened = None;
        if !std::mem::replace(&mut self.is_away, true) {
            self.file.changed(Some(problem));
        }
    }
}

fn until(next: Instant) -> Duration {
    next.saturating_duration_since(monotonic())
}

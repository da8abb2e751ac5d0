//! The thread that reads the file for all workers, and writes when keys were last used. A disk may
//! be slow, and the worker's requests have deadlines.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::super::backend::{ReadKeys, ReadRecord};
use super::{KeysFile, Opened};
use crate::api_keys::{KeyId, Sought};
use crate::store::overrides::Marks;
use crate::time::{Clock, Timestamp, monotonic};

/// The time between two looks for changes.
const INTERVAL: Duration = Duration::from_secs(1);
/// The most waiting questions. Each worker has few at a time, so this is enough for many workers.
const MAX_WAITING: usize = 1024;
/// How long a request waits for the file. It is the default timeout of Redis.
const TIMEOUT: Duration = Duration::from_millis(20);

/// A handle of the thread. The thread ends with its last handle.
#[derive(Clone, Debug)]
pub(in crate::store::keys) struct Reader(SyncSender<Question>);

/// What the thread is asked.
#[derive(Debug)]
enum Question {
    Keys(Vec<Sought>, oneshot::Sender<Vec<ReadRecord>>),
    Teams(Vec<Arc<str>>, oneshot::Sender<Vec<ReadRecord>>),
    Uses(Vec<(KeyId, Timestamp)>),
}

impl Reader {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(in crate::store::keys) fn start(
        file: KeysFile,
        marks: Arc<Marks>,
    ) -> std::io::Result<Self> {
        let (sender, questions) = sync_channel(MAX_WAITING);
        let watch = Watch { file, marks, opened: None, complained: false };
        thread::Builder::new().name("keys".into()).spawn(move || watch.run(&questions))?;
        Ok(Self(sender))
    }

    async fn ask(
        &self,
        count: usize,
        question: impl FnOnce(oneshot::Sender<Vec<ReadRecord>>) -> Question,
    ) -> Vec<ReadRecord> {
        let (answer, said) = oneshot::channel();
        let away = || vec![ReadRecord::Away; count];
        match self.0.try_send(question(answer)) {
            Ok(()) => said.await.unwrap_or_else(|_| away()),
            Err(_) => away(),
        }
    }
}

impl ReadKeys for Reader {
    fn keys<'a>(&'a self, sought: &'a [Sought]) -> LocalBoxFuture<'a, Vec<ReadRecord>> {
        self.ask(sought.len(), |answer| Question::Keys(sought.to_vec(), answer)).boxed_local()
    }

    fn teams<'a>(&'a self, names: &'a [Arc<str>]) -> LocalBoxFuture<'a, Vec<ReadRecord>> {
        self.ask(names.len(), |answer| Question::Teams(names.to_vec(), answer)).boxed_local()
    }

    fn store_uses<'a>(&'a self, uses: &'a [(KeyId, Timestamp)]) -> LocalBoxFuture<'a, ()> {
        // If the thread has too much to do, a later use of the keys is stored.
        let _ = self.0.try_send(Question::Uses(uses.to_vec()));
        std::future::ready(()).boxed_local()
    }

    fn timeout(&self) -> Duration {
        TIMEOUT
    }

    /// The thread reads the marks.
    fn listen(self: Rc<Self>, _marks: Arc<Marks>, _clock: Clock) -> LocalBoxFuture<'static, ()> {
        std::future::ready(()).boxed_local()
    }
}

/// The state of the thread.
struct Watch {
    file: KeysFile,
    marks: Arc<Marks>,
    opened: Option<Opened>,
    /// Whether the log has reported that the file cannot be read.
    complained: bool,
}

impl Watch {
    fn run(mut self, questions: &Receiver<Question>) {
        loop {
            self.look_for_changes();
            let next = monotonic() + INTERVAL;
            loop {
                match questions.recv_timeout(until(next)) {
                    Ok(question) => self.answer(question),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                if monotonic() >= next {
                    break;
                }
            }
        }
    }

    fn answer(&mut self, question: Question) {
        // The caller may have stopped waiting.
        match question {
            Question::Keys(sought, answer) => {
                let said = self.read(sought.len(), |opened| opened.keys(&sought));
                drop(answer.send(said));
            }
            Question::Teams(names, answer) => {
                let said = self.read(names.len(), |opened| opened.teams(&names));
                drop(answer.send(said));
            }
            Question::Uses(uses) => {
                if let Err(error) = self.file.store_uses(&uses) {
                    self.give_up(&error.to_string());
                }
            }
        }
    }

    fn read(
        &mut self,
        count: usize,
        read: impl FnOnce(&Opened) -> Result<Vec<ReadRecord>, String>,
    ) -> Vec<ReadRecord> {
        match self.opened.as_ref().map(read) {
            Some(Ok(said)) => return said,
            Some(Err(problem)) => self.give_up(&problem),
            None => {}
        }
        vec![ReadRecord::Away; count]
    }

    /// Reads the marks. If the path leads to another file, that file is opened.
    fn look_for_changes(&mut self) {
        let at = Clock::System.now();
        match self.open().and_then(|opened| opened.marks()) {
            Ok(marks) => {
                self.marks.hear(marks, at);
                if std::mem::take(&mut self.complained) {
                    info!(file = %self.file.path.display(), "the file of keys can be read again");
                }
            }
            Err(problem) => self.give_up(&problem),
        }
    }

    fn open(&mut self) -> Result<&Opened, String> {
        let path = &self.file.path;
        let opened = match self.opened.take().filter(|opened| opened.is_at(path)) {
            Some(opened) => opened,
            None => Opened::open(path)?,
        };
        Ok(self.opened.insert(opened))
    }

    fn give_up(&mut self, problem: &str) {
        self.opened = None;
        if !std::mem::replace(&mut self.complained, true) {
            let file = self.file.path.display();
            warn!(%file, %problem, "the file of keys cannot be read; known keys are trusted for a while");
        }
    }
}

fn until(next: Instant) -> Duration {
    next.saturating_duration_since(monotonic())
}

//! The file as the workers of a node read it. The same thread writes when keys were last used.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::super::backend::{ReadKeys, ReadRecord};
use super::super::condition::KeysCondition;
use super::{KeysFile, Opened};
use crate::api_keys::{KeyId, Sought};
use crate::store::shared_file::{FileReader, ReadFile, reply};
use crate::time::{Clock, Timestamp};

/// How long a request waits for the file. It is the default timeout of Redis.
const TIMEOUT: Duration = Duration::from_millis(20);

/// The keys in the file, for all workers.
#[derive(Clone, Debug)]
pub(in crate::store::keys) struct Reader(FileReader<Question>);

/// What the thread is asked.
#[derive(Debug)]
enum Question {
    Keys(Vec<Sought>, oneshot::Sender<Vec<ReadRecord>>),
    Teams(Vec<Arc<str>>, oneshot::Sender<Vec<ReadRecord>>),
    Uses(Vec<(KeyId, Timestamp)>),
}

/// The file, and the condition in which the thread records what is wrong with it.
struct Watched {
    file: KeysFile,
    condition: Arc<KeysCondition>,
    /// Whether uses could not be stored at the last attempt.
    loses_uses: bool,
}

impl Reader {
    /// Starts the thread that reads the file.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(in crate::store::keys) fn start(
        file: KeysFile,
        condition: Arc<KeysCondition>,
    ) -> std::io::Result<Self> {
        FileReader::start(Watched { file, condition, loses_uses: false }).map(Self)
    }
}

impl ReadKeys for Reader {
    fn keys<'a>(&'a self, sought: &'a [Sought]) -> LocalBoxFuture<'a, Vec<ReadRecord>> {
        let question = |answer| Question::Keys(sought.to_vec(), answer);
        self.0.ask(sought.len(), ReadRecord::Away, question).boxed_local()
    }

    fn teams<'a>(&'a self, names: &'a [Arc<str>]) -> LocalBoxFuture<'a, Vec<ReadRecord>> {
        let question = |answer| Question::Teams(names.to_vec(), answer);
        self.0.ask(names.len(), ReadRecord::Away, question).boxed_local()
    }

    fn store_uses<'a>(&'a self, uses: &'a [(KeyId, Timestamp)]) -> LocalBoxFuture<'a, ()> {
        // If the thread has too much to do, a later use of the keys is stored.
        self.0.tell(Question::Uses(uses.to_vec()));
        std::future::ready(()).boxed_local()
    }

    fn timeout(&self) -> Duration {
        TIMEOUT
    }

    /// The thread reads the marks.
    fn listen(self: Rc<Self>, _: Arc<KeysCondition>, _: Clock) -> LocalBoxFuture<'static, ()> {
        std::future::ready(()).boxed_local()
    }
}

impl ReadFile for Watched {
    type Opened = Opened;
    type Question = Question;
    const THREAD: &'static str = "keys";

    fn path(&self) -> &Path {
        &self.file.path
    }

    fn open(&self) -> Result<Opened, String> {
        Opened::open(&self.file.path)
    }

    fn is_at(opened: &Opened, path: &Path) -> bool {
        opened.file.is_at(path)
    }

    fn marks(opened: &Opened) -> Result<Vec<(usize, u64)>, String> {
        opened.marks()
    }

    fn answer(&mut self, opened: Option<&Opened>, question: Question) -> Result<(), String> {
        match question {
            Question::Keys(sought, answer) => {
                let read = opened.map(|opened| opened.keys(&sought));
                reply(answer, read, sought.len(), ReadRecord::Away)
            }
            Question::Teams(names, answer) => {
                let read = opened.map(|opened| opened.teams(&names));
                reply(answer, read, names.len(), ReadRecord::Away)
            }
            Question::Uses(uses) => {
                self.store_uses(&uses);
                Ok(())
            }
        }
    }

    fn hear(&mut self, marks: Vec<(usize, u64)>, at: Timestamp) {
        self.condition.marks().hear(marks, at);
    }

    /// The log, the status and the metrics of the node tell it.
    fn changed(&mut self, problem: Option<&str>) {
        self.condition.note_problem(problem);
    }
}

impl Watched {
    fn store_uses(&mut self, uses: &[(KeyId, Timestamp)]) {
        let stored = self.file.store_uses(uses);
        let loses = stored.is_err();
        if loses == std::mem::replace(&mut self.loses_uses, loses) {
            return;
        }
        let file = self.file.path.display();
        match stored {
            Err(error) => {
                warn!(%file, %error, "when API keys were last used cannot be stored");
            }
            Ok(()) => info!(%file, "when API keys were last used is stored again"),
        }
    }
}

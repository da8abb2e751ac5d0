//! The thread that reads the file for all workers. A disk may be slow, and the worker's
//! requests have deadlines.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tracing::{info, warn};

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use super::{Opened, OverridesFile};
use crate::digest::Key;
use crate::store::overrides::marks::Marks;
use crate::store::overrides::stored::{ReadOverrides, Stored};
use crate::time::{Clock, monotonic};

/// The time between two looks for changes.
const INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of waiting batches. Each worker has one at a time, so this is enough
/// for many workers.
const MAX_WAITING: usize = 1024;

/// A handle of the thread. The thread ends with its last handle.
#[derive(Clone, Debug)]
pub(in crate::store::overrides) struct Reader(SyncSender<Lookup>);

/// A lookup of the overrides of some keys.
#[derive(Debug)]
struct Lookup {
    keys: Vec<Key>,
    answer: oneshot::Sender<Vec<Stored>>,
}

impl ReadOverrides for Reader {
    fn fetch<'a>(&'a self, keys: &'a [Key], _settled: bool) -> LocalBoxFuture<'a, Vec<Stored>> {
        self.fetch(keys).boxed_local()
    }
}

impl Reader {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(in crate::store::overrides) fn start(
        file: OverridesFile,
        marks: Arc<Marks>,
    ) -> std::io::Result<Self> {
        let (sender, lookups) = sync_channel(MAX_WAITING);
        let watch = Watch { file, marks, opened: None, complained: false };
        thread::Builder::new().name("overrides".into()).spawn(move || watch.run(&lookups))?;
        Ok(Self(sender))
    }

    /// The overrides of these keys, in their order.
    async fn fetch(&self, keys: &[Key]) -> Vec<Stored> {
        let (answer, said) = oneshot::channel();
        let lookup = Lookup { keys: keys.to_vec(), answer };
        match self.0.try_send(lookup) {
            Ok(()) => said.await.unwrap_or_else(|_| nothing(keys)),
            Err(_) => nothing(keys),
        }
    }
}

fn nothing(keys: &[Key]) -> Vec<Stored> {
    vec![None; keys.len()]
}

/// The state of the thread.
struct Watch {
    file: OverridesFile,
    marks: Arc<Marks>,
    opened: Option<Opened>,
    /// Whether the log has reported that the file cannot be read.
    complained: bool,
}

impl Watch {
    fn run(mut self, lookups: &Receiver<Lookup>) {
        loop {
            self.look_for_changes();
            let next = monotonic() + INTERVAL;
            loop {
                match lookups.recv_timeout(until(next)) {
                    // The caller may have stopped waiting.
                    Ok(lookup) => drop(lookup.answer.send(self.answer(&lookup.keys))),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                if monotonic() >= next {
                    break;
                }
            }
        }
    }

    fn answer(&mut self, keys: &[Key]) -> Vec<Stored> {
        match self.opened.as_ref().map(|opened| opened.read(keys)) {
            Some(Ok(said)) => said,
            Some(Err(problem)) => {
                self.give_up(&problem);
                nothing(keys)
            }
            None => nothing(keys),
        }
    }

    /// Reads the marks. If the path leads to another file, that file is opened.
    fn look_for_changes(&mut self) {
        let at = Clock::System.now();
        match self.open().and_then(|opened| opened.marks()) {
            Ok(marks) => {
                self.marks.hear(marks, at);
                if std::mem::take(&mut self.complained) {
                    info!(file = %self.file.path.display(), "the overrides can be read again");
                }
            }
            Err(problem) => self.give_up(&problem),
        }
    }

    fn open(&mut self) -> Result<&Opened, String> {
        let path = &self.file.path;
        let opened = match self.opened.take().filter(|opened| opened.is_at(path)) {
            Some(opened) => opened,
            None => {
                let opened = Opened::open(path)?;
                // All counters are stored under keys that depend on the secret.
                if opened.secret()? != Some(self.file.secret) {
                    return Err("the path leads to another file; restart the gateway".into());
                }
                opened
            }
        };
        Ok(self.opened.insert(opened))
    }

    fn give_up(&mut self, problem: &str) {
        self.opened = None;
        if !std::mem::replace(&mut self.complained, true) {
            let file = self.file.path.display();
            warn!(%file, %problem, "the overrides cannot be read; the last known limits apply");
        }
    }
}

fn until(next: Instant) -> Duration {
    next.saturating_duration_since(monotonic())
}

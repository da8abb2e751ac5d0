//! The file as the workers of a node read it.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::{Opened, OverridesFile};
use crate::digest::Key;
use crate::store::overrides::marks::Marks;
use crate::store::overrides::stored::{ReadOverrides, Stored};
use crate::store::shared_file::{FileReader, ReadFile, reply};
use crate::time::Timestamp;

/// The overrides in the file, for all workers.
#[derive(Clone, Debug)]
pub(in crate::store::overrides) struct Reader(FileReader<Lookup>);

/// A lookup of the overrides of some keys.
#[derive(Debug)]
struct Lookup {
    keys: Vec<Key>,
    answer: oneshot::Sender<Vec<Stored>>,
}

/// The file, as its thread reads it.
struct Watched {
    file: OverridesFile,
    marks: Arc<Marks>,
}

impl Reader {
    /// Starts the thread that reads the file.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(in crate::store::overrides) fn start(
        file: OverridesFile,
        marks: Arc<Marks>,
    ) -> std::io::Result<Self> {
        FileReader::start(Watched { file, marks }).map(Self)
    }
}

impl ReadOverrides for Reader {
    fn fetch<'a>(&'a self, keys: &'a [Key], _settled: bool) -> LocalBoxFuture<'a, Vec<Stored>> {
        self.0.ask(keys.len(), None, |answer| Lookup { keys: keys.to_vec(), answer }).boxed_local()
    }
}

impl ReadFile for Watched {
    type Opened = Opened;
    type Question = Lookup;
    const THREAD: &'static str = "overrides";

    fn path(&self) -> &Path {
        &self.file.path
    }

    fn open(&self) -> Result<Opened, String> {
        let opened = Opened::open(&self.file.path)?;
        // All counters are stored under keys that depend on the secret.
        if opened.secret()? != Some(self.file.secret) {
            return Err("the path leads to another file; restart the gateway".into());
        }
        Ok(opened)
    }

    fn is_at(opened: &Opened, path: &Path) -> bool {
        opened.file.is_at(path)
    }

    fn marks(opened: &Opened) -> Result<Vec<(usize, u64)>, String> {
        opened.marks()
    }

    fn answer(&mut self, opened: Option<&Opened>, question: Lookup) -> Result<(), String> {
        let Lookup { keys, answer } = question;
        reply(answer, opened.map(|opened| opened.read(&keys)), keys.len(), None)
    }

    fn hear(&mut self, marks: Vec<(usize, u64)>, at: Timestamp) {
        self.marks.hear(marks, at);
    }

    fn changed(&mut self, problem: Option<&str>) {
        let file = self.file.path.display();
        match problem {
            Some(problem) => {
                warn!(%file, %problem, "the overrides cannot be read; the last known limits apply");
            }
            None => info!(%file, "the overrides can be read again"),
        }
    }
}

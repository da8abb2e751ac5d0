//! The keys that the workers of a node share.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::spawn_local;

use super::backend::ReadKeys;
use super::condition::KeysAway;
#[cfg(feature = "keys-file")]
use super::file::{KeysFile, Reader};
use super::worker::{OfNode, StoredKeys};
use crate::store::Store;
use crate::time::{Clock, Span, Timestamp};

/// What a node does with known keys while it cannot read the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// It trusts a key for so long after the key was last certain.
    Local(Span),
    /// It trusts none.
    Deny,
}

/// The keys that the workers of a node share.
#[derive(Clone, Debug)]
pub struct SharedKeys {
    pub(super) node: OfNode,
    backend: SharedBackend,
}

#[derive(Clone, Debug)]
enum SharedBackend {
    #[cfg(feature = "keys-file")]
    File(Reader),
    /// Whether a worker already reads the marks.
    Remote(Arc<AtomicBool>),
}

impl SharedKeys {
    /// The keys in the shared store in which the node also counts.
    pub fn in_store(on_failure: OnFailure) -> Self {
        let backend = SharedBackend::Remote(Arc::default());
        Self::new(OfNode::new(), backend, on_failure)
    }

    /// The keys in a file, which a new thread reads from now on.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    #[cfg(feature = "keys-file")]
    pub fn in_file(file: KeysFile, on_failure: OnFailure) -> std::io::Result<Self> {
        let node = OfNode::new();
        let backend = SharedBackend::File(Reader::start(file, Arc::clone(&node.condition))?);
        Ok(Self::new(node, backend, on_failure))
    }

    fn new(node: OfNode, backend: SharedBackend, on_failure: OnFailure) -> Self {
        let keys = Self { node, backend };
        keys.set_on_failure(on_failure);
        keys
    }

    /// Changes what nodes do while the storage is away.
    pub fn set_on_failure(&self, on_failure: OnFailure) {
        let stale = match on_failure {
            OnFailure::Local(stale) => stale.as_micros(),
            OnFailure::Deny => 0,
        };
        self.node.stale_us.store(stale, Ordering::Relaxed);
    }

    /// Why keys cannot be read at `now`, by this node's time. None: they can.
    pub fn away(&self, now: Timestamp) -> Option<KeysAway> {
        self.node.condition.away(now)
    }

    /// What the storage says of why it cannot be read, if it says something.
    pub fn problem(&self) -> Option<String> {
        self.node.condition.problem()
    }

    /// The mark of a part, which is another one after each change.
    pub fn mark_of(&self, part: usize) -> u64 {
        self.node.condition.marks().of_part(part)
    }

    /// The keys of the worker in whose runtime this is called. `store` is the worker's store. None
    /// if they are in a shared store and the worker has none.
    pub fn open(&self, store: &Store) -> Option<StoredKeys> {
        let backend: Rc<dyn ReadKeys> = match (&self.backend, store) {
            #[cfg(feature = "keys-file")]
            (SharedBackend::File(reader), _) => Rc::new(reader.clone()),
            (SharedBackend::Remote(listens), Store::Remote(store)) => {
                let there = store.keys();
                if !listens.swap(true, Ordering::Relaxed) {
                    let condition = Arc::clone(&self.node.condition);
                    spawn_local(Rc::clone(&there).listen(condition, Clock::System));
                }
                there
            }
            (SharedBackend::Remote(_), Store::Memory(_)) => return None,
        };
        Some(StoredKeys::new(&self.node, backend))
    }
}

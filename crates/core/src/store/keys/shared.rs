//! The keys that the workers of a node share.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::spawn_local;

use super::backend::ReadKeys;
#[cfg(feature = "keys-file")]
use super::file::{KeysFile, Reader};
use super::worker::{OfNode, StoredKeys};
use crate::store::Store;
use crate::time::{Clock, Span};

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
        Self::new(OfNode::default(), backend, on_failure)
    }

    /// The keys in a file, which a new thread reads from now on.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    #[cfg(feature = "keys-file")]
    pub fn in_file(file: KeysFile, on_failure: OnFailure) -> std::io::Result<Self> {
        let node = OfNode::default();
        let backend = SharedBackend::File(Reader::start(file, Arc::clone(&node.marks))?);
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

    /// The keys of the worker in whose runtime this is called. `store` is the worker's store. None
    /// if they are in a shared store and the worker has none.
    pub fn open(&self, store: &Store) -> Option<StoredKeys> {
        let backend: Rc<dyn ReadKeys> = match (&self.backend, store) {
            #[cfg(feature = "keys-file")]
            (SharedBackend::File(reader), _) => Rc::new(reader.clone()),
            (SharedBackend::Remote(listens), Store::Remote(store)) => {
                let there = store.keys();
                if !listens.swap(true, Ordering::Relaxed) {
                    let marks = Arc::clone(&self.node.marks);
                    spawn_local(Rc::clone(&there).listen(marks, Clock::System));
                }
                there
            }
            (SharedBackend::Remote(_), Store::Memory(_)) => return None,
        };
        Some(StoredKeys::new(&self.node, backend))
    }
}

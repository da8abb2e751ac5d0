//! Limits of single keys, which replace those of their policies. They are stored in the shared
//! store or in a file, for billions of keys, and read through a bounded cache.
//!
//! Guarantees: a change takes effect on all nodes within two seconds. A known key costs no
//! call. A request waits for an unknown key for at most the timeout. If there is no reply by
//! then, or the backend is away, the last known override holds, or else the policy's own
//! limit. The cache and the number of concurrent lookups are bounded.
//!
//! How nodes find changes: see `Marks`.

mod cache;
mod codec;
#[cfg(feature = "overrides-file")]
mod file;
mod marks;
mod stored;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tokio::sync::watch;
use tokio::task::spawn_local;

pub use self::codec::{decode, encode};
#[cfg(feature = "overrides-file")]
pub use self::file::{FileError, OverridesFile, ReadError};
pub(in crate::store) use self::marks::ReadAt;
pub use self::marks::{Marks, PARTS, part};
pub use self::stored::{ReadOverrides, Stored, Unreadable};
pub use super::override_limit::{Lookups, Override};

use self::cache::Cache;
#[cfg(feature = "overrides-file")]
use self::file::Reader;
use super::Store;
use crate::digest::Key;
use crate::in_time::in_time;
use crate::time::{Clock, Timestamp, monotonic};

/// The maximum number of keys in one worker's cache, with or without an override. An entry
/// takes about 100 bytes.
const MAX_KNOWN: usize = 100_000;
/// The maximum number of pending lookups of one worker. Further keys have their last known
/// limit.
const MAX_WANTED: usize = 4096;
/// The maximum number of keys in one lookup.
const MAX_BATCH: usize = 256;
/// How long a request waits for a file. It is the default timeout of Redis.
#[cfg(feature = "overrides-file")]
const FILE_TIMEOUT: Duration = Duration::from_millis(20);

/// The overrides that the workers of a node share.
#[derive(Clone, Debug)]
pub struct SharedOverrides {
    marks: Arc<Marks>,
    backend: SharedBackend,
}

#[derive(Clone, Debug)]
enum SharedBackend {
    #[cfg(feature = "overrides-file")]
    File(Reader),
    /// Whether a worker already reads the marks.
    Remote(Arc<AtomicBool>),
}

impl SharedOverrides {
    /// The overrides in a file, which a new thread reads from now on.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    #[cfg(feature = "overrides-file")]
    pub fn in_file(file: OverridesFile) -> std::io::Result<Self> {
        let marks = Arc::new(Marks::default());
        let backend = SharedBackend::File(Reader::start(file, Arc::clone(&marks))?);
        Ok(Self { marks, backend })
    }

    /// The overrides in the shared store in which the node also counts.
    pub fn in_store() -> Self {
        Self { marks: Arc::default(), backend: SharedBackend::Remote(Arc::default()) }
    }

    /// The overrides of the worker in whose runtime this is called. `store` is the worker's
    /// store. None if they are in a shared store and the worker has none.
    pub fn open(&self, store: &Store) -> Option<Overrides> {
        let (backend, timeout): (Rc<dyn ReadOverrides>, Duration) = match (&self.backend, store) {
            #[cfg(feature = "overrides-file")]
            (SharedBackend::File(reader), _) => (Rc::new(reader.clone()), FILE_TIMEOUT),
            (SharedBackend::Remote(listens), Store::Remote(store)) => {
                let there = store.overrides();
                if !listens.swap(true, Ordering::Relaxed) {
                    let marks = Arc::clone(&self.marks);
                    spawn_local(Rc::clone(&there).listen(marks, Clock::System));
                }
                let timeout = there.timeout();
                (there.reader(), timeout)
            }
            (SharedBackend::Remote(_), Store::Memory(_)) => return None,
        };
        Some(Overrides::new(backend, Arc::clone(&self.marks), timeout))
    }
}

/// The overrides of one worker.
#[derive(Debug)]
pub struct Overrides(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    backend: Rc<dyn ReadOverrides>,
    marks: Arc<Marks>,
    timeout: Duration,
    cache: RefCell<Cache>,
    pending: RefCell<PendingLookups>,
    /// Notified when lookups have ended.
    updated: watch::Sender<()>,
    lookups: Cell<Lookups>,
}

/// Keys whose lookup is pending.
#[derive(Debug, Default)]
struct PendingLookups {
    /// All pending keys.
    keys: HashSet<Key>,
    /// The keys whose lookup has not begun.
    waiting: Vec<(Key, Timestamp)>,
    /// Whether a task is running that looks up the waiting keys.
    is_running: bool,
}

impl Overrides {
    fn new(backend: Rc<dyn ReadOverrides>, marks: Arc<Marks>, timeout: Duration) -> Self {
        Self(Rc::new(Inner {
            backend,
            marks,
            timeout,
            cache: RefCell::new(Cache::new(MAX_KNOWN)),
            pending: RefCell::default(),
            updated: watch::Sender::new(()),
            lookups: Cell::default(),
        }))
    }

    /// The limits that replace those of the policies for these keys, in their order. `now` is
    /// this node's time. The call does not wait beyond the deadline.
    pub async fn look_up(
        &self,
        keys: &[Key],
        now: Timestamp,
        deadline: Option<Instant>,
    ) -> SmallVec<[Option<Override>; 4]> {
        let inner = &self.0;
        let known: SmallVec<[bool; 4]> = keys.iter().map(|key| inner.knows(key, now)).collect();
        if known.contains(&false) {
            let mut updated = inner.updated.subscribe();
            if Inner::request(inner, keys, now) {
                let all = async {
                    while inner.is_any_pending(keys) && updated.changed().await.is_ok() {}
                };
                // If the time is over, the last known override holds.
                let left = deadline.map(|it| it.saturating_duration_since(monotonic()));
                let limit = left.map_or(inner.timeout, |left| left.min(inner.timeout));
                let _ = in_time(limit, all).await;
            }
        }
        let cache = inner.cache.borrow();
        let found: SmallVec<[Option<Override>; 4]> =
            keys.iter().map(|key| cache.last_known(key)).collect();
        inner.count(keys, &known, &found, now);
        found
    }

    /// How keys were found, since the worker has started.
    pub fn lookups(&self) -> Lookups {
        self.0.lookups.get()
    }
}

impl Inner {
    fn knows(&self, key: &Key, now: Timestamp) -> bool {
        self.cache.borrow().is_fresh(key, &self.marks, now)
    }

    /// Counts a look at these keys. `known`: those that were known before it.
    fn count(&self, keys: &[Key], known: &[bool], found: &[Option<Override>], now: Timestamp) {
        let mut lookups = self.lookups.get();
        for ((key, was_known), limit) in keys.iter().zip(known).zip(found) {
            *match (was_known, limit) {
                (true, Some(_)) => &mut lookups.hit,
                (true, None) => &mut lookups.negative,
                (false, _) if self.knows(key, now) => &mut lookups.asked,
                (false, _) => &mut lookups.late,
            } += 1;
        }
        self.lookups.set(lookups);
    }

    fn is_any_pending(&self, keys: &[Key]) -> bool {
        let pending = self.pending.borrow();
        keys.iter().any(|key| pending.keys.contains(key))
    }

    /// Requests lookups of the keys that are not known. Each key has at most one pending
    /// lookup, however many requests wait for it. Returns whether any lookup is pending.
    fn request(inner: &Rc<Self>, keys: &[Key], now: Timestamp) -> bool {
        let mut pending = inner.pending.borrow_mut();
        let mut any = false;
        for key in keys.iter().filter(|key| !inner.knows(key, now)) {
            if pending.keys.contains(key) {
                any = true;
            } else if pending.keys.len() < MAX_WANTED {
                any = true;
                pending.keys.insert(*key);
                pending.waiting.push((*key, now));
            }
        }
        if !pending.waiting.is_empty() && !pending.is_running {
            pending.is_running = true;
            spawn_local(Rc::clone(inner).run_lookups());
        }
        any
    }

    /// Runs the lookups, one batch after the other, until none is left. Keys that are
    /// requested during a lookup are in the next batch. It is a task of its own, so that a
    /// client that disconnects does not affect other requests.
    async fn run_lookups(self: Rc<Self>) {
        loop {
            let batch: Vec<(Key, Timestamp)> = {
                let mut pending = self.pending.borrow_mut();
                let size = pending.waiting.len().min(MAX_BATCH);
                pending.is_running = size > 0;
                pending.waiting.drain(..size).collect()
            };
            if batch.is_empty() {
                return;
            }
            let asked = |(key, at): &(Key, Timestamp)| ReadAt { mark: self.marks.of(key), at: *at };
            let asked: Vec<ReadAt> = batch.iter().map(asked).collect();
            let keys: Vec<Key> = batch.iter().map(|(key, _)| *key).collect();
            let settled = batch.iter().all(|(key, at)| self.marks.has_settled(key, *at));
            let said = self.backend.fetch(&keys, settled).await;
            let mut cache = self.cache.borrow_mut();
            for ((key, asked), said) in keys.iter().zip(asked).zip(said) {
                if let Some(said) = said {
                    cache.learn(*key, said, asked);
                }
            }
            drop(cache);
            let mut pending = self.pending.borrow_mut();
            keys.iter().for_each(|key| {
                pending.keys.remove(key);
            });
            drop(pending);
            self.updated.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests;

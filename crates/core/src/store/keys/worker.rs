//! The keys of one worker: known ones, and lookups of others.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::backend::{ReadKeys, ReadRecord};
use super::cache::{Cache, MAX_KNOWN, MAX_UNKNOWN, is_trusted};
use super::condition::KeysCondition;
use super::last_known::LastKnown;
use super::place::{part_of_id, part_of_sought, part_of_team};
use super::uses::{EVERY, NodeUses};
use crate::api_keys::{
    Found, KeyDirectory, KeyId, KeyLookup, KeyLookups, KeyRecord, Sought, TeamRecord,
};
use crate::in_time::in_time;
use crate::store::overrides::{Marks, PARTS, ReadAt};
use crate::time::{Clock, Span, Timestamp};

/// The most pending lookups of one worker. Further keys are answered as if the storage were away.
const MAX_WANTED: usize = 4096;
/// The most keys in one lookup.
const MAX_BATCH: usize = 256;
/// The most uses that wait to be stored. Further ones are stored at a later use of the key.
const MAX_USES: usize = 4096;
/// How long uses are collected before they are stored in one call.
const USES_INTERVAL: Duration = Duration::from_secs(1);

/// What the workers of a node share.
#[derive(Clone, Debug)]
pub(super) struct OfNode {
    pub(super) condition: Arc<KeysCondition>,
    pub(super) uses: NodeUses,
    pub(super) last_known: LastKnown,
    /// How long known keys are trusted, in microseconds.
    pub(super) stale_us: Arc<AtomicU64>,
}

impl OfNode {
    /// What workers share that begin now.
    pub(super) fn new() -> Self {
        Self {
            condition: Arc::new(KeysCondition::new(Arc::default(), Clock::System.now())),
            uses: NodeUses::default(),
            last_known: LastKnown::default(),
            stale_us: Arc::default(),
        }
    }
}

/// The keys of one worker. Its times are those of this node, and not of the wall clock.
#[derive(Clone, Debug)]
pub struct StoredKeys(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    backend: Rc<dyn ReadKeys>,
    timeout: Duration,
    condition: Arc<KeysCondition>,
    marks: Arc<Marks>,
    node_uses: NodeUses,
    last_known: LastKnown,
    stale_us: Arc<AtomicU64>,
    cache: RefCell<Cache>,
    pending: RefCell<PendingLookups>,
    /// Notified when lookups have ended.
    updated: watch::Sender<()>,
    /// Uses to be stored.
    uses: RefCell<Vec<(KeyId, Timestamp)>>,
    lookups: Cell<KeyLookups>,
}

/// Keys whose lookup is pending.
#[derive(Debug, Default)]
struct PendingLookups {
    /// All pending keys.
    keys: HashSet<Sought>,
    /// The keys whose lookup has not begun.
    waiting: Vec<(Sought, Timestamp)>,
    /// Whether a task is running that looks up the waiting keys.
    is_running: bool,
}

impl KeyDirectory for StoredKeys {
    fn find(&self, sought: Sought, now: Timestamp) -> KeyLookup<'_> {
        let inner = &self.0;
        if let Some(found) = inner.fresh(&sought, now) {
            inner.count(|lookups| match found {
                Found::Known(_) => &mut lookups.hit,
                Found::Unknown | Found::Away => &mut lookups.unknown,
            });
            return KeyLookup::Now(found);
        }
        KeyLookup::Later(Box::pin(Inner::look_up(inner, sought, now)))
    }

    fn knows(&self, sought: Sought, now: Timestamp) -> bool {
        self.0.fresh(&sought, now).is_some() || self.0.last_known.get(&sought).is_some()
    }

    fn used(&self, sought: Sought, id: KeyId, now: Timestamp) {
        let inner = &self.0;
        let is_due = inner.cache.borrow().notes_use(&sought, now, EVERY);
        if is_due && inner.node_uses.notes(id, now) {
            Inner::note_use(inner, id);
        }
    }

    fn lookups(&self) -> KeyLookups {
        self.0.lookups.get()
    }
}

impl StoredKeys {
    pub(super) fn new(node: &OfNode, backend: Rc<dyn ReadKeys>) -> Self {
        Self(Rc::new(Inner {
            timeout: backend.timeout(),
            backend,
            condition: Arc::clone(&node.condition),
            marks: Arc::clone(node.condition.marks()),
            node_uses: node.uses.clone(),
            last_known: node.last_known.clone(),
            stale_us: Arc::clone(&node.stale_us),
            cache: RefCell::new(Cache::new(MAX_KNOWN, MAX_UNKNOWN)),
            pending: RefCell::default(),
            updated: watch::Sender::new(()),
            uses: RefCell::default(),
            lookups: Cell::default(),
        }))
    }
}

impl Inner {
    fn fresh(&self, sought: &Sought, now: Timestamp) -> Option<Found> {
        self.cache.borrow().fresh(sought, &self.marks, now)
    }

    fn count(&self, which: impl FnOnce(&mut KeyLookups) -> &mut u64) {
        let mut lookups = self.lookups.get();
        *which(&mut lookups) += 1;
        self.lookups.set(lookups);
    }

    /// Waits for the storage, for at most the timeout.
    async fn look_up(inner: &Rc<Self>, sought: Sought, now: Timestamp) -> Found {
        let mut updated = inner.updated.subscribe();
        if Self::request(inner, sought, now) {
            let ended =
                async { while inner.is_pending(&sought) && updated.changed().await.is_ok() {} };
            // If the time is over, the last known key holds.
            let _ = in_time(inner.timeout, ended).await;
        }
        if let Some(found) = inner.fresh(&sought, now) {
            inner.count(|lookups| &mut lookups.asked);
            return found;
        }
        let stale = Span::from_micros(inner.stale_us.load(Ordering::Relaxed));
        let own = inner.cache.borrow().last_known(&sought);
        // Another worker may have read it later.
        let newest = own.into_iter().chain(inner.last_known.get(&sought));
        let newest = newest.max_by_key(|(_, read)| read.at);
        let trusted = newest
            .filter(|(entry, read)| is_trusted(entry, *read, &inner.marks, now, stale))
            .map(|(entry, _)| entry);
        inner.count(|lookups| match trusted {
            Some(_) => &mut lookups.stale,
            None => &mut lookups.away,
        });
        trusted.map_or(Found::Away, Found::Known)
    }

    fn is_pending(&self, sought: &Sought) -> bool {
        self.pending.borrow().keys.contains(sought)
    }

    /// Requests the lookup of a key. Each key has at most one pending lookup, however many requests
    /// wait for it. Returns whether it is pending.
    fn request(inner: &Rc<Self>, sought: Sought, now: Timestamp) -> bool {
        let mut pending = inner.pending.borrow_mut();
        if pending.keys.contains(&sought) {
            return true;
        }
        if pending.keys.len() >= MAX_WANTED {
            return false;
        }
        pending.keys.insert(sought);
        pending.waiting.push((sought, now));
        if !pending.is_running {
            pending.is_running = true;
            spawn_local(Rc::clone(inner).run_lookups());
        }
        true
    }

    /// Runs the lookups, one batch after the other, until none is left. It is a task of its own, so
    /// that a client that disconnects does not affect other requests.
    async fn run_lookups(self: Rc<Self>) {
        loop {
            let batch: Vec<(Sought, Timestamp)> = {
                let mut pending = self.pending.borrow_mut();
                let size = pending.waiting.len().min(MAX_BATCH);
                pending.is_running = size > 0;
                pending.waiting.drain(..size).collect()
            };
            if batch.is_empty() {
                return;
            }
            self.read(&batch).await;
            let mut pending = self.pending.borrow_mut();
            for (sought, _) in &batch {
                pending.keys.remove(sought);
            }
            drop(pending);
            self.updated.send_replace(());
        }
    }

    /// Reads keys and their teams.
    async fn read(&self, batch: &[(Sought, Timestamp)]) {
        // A change after this makes what is read invalid.
        let marks: [u64; PARTS] = std::array::from_fn(|part| self.marks.of_part(part));
        let sought: Vec<Sought> = batch.iter().map(|(sought, _)| *sought).collect();
        let records = self.backend.keys(&sought).await;
        let mut keys: Vec<(Sought, Timestamp, KeyRecord)> = Vec::new();
        for (&(sought, at), record) in batch.iter().zip(&records) {
            match record {
                ReadRecord::Absent => {
                    self.condition.note_sign(part_of_sought(&sought), true);
                    let mark = marks[part_of_sought(&sought)];
                    self.cache.borrow_mut().learn_unknown(sought, ReadAt { mark, at });
                    self.last_known.forget(&sought);
                }
                // A record that cannot be read is not known to be absent.
                ReadRecord::Record(_) => {
                    let key = record.record().and_then(|it| KeyRecord::from_stored(it).ok());
                    keys.extend(key.map(|key| (sought, at, key)));
                }
                ReadRecord::NoSign => {
                    self.condition.note_sign(part_of_sought(&sought), false);
                }
                ReadRecord::Away => {}
            }
        }
        let oldest = batch.iter().map(|(_, at)| *at).min().unwrap_or_default();
        self.read_teams(&keys, &marks, oldest).await;
        let mut cache = self.cache.borrow_mut();
        for (sought, at, key) in keys {
            let read = ReadAt { mark: marks[part_of_id(key.id)], at };
            let team = key.team.as_deref().map(|name| cache.fresh_team(name, &self.marks, at));
            let entry = match team {
                None => cache.learn(sought, key, read, None),
                Some(Some(team)) => cache.learn(sought, key, read, Some(team)),
                // A key without the limits of its team would be another key.
                Some(None) => continue,
            };
            self.last_known.learn(sought, entry, read);
        }
    }

    /// Reads the teams of these keys that are not known.
    async fn read_teams(
        &self,
        keys: &[(Sought, Timestamp, KeyRecord)],
        marks: &[u64; PARTS],
        at: Timestamp,
    ) {
        let mut names: Vec<Arc<str>> = Vec::new();
        for (_, now, key) in keys {
            let Some(name) = &key.team else { continue };
            let is_known = self.cache.borrow().fresh_team(name, &self.marks, *now).is_some();
            if !is_known && !names.contains(name) {
                names.push(Arc::clone(name));
            }
        }
        if names.is_empty() {
            return;
        }
        let records = self.backend.teams(&names).await;
        let mut cache = self.cache.borrow_mut();
        for (name, record) in names.iter().zip(&records) {
            let team = match record {
                ReadRecord::Absent => None,
                ReadRecord::NoSign | ReadRecord::Away => continue,
                ReadRecord::Record(_) => {
                    let read = record.record().and_then(|it| TeamRecord::from_stored(it).ok());
                    let Some(team) = read else { continue };
                    Some(Arc::new(team))
                }
            };
            let read = ReadAt { mark: marks[part_of_team(name)], at };
            cache.learn_team(name, team, read);
        }
    }

    /// Has a use stored soon.
    fn note_use(inner: &Rc<Self>, id: KeyId) {
        let mut uses = inner.uses.borrow_mut();
        if uses.len() >= MAX_USES {
            return;
        }
        uses.push((id, Clock::System.wall()));
        if uses.len() == 1 {
            let inner = Rc::clone(inner);
            spawn_local(async move {
                sleep(USES_INTERVAL).await;
                let uses = inner.uses.take();
                inner.backend.store_uses(&uses).await;
            });
        }
    }
}

#[cfg(test)]
mod tests;

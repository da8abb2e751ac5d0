//! Keeps the changes of policies and access lists that operators make at run time: in Redis for all nodes, or in
//! this process, and applies them to the snapshot.
//!
//! While Redis is away, what is known stays in force, and no change is made. If Redis was
//! emptied, the first node that notices writes what it knows.

mod lists;
mod perform;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tollgate_core::time::{Clock, Span, Timestamp};
use tollgate_redis::{ControlStore, Expected, NodeState, ReadEntries, StoreError};
use tracing::{info, warn};

use crate::patches::{ConfigIdentity, Definitions, Entry, Resolved, list_of};
use crate::snapshot::Snapshot;

/// The time between two looks at the store.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same, if a change ends.
const SHORTEST: Duration = Duration::from_millis(20);
/// From the end of a change until it is removed from the store. The clocks of other nodes may be behind,
/// and a change ends there by their own.
const KEPT_AFTER_END: Span = Span::from_secs(60);
/// How long the start waits for the store.
const START_PATIENCE: Duration = Duration::from_millis(500);
/// How long a change waits until all workers of this node have it.
const APPLIED_PATIENCE: Duration = Duration::from_secs(3);

/// The changes that this node knows, and the way to the others.
pub struct PatchKeeper {
    /// None: the changes are those of this process.
    control: Option<Rc<ControlStore>>,
    clock: Clock,
    known: RefCell<ReadEntries>,
    base: RefCell<Base>,
    in_force: RefCell<Arc<Resolved>>,
    /// Counts up when other changes are to be in force.
    wanted: watch::Sender<u64>,
    /// The number of `wanted` that the workers have.
    applied: watch::Sender<u64>,
}

/// What the file says.
#[derive(Default)]
struct Base {
    definitions: Arc<Definitions>,
    /// The names of the policies of each route.
    routes: Vec<Vec<Arc<str>>>,
}

impl PatchKeeper {
    /// Keeps changes beside the counters of this node in Redis. Without Redis, this node alone has
    /// changes.
    pub fn new(node: Option<&Arc<NodeState>>, clock: Clock) -> Rc<Self> {
        Rc::new(Self {
            control: node.map(|node| Rc::new(ControlStore::connect(node))),
            clock,
            known: RefCell::new(ReadEntries { mark: None, entries: Vec::new() }),
            base: RefCell::default(),
            in_force: RefCell::default(),
            wanted: watch::Sender::new(0),
            applied: watch::Sender::new(0),
        })
    }

    /// The way to what all nodes share.
    pub fn control(&self) -> Option<&Rc<ControlStore>> {
        self.control.as_ref()
    }

    /// The changes that are in force.
    pub fn in_force(&self) -> Arc<Resolved> {
        Arc::clone(&self.in_force.borrow())
    }

    /// Identifies the file in use.
    pub fn identity(&self) -> ConfigIdentity {
        self.base.borrow().definitions.identity.clone()
    }

    /// Reads the changes for the first time, if the store answers soon.
    pub async fn begin(&self) {
        let Some(control) = &self.control else { return };
        let read = async {
            control.settled().await;
            // The links have logged an error, and it is tried again.
            let _ = self.refresh().await;
        };
        let _ = timeout(START_PATIENCE, read).await;
    }

    /// Looks for changes, and for changes that end, until the task is dropped.
    pub async fn keep(self: Rc<Self>) {
        loop {
            sleep(self.pause()).await;
            let is_changed = self.refresh().await.unwrap_or(false);
            let now = self.clock.wall();
            if is_changed || self.in_force.borrow().next_end.is_some_and(|end| end <= now) {
                let resolved = self.resolve(now);
                if !resolved.is_same(&self.in_force.borrow()) {
                    self.want();
                }
            }
            self.remove_ended(now).await;
        }
    }

    /// Until the next look.
    fn pause(&self) -> Duration {
        let now = self.clock.wall();
        let ends = self.in_force.borrow().next_end.map(|end| end.since(now).as_micros());
        ends.map_or(INTERVAL, |us| Duration::from_micros(us).clamp(SHORTEST, INTERVAL))
    }

    /// Reads the changes from the store if there are others. True if there were.
    async fn refresh(&self) -> Result<bool, StoreError> {
        let Some(control) = &self.control else { return Ok(false) };
        let mark = self.known.borrow().mark.clone();
        let Some(read) = control.entries(mark.as_deref()).await? else { return Ok(false) };
        if read.mark.is_none() && mark.is_some() {
            let known = self.known.borrow().clone();
            control.restore_entries(&known).await?;
            info!("Redis was emptied: the changes of policies are written again");
            return Ok(false);
        }
        let is_changed = read != *self.known.borrow();
        self.known.replace(read);
        Ok(is_changed)
    }

    /// Removes one entry whose changes have all ended a while ago.
    async fn remove_ended(&self, now: Timestamp) {
        let then = now.minus(KEPT_AFTER_END);
        let ended = |bytes: &[u8]| Entry::decode(bytes).is_ok_and(|it| it.at(then).is_none());
        let Some(control) = &self.control else {
            return self.known.borrow_mut().entries.retain(|(_, _, bytes)| !ended(bytes));
        };
        let entries = self.known.borrow().entries.clone();
        if let Some((name, version, _)) = entries.into_iter().find(|(_, _, it)| ended(it)) {
            // Another node may be faster.
            let _ = control.write_entry(&name, &Expected::Version(version), None).await;
        }
    }

    fn resolve(&self, now: Timestamp) -> Resolved {
        let Base { definitions, routes } = &*self.base.borrow();
        Resolved::new(&self.known.borrow().entries, definitions, routes, now)
    }

    /// The configuration of the file `base` with the changes that are in force now.
    pub fn patched(&self, base: &Snapshot) -> Snapshot {
        let is_new = !Arc::ptr_eq(&self.base.borrow().definitions, &base.definitions);
        if is_new {
            let definitions = Arc::clone(&base.definitions);
            if self.control.is_none() {
                self.end_with_definitions(&definitions);
            }
            self.base.replace(Base { definitions, routes: base.policy_names() });
        }
        let resolved = Arc::new(self.resolve(self.clock.wall()));
        report(&self.in_force.borrow(), &resolved);
        self.in_force.replace(Arc::clone(&resolved));
        base.patched(resolved)
    }

    /// Forgets the changes of this process whose definitions have changed in the file.
    fn end_with_definitions(&self, definitions: &Definitions) {
        self.known.borrow_mut().entries.retain(|(name, _, bytes)| {
            let digest = match list_of(name) {
                Some(list) => definitions.list(list).map(|it| &it.digest),
                None => definitions.get(name).map(|it| &it.digest),
            };
            let stays = Entry::decode(bytes).is_ok_and(|it| digest == Some(&it.digest));
            if !stays {
                info!(policy = %name, "its change at run time ends: the file defines it otherwise");
            }
            stays
        });
    }

    /// Other changes are to be in force.
    fn want(&self) -> u64 {
        self.wanted.send_modify(|number| *number += 1);
        *self.wanted.borrow()
    }

    /// Returns when other changes are to be in force, with their number.
    pub async fn changed(&self) -> u64 {
        let mut wanted = self.wanted.subscribe();
        let applied = *self.applied.borrow();
        match wanted.wait_for(|number| *number > applied).await {
            Ok(number) => *number,
            // It fails only if the sender is gone, which is borrowed here.
            Err(_) => std::future::pending().await,
        }
    }

    /// All workers have the changes of this number.
    pub fn applied(&self, number: u64) {
        self.applied.send_replace(number);
    }
}

/// Logs what is in force now and was not before, and the reverse.
fn report(before: &Resolved, after: &Resolved) {
    for (policy, changed) in &after.changed {
        let old = before.changed.get(policy);
        if let Some((patch, _)) = &changed.patch
            && old.and_then(|it| it.patch.as_ref()).is_none_or(|(it, _)| it != patch)
        {
            info!(%policy, actor = %patch.actor, change = %patch.shown(), "a patch is in force");
        }
        if let Some((change, _)) = &changed.candidate
            && old.and_then(|it| it.candidate.as_ref()).is_none_or(|(it, _)| it != change)
        {
            info!(%policy, actor = %change.actor, change = %change.shown(), "a candidate is judged");
        }
    }
    for (policy, old) in &before.changed {
        let new = after.changed.get(policy);
        if old.patch.is_some() && new.is_none_or(|it| it.patch.is_none()) {
            info!(%policy, "its patch has ended");
        }
        if old.candidate.is_some() && new.is_none_or(|it| it.candidate.is_none()) {
            info!(%policy, "its candidate has ended");
        }
    }
    report_lists(before, after);
    for ignored in after.ignored.iter().filter(|it| !before.ignored.contains(it)) {
        warn!(policy = %ignored.policy, because = %ignored.because, "a change is ignored");
    }
}

/// Logs which lists have another mode now than before.
fn report_lists(before: &Resolved, after: &Resolved) {
    for (list, (change, mode)) in &after.lists {
        if before.lists.get(list).is_none_or(|(old, _)| old != change) {
            let mode = mode.as_str();
            let actor = &change.actor;
            let change = change.shown();
            info!(%list, mode, %actor, %change, "an access list has another mode");
        }
    }
    for list in before.lists.keys().filter(|list| !after.lists.contains_key(*list)) {
        info!(%list, "an access list has the mode of the file again");
    }
}

#[cfg(test)]
mod tests {
    use tollgate_redis::EntryVersion;

    use super::*;
    use crate::patches::Change;

    /// Regression: the fastest clock ended a patch on all nodes.
    #[tokio::test]
    async fn an_ended_change_is_removed_when_it_has_ended_on_nodes_with_slower_clocks_too() {
        let end = Timestamp::from_micros(1_000_000_000_000_000);
        let keeper = PatchKeeper::new(None, Clock::manual(end));
        let change = Change { ends_us: Some(end.as_micros()), ..Change::default() };
        let entry = Entry { patch: Some(change), ..Entry::default() };
        let stored = ("each".to_owned(), EntryVersion::random(), entry.encode());
        keeper.known.borrow_mut().entries.push(stored);
        for (after_s, is_there) in [(0, true), (59, true), (60, false)] {
            keeper.remove_ended(end.plus(Span::from_secs(after_s))).await;
            assert_eq!(!keeper.known.borrow().entries.is_empty(), is_there, "{after_s}");
        }
    }
}

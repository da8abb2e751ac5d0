//! What one worker keeps.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_core::digest::Principal;
use tollgate_core::time::Timestamp;

use super::refusal::Refused;
use super::ring::Ring;
use super::rings::{RefusalRings, SharedRing};

/// One worker's refusals.
#[derive(Debug)]
pub struct WorkerRefusals {
    rings: Arc<RefusalRings>,
    /// Its rings, by the names of the policies. There are few of them.
    pub own: RefCell<BTreeMap<Arc<str>, SharedRing>>,
}

impl WorkerRefusals {
    /// A worker whose refusals are read from `rings`.
    pub fn new(rings: &Arc<RefusalRings>) -> Self {
        Self { rings: Arc::clone(rings), own: RefCell::default() }
    }

    /// Whether whole keys are kept.
    pub fn keeps_whole(&self) -> bool {
        self.rings.keeps_whole()
    }

    /// Whether a refusal of this client at this time is kept. If not, it is counted as lost.
    pub fn admits(&self, policy: &str, client: Principal, time: Timestamp) -> bool {
        let own = self.own.borrow();
        let Some(ring) = own.get(policy) else { return true };
        let mut ring = ring.lock();
        let is_kept = ring.admits(client, time);
        if !is_kept {
            self.rings.number();
        }
        is_kept
    }

    /// Keeps a refusal. It should be [admitted](Self::admits).
    pub fn keep(&self, refused: &Refused<'_>) {
        let mut own = self.own.borrow_mut();
        let ring = match own.get(refused.policy) {
            Some(ring) => Arc::clone(ring),
            None => self.begin(refused.policy, &mut own),
        };
        let mut open = ring.lock();
        if open.is_closed() {
            drop(open);
            // The policy was removed, and is there again.
            let ring = self.begin(refused.policy, &mut own);
            self.keep_in(&mut ring.lock(), refused);
        } else {
            self.keep_in(&mut open, refused);
        }
    }

    /// The setting may have changed since the whole key was made. Whoever changes it locks the
    /// ring after that.
    fn keep_in(&self, ring: &mut Ring, refused: &Refused<'_>) {
        let whole = refused.whole.filter(|_| self.keeps_whole());
        ring.keep(&Refused { whole, ..*refused }, self.rings.number());
    }

    fn begin(&self, policy: &Arc<str>, own: &mut BTreeMap<Arc<str>, SharedRing>) -> SharedRing {
        let ring = self.rings.add(policy);
        own.retain(|_, ring| !ring.lock().is_closed());
        own.insert(Arc::clone(policy), Arc::clone(&ring));
        ring
    }
}

impl Drop for WorkerRefusals {
    fn drop(&mut self) {
        let own = self.own.take();
        self.rings.remove(|ring| own.values().any(|it| Arc::ptr_eq(it, ring)));
    }
}

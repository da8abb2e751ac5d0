//! The refusals of all workers, and how they are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate_core::api_keys::KeyId;
use tollgate_core::digest::{Principal, PrincipalId};
use tollgate_core::time::Timestamp;

use super::refusal::Refusal;
use super::ring::Ring;
use crate::telemetry::WholeKey;

/// The ring of one policy and worker. Its worker writes, and the control thread reads.
pub type SharedRing = Arc<Mutex<Ring>>;

/// The refusals of all workers.
#[derive(Debug, Default)]
pub struct RefusalRings {
    /// The sequence of the next refusal.
    next: AtomicU64,
    /// The rings of all policies and workers, with the names of the policies.
    rings: Mutex<Vec<(Arc<str>, SharedRing)>>,
    /// Whether whole keys are kept.
    keeps_whole: AtomicBool,
}

impl RefusalRings {
    /// The sequence of the next refusal.
    pub fn next_sequence(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Up to `limit` refusals with this sequence and later ones, the oldest first; the
    /// sequence with which to go on; and how many refusals between were lost, because their
    /// rings have kept later ones, or earlier ones of a flood.
    pub fn since(&self, sequence: u64, limit: usize) -> (Vec<Refusal>, u64, u64) {
        // A refusal gets its sequence while its ring is locked, so all before this one are seen.
        let end = self.next_sequence();
        let mut found = self.select(None, |at| (sequence..end).contains(&at));
        found.truncate(limit);
        let is_all = found.len() < limit;
        let next = match found.last() {
            Some(last) if !is_all => last.sequence + 1,
            _ => end.max(sequence),
        };
        let count = u64::try_from(found.len()).unwrap_or(u64::MAX);
        let lost = next.saturating_sub(sequence).saturating_sub(count);
        (found.into_iter().map(Arc::unwrap_or_clone).collect(), next, lost)
    }

    /// Up to `limit` refusals before this sequence, of one policy or of all, the last one
    /// first; and whether there are more.
    pub fn newest(
        &self,
        policy: Option<&str>,
        before: Option<u64>,
        limit: usize,
    ) -> (Vec<Refusal>, bool) {
        let found = self.select(policy, |at| before.is_none_or(|before| at < before));
        let has_more = found.len() > limit;
        let newest = found.into_iter().rev().take(limit);
        (newest.map(Arc::unwrap_or_clone).collect(), has_more)
    }

    /// The refusals of requests with this id, the last one first.
    pub fn of_request(&self, id: &str) -> Vec<Refusal> {
        let found = self.select(None, |_| true).into_iter().rev();
        found.filter(|it| it.request_id == id).map(Arc::unwrap_or_clone).collect()
    }

    /// Whether whole keys are kept.
    pub fn keeps_whole(&self) -> bool {
        self.keeps_whole.load(Ordering::Relaxed)
    }

    /// Has whole keys kept or not from now on. If not, those that are known are forgotten.
    pub fn keep_whole(&self, is_kept: bool) {
        self.keeps_whole.store(is_kept, Ordering::Relaxed);
        if !is_kept {
            // A worker may begin a ring now. It looks at the setting after that.
            let rings: Vec<SharedRing> =
                self.rings.lock().iter().map(|(_, ring)| Arc::clone(ring)).collect();
            rings.iter().for_each(|ring| ring.lock().forget_whole());
        }
    }

    /// The whole key of this client of a policy, if one of its refusals keeps it.
    pub fn whole_key(&self, policy: &str, client: Principal) -> Option<WholeKey> {
        let found = self.select(Some(policy), |_| true).into_iter().rev();
        found.filter(|it| it.client == client).find_map(|it| it.whole.clone())
    }

    /// The API key of the last refusal of this client of a policy. None: no refusal of it is kept.
    pub fn api_key(&self, policy: &str, client: Principal) -> Option<Option<KeyId>> {
        let mut found = self.select(Some(policy), |_| true).into_iter().rev();
        found.find(|it| it.client == client).map(|it| it.api_key)
    }

    /// The client of a policy with this id, if one of its refusals is kept.
    pub fn principal(&self, policy: &str, id: PrincipalId) -> Option<Principal> {
        let found = self.select(Some(policy), |_| true);
        found.iter().find(|it| it.key_id() == id).map(|it| it.client)
    }

    /// The time of the oldest refusal that is kept.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.select(None, |_| true).into_iter().map(|it| it.time).min()
    }

    /// Forgets the refusals of all policies for which `is_kept` is false.
    pub fn retain(&self, is_kept: impl Fn(&str) -> bool) {
        self.rings.lock().retain(|(policy, ring)| {
            let is_kept = is_kept(policy);
            if !is_kept {
                ring.lock().close();
            }
            is_kept
        });
    }

    /// The refusals with these sequences in their order. Each ring is locked on its own, and
    /// only for a copy of references.
    fn select(&self, policy: Option<&str>, is_meant: impl Fn(u64) -> bool) -> Vec<Arc<Refusal>> {
        let rings: Vec<SharedRing> = {
            let rings = self.rings.lock();
            let meant = rings.iter().filter(|(name, _)| policy.is_none_or(|it| *it == **name));
            meant.map(|(_, ring)| Arc::clone(ring)).collect()
        };
        let mut found = Vec::new();
        for ring in rings {
            ring.lock().select(&is_meant, &mut found);
        }
        found.sort_unstable_by_key(|refusal| refusal.sequence);
        found
    }
    /// The sequence of a refusal that is added now. Its ring must be locked.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::AcqRel)
    }

    /// Adds a ring.
    pub fn add(&self, policy: &Arc<str>) -> SharedRing {
        let ring = SharedRing::default();
        self.rings.lock().push((Arc::clone(policy), Arc::clone(&ring)));
        ring
    }

    /// Removes the rings for which `is_meant` is true.
    pub fn remove(&self, is_meant: impl Fn(&SharedRing) -> bool) {
        self.rings.lock().retain(|(_, ring)| !is_meant(ring));
    }
}

//! The last refusals, for operators who ask why a request was refused.
//!
//! Each worker keeps, for each policy, the last 256 requests that the policy refused, and at
//! most 8 of one key. Memory is bounded by the number of policies and workers. An admitted
//! request costs nothing. A refusal takes the lock of its ring, which no other worker takes,
//! and which a reader holds for a copy of references.

mod ring;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate_limiter::algorithm::Retry;
use tollgate_limiter::digest::{Principal, PrincipalId};
use tollgate_limiter::time::Timestamp;

use self::ring::Ring;

/// The most bytes of a path that are kept.
const MAX_PATH_BYTES: usize = 256;

/// What a refusal was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Its number among all refusals of this process, from 0.
    pub(crate) sequence: u64,
    /// When it was, by the wall clock.
    pub(crate) time: Timestamp,
    /// The id of the request. Clients may choose it, so several requests may have it.
    pub(crate) request_id: Box<str>,
    /// The policy whose wait the client was told.
    pub(crate) policy: Arc<str>,
    /// The client that is counted.
    client: Principal,
    /// The masked text of its key.
    pub(crate) text: Box<str>,
    /// The limit in units.
    pub(crate) limit: u64,
    /// The units that counted against it.
    pub(crate) used: u64,
    /// When the request would have fit.
    pub(crate) retry: Retry,
    /// The route.
    pub(crate) route: Box<str>,
    /// Where the counter was.
    pub(crate) source: &'static str,
    /// The method.
    pub(crate) method: Box<str>,
    /// The path, without the query and without the values of path parameters.
    pub(crate) path: Box<str>,
}

impl Refusal {
    /// The id of the client's key.
    pub(crate) fn key_id(&self) -> PrincipalId {
        self.client.into()
    }
}

/// A refusal, as a worker describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused<'a> {
    /// See [`Refusal`].
    pub(crate) time: Timestamp,
    pub(crate) request_id: &'a str,
    pub(crate) policy: &'a Arc<str>,
    pub(crate) client: Principal,
    pub(crate) text: &'a str,
    pub(crate) limit: u64,
    pub(crate) used: u64,
    pub(crate) retry: Retry,
    pub(crate) route: &'a str,
    pub(crate) source: &'static str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
}

/// The refusals of all workers.
#[derive(Debug, Default)]
pub(crate) struct RefusalRings {
    /// The sequence of the next refusal.
    next: AtomicU64,
    rings: Mutex<Vec<(Arc<str>, Arc<Mutex<Ring>>)>>,
}

impl RefusalRings {
    /// The sequence of the next refusal.
    #[allow(dead_code, reason = "the stream of events begins with it")]
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Up to `limit` refusals with this sequence and later ones, the oldest first; the
    /// sequence with which to go on; and how many refusals between were lost, because their
    /// rings have kept later ones.
    #[allow(dead_code, reason = "the stream of events reads it")]
    pub(crate) fn since(&self, sequence: u64, limit: usize) -> (Vec<Refusal>, u64, u64) {
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
    pub(crate) fn newest(
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
    pub(crate) fn of_request(&self, id: &str) -> Vec<Refusal> {
        let found = self.select(None, |_| true).into_iter().rev();
        found.filter(|it| *it.request_id == *id).map(Arc::unwrap_or_clone).collect()
    }

    /// The time of the oldest refusal that is kept.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.select(None, |_| true).into_iter().map(|it| it.time).min()
    }

    /// Forgets the refusals of all policies for which `is_kept` is false.
    pub(crate) fn retain(&self, is_kept: impl Fn(&str) -> bool) {
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
        let rings: Vec<Arc<Mutex<Ring>>> = {
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
}

/// One worker's refusals.
#[derive(Debug)]
pub(crate) struct WorkerRefusals {
    rings: Arc<RefusalRings>,
    own: RefCell<HashMap<Arc<str>, Arc<Mutex<Ring>>>>,
}

impl WorkerRefusals {
    /// A worker whose refusals are read from `rings`.
    pub(crate) fn new(rings: &Arc<RefusalRings>) -> Self {
        Self { rings: Arc::clone(rings), own: RefCell::default() }
    }

    /// Keeps a refusal.
    pub(crate) fn keep(&self, refused: &Refused<'_>) {
        let mut own = self.own.borrow_mut();
        let ring = match own.get(refused.policy) {
            Some(ring) => Arc::clone(ring),
            None => self.begin(refused.policy, &mut own),
        };
        let mut open = ring.lock();
        if open.is_closed() {
            drop(open);
            // The policy was removed, and is there again.
            self.begin(refused.policy, &mut own).lock().keep(self.refusal(refused));
        } else {
            open.keep(self.refusal(refused));
        }
    }

    fn begin(
        &self,
        policy: &Arc<str>,
        own: &mut HashMap<Arc<str>, Arc<Mutex<Ring>>>,
    ) -> Arc<Mutex<Ring>> {
        let ring = Arc::<Mutex<Ring>>::default();
        own.retain(|_, ring| !ring.lock().is_closed());
        own.insert(Arc::clone(policy), Arc::clone(&ring));
        self.rings.rings.lock().push((Arc::clone(policy), Arc::clone(&ring)));
        ring
    }

    /// The refusal with the next sequence. Its ring must be locked.
    fn refusal(&self, refused: &Refused<'_>) -> Refusal {
        let &Refused { time, client, limit, used, retry, source, .. } = refused;
        Refusal {
            sequence: self.rings.next.fetch_add(1, Ordering::AcqRel),
            time,
            request_id: refused.request_id.into(),
            policy: Arc::clone(refused.policy),
            client,
            text: refused.text.into(),
            limit,
            used,
            retry,
            route: refused.route.into(),
            source,
            method: refused.method.into(),
            path: cut(refused.path).into(),
        }
    }
}

impl Drop for WorkerRefusals {
    fn drop(&mut self) {
        let own = self.own.take();
        let is_own = |ring: &Arc<Mutex<Ring>>| own.values().any(|it| Arc::ptr_eq(it, ring));
        self.rings.rings.lock().retain(|(_, ring)| !is_own(ring));
    }
}

/// The beginning of a path.
fn cut(path: &str) -> &str {
    let end = path.floor_char_boundary(MAX_PATH_BYTES);
    &path[..end]
}

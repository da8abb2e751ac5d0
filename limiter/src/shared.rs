//! Decisions from any thread, for services on a multi-threaded runtime.
//!
//! With counters in memory, the calling thread makes the decision without waiting. A store
//! that needs a connection runs on separate threads, its lanes. Each lane has a
//! single-threaded runtime, and requests with the same key use the same lane. So the
//! store's code is the same as in a gateway whose workers share no data.
//!
//! The requests that wait for a lane are bounded. For requests beyond the bound the store
//! counts as unavailable: policies with `on_failure` [`Allow`](tollgate_core::consistency::OnFailure::Allow) admit
//! them, all others refuse them.

mod check;
#[cfg(all(feature = "keys", feature = "redis"))]
mod key_job;
mod lane;
#[cfg(test)]
mod tests;

#[cfg(all(feature = "keys", feature = "redis"))]
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
#[cfg(all(feature = "keys", feature = "redis"))]
use tokio::sync::oneshot;
#[cfg(all(feature = "keys", feature = "redis"))]
use tollgate_core::api_keys::{Found, KeyId, Sought};
use tollgate_core::decision::{Claims, Decision, Ending, Headroom, Judge, Lease, Outcome};
use tollgate_core::policy::Policy;
use tollgate_core::store::{MemoryStore, Outage, SharedStore};
use tollgate_core::time::{Clock, Timestamp};

pub(crate) use self::check::Check;
use self::lane::Lane;
pub(crate) use self::lane::LaneStore;

/// The period of the maintenance of counters in memory.
const UPKEEP_US: u64 = 100_000;

/// Decides for all threads of a process.
#[derive(Debug)]
pub(crate) struct SharedLimiter {
    clock: Clock,
    storage: Storage,
    /// The store of all lanes.
    store: Option<SharedStore>,
}

#[derive(Debug)]
enum Storage {
    Memory(Memory),
    Lanes(Box<[Lane]>),
}

/// Counters in memory, which the checks themselves maintain: no thread does it for them.
#[derive(Debug)]
struct Memory {
    store: MemoryStore,
    /// The time of the last maintenance, in microseconds.
    maintained_us: AtomicU64,
}

impl Memory {
    /// The counters, after their maintenance if it is due.
    fn at(&self, now: Timestamp) -> &MemoryStore {
        let now_us = now.as_micros();
        let last_us = self.maintained_us.load(Ordering::Relaxed);
        if now_us.abs_diff(last_us) > UPKEEP_US {
            self.maintained_us.store(now_us, Ordering::Relaxed);
            self.store.housekeep(now);
        }
        &self.store
    }
}

impl SharedLimiter {
    /// Decides by counters in memory, on the calling thread.
    pub(crate) const fn in_memory(store: MemoryStore, clock: Clock) -> Self {
        let memory = Memory { store, maintained_us: AtomicU64::new(0) };
        Self { clock, storage: Storage::Memory(memory), store: None }
    }

    /// Decides by `store` on `lanes` threads. Each has at most `bound` decisions in
    /// progress.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn on_lanes(
        of_lane: LaneStore,
        [lanes, bound]: [NonZeroUsize; 2],
    ) -> io::Result<Self> {
        let store = of_lane.store.clone();
        let clock = of_lane.clock.clone();
        let lanes: io::Result<Box<[Lane]>> =
            (0..lanes.get()).map(|n| Lane::start(n, of_lane.clone(), bound)).collect();
        Ok(Self { clock, storage: Storage::Lanes(lanes?), store: Some(store) })
    }

    /// The servers of the store that are not used.
    pub(crate) fn outages(&self) -> Vec<Outage> {
        self.store.as_ref().map_or_else(Vec::new, SharedStore::outages)
    }

    /// The clock of decisions.
    pub(crate) const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Judges the claims of one request by `limiter`. Its lease must be [ended](Self::end).
    /// If the answer is dropped before it is received, nothing stays in flight.
    pub(crate) fn check<L: AsRef<Self>>(limiter: L, claims: Claims<Arc<Policy>>) -> Check<L> {
        let own = limiter.as_ref();
        // Whether an upstream has room is not known outside a gateway.
        let now = own.clock.now();
        let headroom = Headroom::default();
        match &own.storage {
            Storage::Memory(memory) => {
                let decision = Judge::judge_now(memory.at(now), claims, headroom, now);
                Check::ready(limiter, decision)
            }
            Storage::Lanes(lanes) => {
                let lane = lane_of(claims.spread(), lanes);
                match lane.judge(claims.clone(), headroom, now) {
                    Some(coming) => Check::coming(limiter, coming, claims, now),
                    None => Check::ready(limiter, claims.unjudged(now)),
                }
            }
        }
    }

    /// The answer to a request that no policy has judged. Nothing is counted.
    pub(crate) fn known<L: AsRef<Self>>(limiter: L, outcome: Outcome<Arc<Policy>>) -> Check<L> {
        Check::ready(limiter, Decision::uncounted(outcome))
    }

    /// Settles an admitted request after it has ended, on the lane that has judged it: only
    /// that lane knows the request's units in flight.
    pub(crate) fn end(&self, lease: Lease, ending: &Ending<'_>) {
        if lease.is_empty() {
            return;
        }
        let now = self.clock.now();
        match &self.storage {
            Storage::Memory(memory) => Judge::in_memory(&memory.store).end(&lease, ending, now),
            Storage::Lanes(lanes) => lane_of(lease.spread(), lanes).end(lease, ending, now),
        }
    }

    /// The same for a request that has cost `units` under each policy of the lease.
    pub(crate) fn settle(&self, lease: Lease, units: u64) {
        if lease.is_empty() {
            return;
        }
        let now = self.clock.now();
        match &self.storage {
            Storage::Memory(memory) => {
                Judge::in_memory(&memory.store).end_known(&lease, &lease.all_cost(units), now);
            }
            Storage::Lanes(lanes) => lane_of(lease.spread(), lanes).settle(lease, units, now),
        }
    }

    /// Gives back what was charged for a request that is not processed.
    pub(crate) fn give_back(&self, lease: Lease) {
        if lease.is_empty() {
            return;
        }
        let now = self.clock.now();
        match &self.storage {
            Storage::Memory(memory) => Judge::in_memory(&memory.store).give_back(&lease, now),
            Storage::Lanes(lanes) => lane_of(lease.spread(), lanes).give_back(lease, now),
        }
    }

    /// Looks up an API key in the store. None if too many requests wait, or there is no lane.
    #[cfg(all(feature = "keys", feature = "redis"))]
    pub(crate) fn find_key(&self, sought: Sought) -> Option<oneshot::Receiver<Found>> {
        self.lane_of_key(&sought)?.find_key(sought, self.clock.now())
    }

    /// A request was made with the key `id`, which was found by `sought`.
    #[cfg(all(feature = "keys", feature = "redis"))]
    pub(crate) fn note_key_use(&self, sought: Sought, id: KeyId) {
        if let Some(lane) = self.lane_of_key(&sought) {
            lane.note_key_use(sought, id, self.clock.now());
        }
    }

    /// The same key is looked up on the same lane, which remembers it.
    #[cfg(all(feature = "keys", feature = "redis"))]
    fn lane_of_key(&self, sought: &Sought) -> Option<&Lane> {
        let Storage::Lanes(lanes) = &self.storage else { return None };
        let mut hasher = DefaultHasher::new();
        sought.hash(&mut hasher);
        Some(lane_of(hasher.finish().into(), lanes))
    }

    /// Returns when the store can decide, or when the caller must not wait any longer.
    pub(crate) async fn ready(&self) {
        if let Storage::Lanes(lanes) = &self.storage {
            join_all(lanes.iter().map(Lane::ready)).await;
        }
    }

    /// Sends the last counts to the store and ends the lanes. For later checks the store
    /// counts as unavailable.
    pub(crate) async fn close(&self) {
        if let Storage::Lanes(lanes) = &self.storage {
            join_all(lanes.iter().map(Lane::close)).await;
        }
    }
}

/// The lane for requests whose claims have this spread.
fn lane_of(spread: u128, lanes: &[Lane]) -> &Lane {
    let count = u128::try_from(lanes.len()).expect("a usize has at most 64 bits");
    let index = usize::try_from(spread % count).expect("an index below the count is a usize");
    &lanes[index]
}

//! Decisions from any thread, for services on a multi-threaded runtime.
//!
//! With counters in memory a decision is made at once, on the thread that asks. A
//! store that needs a connection runs on threads of its own, its lanes: each has a
//! single-threaded runtime, and requests with the same key take the same lane. So
//! the store's code is the same as in a gateway whose workers share nothing.
//!
//! What waits for a lane is bounded. Requests beyond the bound meet a store that is
//! away: policies with `on_failure` [`Allow`](crate::consistency::OnFailure::Allow) admit
//! them, all others refuse them.

mod check;
mod lane;
#[cfg(test)]
mod tests;

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

pub use self::check::{Check, OwnedDecision};
use futures_util::FutureExt as _;

use self::lane::Lane;
use crate::decision::{Claims, Ending, Headroom, Judge, Lease};
use crate::policy::Policy;
use crate::store::{MemoryStore, SharedStore};
use crate::time::Clock;

/// Decides for all threads of a process. A clone is the same limiter.
#[derive(Clone, Debug)]
pub struct SharedLimiter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    counters: Counters,
}

#[derive(Debug)]
enum Counters {
    Memory(Arc<MemoryStore>),
    Lanes(Box<[Lane]>),
}

impl SharedLimiter {
    /// Decides by counters in memory, on the thread that asks.
    pub fn in_memory(memory: Arc<MemoryStore>, clock: Clock) -> Self {
        Self(Arc::new(Inner { clock, counters: Counters::Memory(memory) }))
    }

    /// Decides by `store` on `lanes` threads, of which each has at most `bound`
    /// decisions under way.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn on_lanes(
        store: &SharedStore,
        lanes: NonZeroUsize,
        bound: NonZeroUsize,
        clock: Clock,
    ) -> io::Result<Self> {
        let lanes: io::Result<Box<[Lane]>> =
            (0..lanes.get()).map(|n| Lane::start(n, store.clone(), bound, clock.clone())).collect();
        Ok(Self(Arc::new(Inner { clock, counters: Counters::Lanes(lanes?) })))
    }

    /// Judges the claims of one request. Its lease must be [ended](Self::end). Where
    /// the answer is dropped before it has come, nothing stays in flight.
    pub fn check(&self, claims: Claims<Arc<Policy>>, headroom: Headroom) -> Check {
        let now = self.0.clock.now();
        match &self.0.counters {
            Counters::Memory(memory) => {
                let judgement = Judge::in_memory(memory).judge(claims, headroom, now);
                let decision = judgement.now_or_never().expect("memory is never waited for");
                Check::ready(decision)
            }
            Counters::Lanes(lanes) => {
                let lane = usize::try_from(claims.spread()).unwrap_or(0) % lanes.len();
                lanes[lane].judge(claims, headroom, now)
            }
        }
    }

    /// Settles what an admitted request owes, by how it has ended.
    pub fn end(&self, lease: Lease, ending: &Ending<'_>) {
        if lease.is_empty() {
            return;
        }
        let now = self.0.clock.now();
        match &self.0.counters {
            Counters::Memory(memory) => Judge::in_memory(memory).end(&lease, ending, now),
            Counters::Lanes(lanes) => {
                let lane = usize::try_from(lease.spread()).unwrap_or(0) % lanes.len();
                lanes[lane].end(lease, ending, now);
            }
        }
    }
}

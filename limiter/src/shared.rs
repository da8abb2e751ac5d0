//! Decisions from any thread, for services on a multi-threaded runtime.
//!
//! With counters in memory, the calling thread makes the decision without waiting. A store
//! that needs a connection runs on separate threads, its lanes. Each lane has a
//! single-threaded runtime, and requests with the same key use the same lane. So the
//! store's code is the same as in a gateway whose workers share no data.
//!
//! The requests that wait for a lane are bounded. For requests beyond the bound the store
//! counts as unavailable: policies with `on_failure` [`Allow`](crate::consistency::OnFailure::Allow) admit
//! them, all others refuse them.

mod check;
mod counters;
mod lane;
#[cfg(test)]
mod tests;

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

use futures_util::FutureExt as _;

pub use self::check::Check;
use self::counters::{Counters, Storage, lane_of};
use self::lane::Lane;
use crate::decision::{Claims, Ending, Headroom, Judge, Lease};
use crate::policy::Policy;
use crate::store::{MemoryStore, SharedStore};
use crate::time::Clock;

/// Decides for all threads of a process. Clones share their counters.
#[derive(Clone, Debug)]
pub struct SharedLimiter(Arc<Counters>);

impl SharedLimiter {
    /// Decides by counters in memory, on the calling thread.
    pub fn in_memory(memory: Arc<MemoryStore>, clock: Clock) -> Self {
        Self(Arc::new(Counters { clock, storage: Storage::Memory(memory) }))
    }

    /// Decides by `store` on `lanes` threads. Each has at most `bound` decisions in
    /// progress.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn on_lanes(
        store: &SharedStore,
        lanes: NonZeroUsize,
        bound: NonZeroUsize,
        clock: Clock,
    ) -> io::Result<Self> {
        let lanes: io::Result<Box<[Lane]>> =
            (0..lanes.get()).map(|n| Lane::start(n, store.clone(), bound, clock.clone())).collect();
        Ok(Self(Arc::new(Counters { clock, storage: Storage::Lanes(lanes?) })))
    }

    /// Judges the claims of one request. Its lease must be [ended](Self::end). If the
    /// answer is dropped before it is received, nothing stays in flight.
    pub fn check(&self, claims: Claims<Arc<Policy>>, headroom: Headroom) -> Check {
        let counters = &self.0;
        let now = counters.clock.now();
        match &counters.storage {
            Storage::Memory(memory) => {
                let mut claims = claims;
                let judgement = Judge::in_memory(memory).judge(&mut claims, headroom, now);
                let decision =
                    judgement.now_or_never().expect("a judgement in memory is ready at once");
                Check::ready(counters, decision)
            }
            Storage::Lanes(lanes) => {
                let lane = lane_of(claims.spread(), lanes);
                match lane.judge(claims.clone(), headroom, now) {
                    Some(coming) => Check::coming(counters, coming, claims, now),
                    None => Check::ready(counters, claims.unjudged(now)),
                }
            }
        }
    }

    /// Settles an admitted request after it has ended.
    pub fn end(&self, lease: Lease, ending: &Ending<'_>) {
        self.0.end(lease, ending);
    }
}

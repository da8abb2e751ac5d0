//! Deciding: all policies of a route at once, and what clients are told of it.
//!
//! A decision has two halves. [`Claims`] say what each policy asks of the store:
//! keys, limits and costs, all from the request, computed at once. The judgement
//! over them needs the store and nothing of the request, so it can be made on
//! another thread. What the verdicts come to is a pure function again. A judgement
//! has at most three steps, of which all but the first are rare. Before them stand
//! the limits of single keys, where a policy may have such (`overrides`).
//!
//! 1. All policies are asked together, and whether the client is banned by one
//!    of them. If all admit the request, it is counted, otherwise nothing is.
//! 2. If only elastic policies refuse, and the upstream has room, the request is
//!    asked for once more, with what they refused counted beyond their limits.
//! 3. A refusal by a policy with a penalty is counted, and may bring a ban.

mod claim;
mod claims;
mod headers;
mod headroom;
mod judge;
mod lease;
mod outcome;
mod overrides;
mod report;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

pub use claims::Claims;
pub use headers::{HeaderWriter, X_RATELIMIT_SOFT};
pub use headroom::Headroom;
pub use judge::Judge;
pub use lease::{Ending, Lease};
pub use outcome::{Decision, Lacking, Outcome, OwnedDecision};
pub use report::{Report, Reports, Ruling};
pub use settings::{Dialect, HeaderSettings};

use self::overrides::Misfits;
use crate::policy::{Policy, Subject};
use crate::store::Store;
use crate::store::overrides::Overrides;
use crate::time::Timestamp;

/// When a request is decided: the time by this node's clock, and by when all that
/// is asked for it must be answered.
type Moment = (Timestamp, Option<Instant>);

/// The most policies that may judge one request.
pub const MAX_POLICIES: usize = 16;

/// Decides over requests by counting them in a store.
#[derive(Debug)]
pub struct RateLimiter {
    store: Store,
    overrides: Option<Overrides>,
    misfits: Misfits,
}

impl RateLimiter {
    /// Counts in this store. No key has a limit of its own.
    pub fn new(store: Store) -> Self {
        Self { store, overrides: None, misfits: Misfits::default() }
    }

    /// Goes by the limits of single keys that are kept there.
    pub fn with_overrides(self, overrides: Option<Overrides>) -> Self {
        Self { overrides, ..self }
    }

    /// Where it counts.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// What must be done now and then, whether requests come or not.
    pub fn housekeep(&self, now: Timestamp) {
        self.store.housekeep(now);
    }

    /// Ends this worker's part of the store.
    pub async fn close(&self, now: Timestamp) {
        self.store.close(now).await;
    }

    /// What all policies say of the subject's request, and what becomes of it. If it
    /// is admitted, every policy that enforces its limit has counted it; if it is
    /// refused, none has.
    ///
    /// The lease of an admitted request must be [ended](Self::end). Where the future
    /// is dropped before, nothing stays in flight.
    pub async fn decide<'r>(
        &self,
        policies: &'r [Arc<Policy>],
        subject: &Subject<'_, '_>,
        headroom: Headroom,
        now: Timestamp,
    ) -> Decision<&'r Arc<Policy>> {
        match Claims::new(policies, subject) {
            Ok(claims) => self.judge().judge(claims, headroom, now).await,
            Err(outcome) => Decision::uncounted(outcome),
        }
    }

    /// The judge over claims of any request.
    pub fn judge(&self) -> Judge<'_> {
        let overrides = self.overrides.as_ref().map(|overrides| (overrides, &self.misfits));
        Judge::new(self.store.as_ref(), overrides)
    }

    /// Settles what a request owes now that its response has ended, see
    /// [`Judge::end`].
    pub fn end(&self, lease: &Lease, ending: &Ending<'_>, now: Timestamp) {
        self.judge().end(lease, ending, now);
    }
}

//! Warnings of shares of limits that a decision or a settlement passes, and the units that
//! settlements count beyond limits.

use std::borrow::Borrow;
use std::sync::Arc;

use tollgate_core::decision::{Decision, Ending, Lease, Movement, Passage};
use tollgate_core::policy::{Mode, Policy};
use tollgate_core::time::Timestamp;

use super::Engine;

impl Engine {
    /// Reports the shares that the request of this decision has passed, and notes the greatest one
    /// for its response.
    pub(super) fn warn<P: Borrow<Arc<Policy>>>(&self, decision: &mut Decision<P>) {
        let warns = |policy: &Policy| policy.warn.is_some();
        if decision.reports.iter().any(|report| warns(report.policy.borrow())) {
            self.warn_of(decision);
        }
    }

    #[cold]
    fn warn_of<P: Borrow<Arc<Policy>>>(&self, decision: &mut Decision<P>) {
        let mut warned = None;
        for passage in decision.passages(self.deciding.limiter.is_shared()) {
            let is_told = self.passed(&passage) && passage.policy.mode == Mode::Enforce;
            warned = warned.max(is_told.then_some(passage.share));
        }
        decision.warned = warned;
    }

    /// Settles a request, and reports what the settlement does to limits.
    pub(super) fn settle(&self, lease: &Lease, ending: &Ending<'_>, now: Timestamp) {
        let limiter = &self.deciding.limiter;
        if !lease.is_watched() {
            return limiter.end(lease, ending, now);
        }
        limiter.end_told(lease, ending, now, self.telling());
    }

    /// Reports what a settlement does to limits.
    pub(super) fn telling(&self) -> impl Fn(Movement) + Clone + 'static {
        let engine = self.clone();
        move |movement| match movement {
            Movement::Share(passage) => _ = engine.passed(&passage),
            Movement::Beyond(policy, units) => engine.deciding.units.beyond(&policy, units),
        }
    }

    /// Whether the share was not reported before.
    fn passed(&self, passage: &Passage) -> bool {
        let is_new =
            self.deciding.seen.budgets.observe(passage, self.clock.now(), self.clock.wall());
        if is_new {
            self.deciding.units.warned(&passage.policy, passage.share);
        }
        is_new
    }
}

//! Shares of limits that requests pass, for policies that [warn](Policy::warn).
//!
//! A request passes a share if the count was below it before the request and is not below it
//! afterwards. Both counts are of one atomic step of the store, so of all requests on all nodes
//! one passes the share. A node that counts ahead of the store, by leases or reports, does not know
//! such a step. It reports a share whenever the count is above it, and its caller reports each
//! client once.

use std::borrow::Borrow;
use std::slice;
use std::sync::Arc;

use super::watch::is_watched;
use super::{
    Decision, Ending, Judge, Lease, Movement, Outcome, Passage, RateLimiter, Report, Ruling,
};
use crate::consistency::StoreMode;
use crate::digest::Key;
use crate::policy::Policy;
use crate::store::{Source, StoreRef};
use crate::time::Timestamp;

impl<P: Borrow<Arc<Policy>>> Report<P> {
    /// The share that the admitted request has passed, if the policy warns of it.
    fn passage(&self, is_shared: bool) -> Option<Passage> {
        let policy = self.policy.borrow();
        let shares = policy.warn.as_deref()?;
        let is_counted =
            matches!(self.ruling, Ruling::Admitted | Ruling::Soft) && self.source == Source::Store;
        if !is_counted {
            return None;
        }
        let limit = self.verdict.limit;
        let used = self.used;
        let share = match is_shared && policy.consistency.mode != StoreMode::Exact {
            true => shares.reached(used, limit)?,
            false => shares.passed([used.saturating_sub(self.cost), used], limit)?,
        };
        let key = Key { principal: self.client, counter: policy.counter };
        let lasts = self.verdict.reset_after;
        Some(Passage { policy: Arc::clone(policy), key, share, used, limit, lasts })
    }
}

impl<P: Borrow<Arc<Policy>>> Decision<P> {
    /// The shares that the request has passed. `is_shared`: other nodes share the store.
    pub fn passages(&self, is_shared: bool) -> impl Iterator<Item = Passage> {
        let is_admitted = matches!(self.outcome, Outcome::Admit);
        let reports = self.reports.iter().filter(move |_| is_admitted);
        reports.filter_map(move |report| report.passage(is_shared))
    }
}

impl Judge<'_> {
    /// The same as [`end`](Self::end). `told` learns what the settlement has done, when the store
    /// has counted it.
    fn end_told(
        self,
        lease: &Lease,
        ending: &Ending<'_>,
        now: Timestamp,
        told: impl Fn(Movement) + Clone + 'static,
    ) {
        lease.measure(self.store.holding(), now);
        for (correction, watch) in lease.due_watched(ending) {
            let Some(watch) = watch else {
                self.store.correct(slice::from_ref(&correction), now);
                continue;
            };
            let told = told.clone();
            let told = move |moved| watch.movements(moved).for_each(told);
            self.store.correct_told(&correction, now, Box::new(told));
        }
    }
}

impl Lease {
    /// Whether the settlement may do something to a limit that is [told](RateLimiter::end_told).
    pub fn is_watched(&self) -> bool {
        self.policies().any(|policy| is_watched(policy))
    }
}

impl RateLimiter {
    /// Whether other nodes share its counters.
    pub fn is_shared(&self) -> bool {
        matches!(self.judge().store, StoreRef::Remote(_))
    }

    /// The same as [`end`](Self::end). `told` learns what the settlement has done to limits: for
    /// policies that [warn](Policy::warn), and for those whose cost the response states.
    pub fn end_told(
        &self,
        lease: &Lease,
        ending: &Ending<'_>,
        now: Timestamp,
        told: impl Fn(Movement) + Clone + 'static,
    ) {
        self.judge().end_told(lease, ending, now, told);
    }
}

//! The limiter of one thread: a store, and the limits of single keys.

use std::sync::Arc;

use super::{Claims, Decision, Ending, Headroom, Judge, Lease};
use crate::policy::{Misfits, Policy, Subject};
use crate::store::overrides::{Lookups, Overrides};
use crate::store::{MemoryStore, Store};
use crate::time::Timestamp;

/// Decides on requests by counters in a store.
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

    /// Uses the limits of single keys that this store contains.
    pub fn with_overrides(self, overrides: Option<Overrides>) -> Self {
        Self { overrides, ..self }
    }

    /// The store of the counters.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// How the limits of single keys were found. None: no key has a limit of its own.
    pub fn override_lookups(&self) -> Option<Lookups> {
        self.overrides.as_ref().map(Overrides::lookups)
    }

    /// Does periodic work, which does not depend on requests.
    pub fn housekeep(&self, now: Timestamp) {
        self.store.housekeep(now);
    }

    /// Ends this worker's part of the store.
    pub async fn close(&self, now: Timestamp) {
        self.store.close(now).await;
    }

    /// Judges the subject's request by all policies. If it is admitted, every policy that
    /// enforces its limit has counted it. If it is refused, none has.
    ///
    /// The lease of an admitted request must be [ended](Self::end). If the future is
    /// dropped before it is ready, nothing stays in flight.
    pub async fn decide<'r>(
        &self,
        policies: impl IntoIterator<Item = &'r Arc<Policy>>,
        subject: &Subject<'_, '_>,
        headroom: Headroom,
        now: Timestamp,
    ) -> Decision<&'r Arc<Policy>> {
        if let Some(memory) = self.memory() {
            return Self::decide_now(memory, policies, subject, headroom, now);
        }
        match Claims::new(policies, subject) {
            Ok(mut claims) => {
                let judge = self.judge();
                let deadline = judge.deadline(subject.answer_by());
                judge.judge_by(&mut claims, headroom, (now, deadline)).await
            }
            Err(outcome) => Decision::uncounted(outcome),
        }
    }

    /// The same by counters in memory, at once.
    pub fn decide_now<'r>(
        memory: &MemoryStore,
        policies: impl IntoIterator<Item = &'r Arc<Policy>>,
        subject: &Subject<'_, '_>,
        headroom: Headroom,
        now: Timestamp,
    ) -> Decision<&'r Arc<Policy>> {
        match Claims::new(policies, subject) {
            Ok(claims) => Judge::judge_now(memory, claims, headroom, now),
            Err(outcome) => Decision::uncounted(outcome),
        }
    }

    /// The same, if what is charged may have to be given back before the response: the lease of
    /// an admitted request is open for all policies.
    pub async fn decide_open<'r>(
        &self,
        policies: impl IntoIterator<Item = &'r Arc<Policy>>,
        subject: &Subject<'_, '_>,
        headroom: Headroom,
        now: Timestamp,
    ) -> Decision<&'r Arc<Policy>> {
        let mut claims = match Claims::new(policies, subject) {
            Ok(claims) => claims.settling(),
            Err(outcome) => return Decision::uncounted(outcome),
        };
        let judge = self.judge();
        let deadline = judge.deadline(subject.answer_by());
        let mut decision = judge.judge_by(&mut claims, headroom, (now, deadline)).await;
        decision.lease.open_all(&decision.reports);
        decision
    }

    /// The counters, if [`decide`](Self::decide) waits for nothing: its future is ready at its
    /// first poll.
    pub fn memory(&self) -> Option<&MemoryStore> {
        match (&self.store, &self.overrides) {
            (Store::Memory(memory), None) => Some(memory),
            _ => None,
        }
    }

    /// The judge of claims.
    pub fn judge(&self) -> Judge<'_> {
        let overrides = self.overrides.as_ref().map(|overrides| (overrides, &self.misfits));
        Judge::new(self.store.as_ref(), overrides)
    }

    /// Settles a request after its response: releases its units in flight, corrects its cost,
    /// and gives back units that must not be counted.
    pub fn end(&self, lease: &Lease, ending: &Ending<'_>, now: Timestamp) {
        self.judge().end(lease, ending, now);
    }
}

//! A decision that counts nothing: what a request would get now, and why.
//!
//! The counters are copied from the store, and the decision is made on the copies by the code
//! that makes the true decision.

use std::borrow::Borrow;
use std::sync::Arc;

use super::claim::Charges;
use super::overrides;
use super::{Claims, Decision, Headroom, Judge, Lease, Outcome, RateLimiter, Reports, Skip};
use crate::policy::{LimitChoice, Policy, Subject};
use crate::store::StoreRef;
use crate::time::Timestamp;

/// What a request would get now.
#[derive(Debug)]
pub struct Peeked<'r> {
    /// The decision. Its lease is empty.
    pub decision: Decision<&'r Arc<Policy>>,
    /// The policies that do not judge the request, in the route's order.
    pub skipped: Vec<(&'r Arc<Policy>, Skip)>,
    /// The time of the decision, by the clock of the store.
    pub at: Timestamp,
}

impl<'r> Peeked<'r> {
    /// The decision on a request that is refused before its policies are asked.
    pub fn uncounted(outcome: Outcome<&'r Arc<Policy>>, at: Timestamp) -> Self {
        Self { decision: Decision::uncounted(outcome), skipped: Vec::new(), at }
    }
}

impl RateLimiter {
    /// What [`decide`](Self::decide) would return now. Nothing is counted, and the result need
    /// not be ended.
    ///
    /// With a store that nodes share, units that nodes have leased or not yet reported count
    /// as the store has counted them.
    pub async fn peek<'r>(
        &self,
        policies: &'r [Arc<Policy>],
        subject: &Subject<'_, '_>,
        headroom: Headroom,
        now: Timestamp,
    ) -> Peeked<'r> {
        let mut skipped = Vec::new();
        match Claims::noting(policies, subject, |policy, why| skipped.push((policy, why))) {
            Ok(claims) => {
                let (decision, at) = self.judge().peek(claims, headroom, now, &mut skipped).await;
                Peeked { decision, skipped, at }
            }
            Err(outcome) => Peeked { decision: Decision::uncounted(outcome), skipped, at: now },
        }
    }
}

impl RateLimiter {
    /// What [`decide_claims`](Self::decide_claims) would return now. Nothing is counted. The
    /// policies that do not judge the request any more are returned, too.
    pub async fn peek_claims<P: Borrow<Arc<Policy>> + Clone>(
        &self,
        claims: Claims<P>,
        headroom: Headroom,
        now: Timestamp,
    ) -> (Decision<P>, Vec<(P, Skip)>) {
        let mut skipped = Vec::new();
        let (decision, _) = self.judge().peek(claims, headroom, now, &mut skipped).await;
        (decision, skipped)
    }
}

impl Judge<'_> {
    /// See [`RateLimiter::peek`].
    async fn peek<P: Borrow<Arc<Policy>> + Clone>(
        self,
        claims: Claims<P>,
        headroom: Headroom,
        now: Timestamp,
        skipped: &mut Vec<(P, Skip)>,
    ) -> (Decision<P>, Timestamp) {
        let Claims { mut list, lacking, .. } = claims;
        if let Some((overrides, misfits)) = self.overrides {
            let before: Vec<(P, LimitChoice)> =
                list.iter().map(|claim| (claim.policy.clone(), claim.limit)).collect();
            let moment = (now, self.store.deadline());
            overrides::apply(overrides, misfits, &mut list, moment).await;
            for (policy, limit) in before {
                let own: &Arc<Policy> = policy.borrow();
                if !list.iter().any(|claim| Arc::ptr_eq(claim.policy(), own)) {
                    let is_unlimited = limit == LimitChoice::Unlimited;
                    let why = if is_unlimited { Skip::Unlimited } else { Skip::Overridden };
                    skipped.push((policy, why));
                }
            }
        }
        let mut counters = Charges::new();
        list.iter().for_each(|claim| claim.counters(&mut counters));
        let trial = self.store.trial(&counters, now).await;
        let judge = Judge { store: StoreRef::Trial(&trial), overrides: None };
        let mut reports = Reports::new();
        drop(judge.reports(&list, false, &mut reports, headroom, (trial.at(), None)).await);
        (Decision::combine(reports, lacking, Lease::default()), trial.at())
    }
}

#[cfg(test)]
mod tests;

//! Decisions that count what they refuse: for units that are used already, of which a limit can
//! only be told.

use std::sync::Arc;
use std::time::Instant;

use super::claim::{Charges, ClaimList};
use super::{Decision, KnownClaim, Lacking, Lease, MAX_POLICIES, RateLimiter, overrides};
use crate::algorithm::Op;
use crate::policy::Policy;
use crate::store::{Charge, Correction, Source};
use crate::time::Timestamp;

impl RateLimiter {
    /// Counts each of these claims alone, of which the first [`MAX_POLICIES`] count, and reports
    /// which were within their limits. Those that were not are counted too, at most until twice
    /// the limit is counted, see [`Op::Count`](crate::algorithm::Op::Count). Nothing has to be
    /// settled. Policies with `penalty` ban no client here, and elastic policies count by their own
    /// limit.
    ///
    /// The reports are in the order of the claims. A key without a limit has none.
    pub async fn count_known<'r>(
        &self,
        claims: impl IntoIterator<Item = KnownClaim<'r>>,
        now: Timestamp,
    ) -> Decision<&'r Arc<Policy>> {
        self.count_known_by(claims, now, None).await
    }

    /// The same. The store has until `until`, if that is earlier than its own deadline.
    pub async fn count_known_by<'r>(
        &self,
        claims: impl IntoIterator<Item = KnownClaim<'r>>,
        now: Timestamp,
        until: Option<Instant>,
    ) -> Decision<&'r Arc<Policy>> {
        let known = claims.into_iter().take(MAX_POLICIES).map(KnownClaim::claim);
        let mut list: ClaimList<&'r Arc<Policy>> = known.collect();
        let judge = self.judge();
        let deadline = judge.deadline(until);
        if let Some((overrides, misfits)) = judge.overrides {
            overrides::apply(overrides, misfits, &mut list, (now, deadline)).await;
        }
        list.retain(|claim| claim.has_limit());
        let mut charges = Charges::new();
        for claim in &list {
            charges.push(Charge { binding: false, ..claim.within() });
        }
        let counted = judge.store.count_by(&charges, now, deadline).await;
        let told = list.iter().zip(&counted.answers);
        let reports = told.map(|(claim, answer)| claim.report(answer, None, now)).collect();
        Decision::combine(reports, Lacking::new(), Lease::default())
    }

    /// Gives back the cost of this claim, but no more than is counted at `now`. Nothing waits for
    /// it, and later calls of this worker find it done.
    pub fn give_back_known(&self, claim: KnownClaim<'_>, now: Timestamp) {
        let claim = claim.claim();
        let charge = Charge { binding: false, ..claim.within() };
        let op = Op::Give { cost: claim.cost, taken: now };
        self.store().correct(&[Correction { charge, source: Source::Store, op }], now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Algorithm, FixedWindow, Quota};
    use crate::decision::{Headroom, Outcome, Ruling};
    use crate::digest::Principal;
    use crate::policy::{KeyExpr, LimitChoice};
    use crate::store::{MemoryStore, Store};
    use crate::time::Span;

    fn policy(name: &str, limit: u64) -> Arc<Policy> {
        let quota = Quota::new(limit, Span::from_secs(60)).expect("a quota");
        Arc::new(Policy::new(name, KeyExpr::Ip, Algorithm::FixedWindow(FixedWindow::new(quota))))
    }

    fn claim(policy: &Arc<Policy>, cost: u64) -> KnownClaim<'_> {
        let client = Principal::from_bits(7);
        KnownClaim { policy, client, limit: LimitChoice::Own, instead: None, cost }
    }

    #[tokio::test]
    async fn each_claim_is_counted_alone_also_beyond_its_limit() {
        let limiter = RateLimiter::new(Store::Memory(Arc::new(MemoryStore::new(100))));
        let small = policy("small", 3);
        let large = policy("large", 100);
        let now = Timestamp::from_micros(60_000_000);
        let decision = limiter.count_known([claim(&small, 5), claim(&large, 5)], now).await;
        let rulings: Vec<_> = decision.reports.iter().map(|it| it.ruling).collect();
        assert_eq!(rulings, [Ruling::Refused, Ruling::Admitted]);
        assert!(matches!(decision.outcome, Outcome::Refuse(_)));
        // A decision on the same counters finds what was counted.
        let after = [claim(&small, 1), claim(&large, 95)];
        let decision = limiter.decide_known(after, Headroom::default(), now).await;
        let admitted: Vec<_> = decision.reports.iter().map(|it| it.verdict.admitted).collect();
        assert_eq!(admitted, [false, true]);
    }

    #[tokio::test]
    async fn no_more_is_given_back_than_is_counted() {
        let limiter = RateLimiter::new(Store::Memory(Arc::new(MemoryStore::new(100))));
        let policy = policy("small", 3);
        let now = Timestamp::from_micros(60_000_000);
        limiter.count_known([claim(&policy, 5)], now).await;
        limiter.give_back_known(claim(&policy, 4), now);
        let decision = limiter.count_known([claim(&policy, 0)], now).await;
        assert_eq!(decision.reports[0].verdict.remaining, 2);
        limiter.give_back_known(claim(&policy, 4), now);
        let decision = limiter.count_known([claim(&policy, 0)], now).await;
        assert_eq!(decision.reports[0].verdict.remaining, 3);
    }
}

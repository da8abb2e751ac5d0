//! Claims of several questions in one decision.

use std::borrow::Borrow;
use std::sync::Arc;

use super::claim::Claim;
use super::{Claims, Decision, Headroom, KnownClaim, Lacking, RateLimiter};
use crate::algorithm::MAX_LIMIT;
use crate::digest::Key;
use crate::policy::Policy;
use crate::time::Timestamp;

/// Two claims charge one counter under different limits, so no limit decides on their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherLimit;

impl<'r> Claims<&'r Arc<Policy>> {
    /// These claims, whose keys and costs are known without a request.
    pub fn known(claims: impl IntoIterator<Item = KnownClaim<'r>>) -> Self {
        let has_limit = |claim: &Claim<_>| claim.has_limit() || claim.policy().overrides.is_some();
        let list = claims.into_iter().map(KnownClaim::claim).filter(has_limit).collect();
        Self { list, lacking: Lacking::new(), settles: false }
    }

    /// Adds other claims. If both charge one counter, their costs are added.
    ///
    /// # Errors
    /// If both charge one counter, and not under one limit. Then a part of them may be added.
    pub fn join(&mut self, other: Self) -> Result<(), OtherLimit> {
        self.lacking.extend(other.lacking);
        for claim in other.list {
            let Some(own) = self.list.iter_mut().find(|own| own.key == claim.key) else {
                self.list.push(claim);
                continue;
            };
            if !own.has_limit_of(&claim) {
                return Err(OtherLimit);
            }
            // Units that are known are charged in full.
            let can_be_less = |part: &Claim<_>| part.is_capped || part.cost == 0;
            own.is_capped = can_be_less(own) && can_be_less(&claim);
            own.cost = own.cost.saturating_add(claim.cost).min(MAX_LIMIT + 1);
        }
        Ok(())
    }
}

impl<P: Borrow<Arc<Policy>>> Claims<P> {
    /// The same claims, which all cost so many units. None of them is an estimate.
    pub fn costing(self, units: u64) -> Self {
        self.each(|claim| {
            claim.cost = units.min(MAX_LIMIT + 1);
            claim.is_capped = false;
            claim.estimate = None;
        })
    }

    /// The same claims with their costs as estimates: at most the limit of the client is charged.
    pub fn as_estimates(self) -> Self {
        self.each(|claim| claim.is_capped = true)
    }

    /// The same claims, which cost at least one unit each.
    pub fn not_free(self) -> Self {
        self.each(|claim| claim.cost = claim.cost.max(1))
    }

    fn each(mut self, change: impl Fn(&mut Claim<P>)) -> Self {
        self.list.iter_mut().for_each(change);
        self
    }

    /// The keys of the counters, without limits of single keys.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.list.iter().map(|claim| claim.key)
    }

    /// The policies, in the order of the keys.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.list.iter().map(Claim::policy)
    }
}

impl RateLimiter {
    /// Judges these claims together, of which there are at most
    /// [`MAX_POLICIES`](super::MAX_POLICIES). Otherwise this is [`decide`](Self::decide).
    pub async fn decide_claims<P: Borrow<Arc<Policy>> + Clone>(
        &self,
        claims: &mut Claims<P>,
        headroom: Headroom,
        now: Timestamp,
    ) -> Decision<P> {
        self.judge().judge(claims, headroom, now).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::tests::{fixed, policy};
    use crate::digest::Principal;
    use crate::policy::{LimitChoice, Mode, Plan, Plans};
    use crate::time::Span;

    const HOUR: Span = Span::from_secs(3600);

    fn claims(policy: &Arc<Policy>, limit: LimitChoice, cost: u64) -> Claims<&Arc<Policy>> {
        let client = Principal::from_bits(1);
        Claims::known([KnownClaim { policy, client, limit, instead: None, cost }])
    }

    fn costs(claims: &Claims<&Arc<Policy>>) -> Vec<u64> {
        claims.list.iter().map(|claim| claim.within().cost).collect()
    }

    #[test]
    fn costs_of_one_counter_are_added() {
        let a = Arc::new(policy("a", 100, HOUR));
        let b = Arc::new(policy("b", 100, HOUR));
        let mut all = claims(&a, LimitChoice::Own, 2);
        for (policy, cost) in [(&b, 3), (&a, 5), (&b, u64::MAX)] {
            assert_eq!(all.join(claims(policy, LimitChoice::Own, cost)), Ok(()));
        }
        assert_eq!(costs(&all), [7, MAX_LIMIT + 1]);
    }

    /// The limit of the first question once decided on the sum.
    #[test]
    fn claims_of_one_counter_have_one_limit() {
        let limited = Plan::Limited { algorithm: fixed(10, HOUR), soft: None };
        let own = policy("p", 100, HOUR);
        let plans = Plans { from: own.key.clone(), limits: vec![("small".into(), limited)] };
        let own = Arc::new(Policy { plans: Some(plans), ..own });
        let with_limit = Arc::new(Policy { algorithm: fixed(10, HOUR), ..Policy::clone(&own) });
        let in_shadow = Arc::new(Policy { mode: Mode::Shadow, ..Policy::clone(&own) });
        for (policy, limit) in [
            (&own, LimitChoice::Plan(0)),
            (&with_limit, LimitChoice::Own),
            (&in_shadow, LimitChoice::Own),
        ] {
            let mut all = claims(&own, LimitChoice::Own, 1);
            assert_eq!(all.join(claims(policy, limit, 1)), Err(OtherLimit), "{policy:?}");
        }
        // Questions that state the same limit have a policy each.
        let again = Arc::new(Policy::clone(&with_limit));
        let mut all = claims(&with_limit, LimitChoice::Own, 1);
        assert_eq!(all.join(claims(&again, LimitChoice::Own, 1)), Ok(()));
    }

    #[test]
    fn at_most_the_limit_is_charged_for_an_estimate_alone() {
        let policy = Arc::new(policy("p", 100, HOUR));
        let exact = || claims(&policy, LimitChoice::Own, 1).costing(5000);
        let estimate = || exact().as_estimates();
        let nothing = || exact().costing(0);
        assert_eq!([costs(&exact()), costs(&estimate())], [[5000], [100]]);
        assert_eq!(costs(&estimate().costing(0).not_free()), [1]);
        for (mut first, second, cost) in [
            (estimate(), estimate(), 100),
            (estimate(), exact(), 10_000),
            (exact(), estimate(), 10_000),
            (estimate(), nothing(), 100),
            (nothing(), estimate(), 100),
            (exact(), nothing(), 5000),
            (estimate().costing(0).as_estimates(), exact(), 5000),
        ] {
            assert_eq!(first.join(second), Ok(()));
            assert_eq!(costs(&first), [cost]);
        }
    }
}

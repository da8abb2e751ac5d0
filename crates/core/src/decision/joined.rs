//! Claims of several questions in one decision.

use std::borrow::Borrow;
use std::sync::Arc;

use super::claim::Claim;
use super::{Claims, Decision, Headroom, KnownClaim, Lacking, RateLimiter};
use crate::algorithm::MAX_LIMIT;
use crate::digest::Key;
use crate::policy::Policy;
use crate::time::Timestamp;

impl<'r> Claims<&'r Arc<Policy>> {
    /// These claims, whose keys and costs are known without a request.
    pub fn known(claims: impl IntoIterator<Item = KnownClaim<'r>>) -> Self {
        let has_limit = |claim: &Claim<_>| claim.has_limit() || claim.policy().overrides.is_some();
        let list = claims.into_iter().map(KnownClaim::claim).filter(has_limit).collect();
        Self { list, lacking: Lacking::new(), settles: false }
    }

    /// Adds other claims. If both charge one counter, their costs are added.
    pub fn join(&mut self, other: Self) {
        self.lacking.extend(other.lacking);
        for claim in other.list {
            match self.list.iter_mut().find(|own| own.key == claim.key) {
                Some(own) => own.cost = own.cost.saturating_add(claim.cost).min(MAX_LIMIT + 1),
                None => self.list.push(claim),
            }
        }
    }
}

impl<P: Borrow<Arc<Policy>>> Claims<P> {
    /// The same claims with another cost, by policy.
    pub fn with_costs(mut self, cost: impl Fn(&Policy, u64) -> u64) -> Self {
        for claim in &mut self.list {
            claim.cost = cost(claim.policy(), claim.cost).min(MAX_LIMIT + 1);
        }
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

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
    /// The same claims, which all cost so many units. None of them is an estimate.
    pub fn costing(self, units: u64) -> Self {
        self.each(|claim| {
            claim.cost = units.min(MAX_LIMIT + 1);
            claim.is_estimate = false;
            claim.estimate = None;
        })
    }

    /// The same claims with their costs as estimates: at most the limit of the client is charged.
    pub fn as_estimates(self) -> Self {
        self.each(|claim| claim.is_estimate = true)
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

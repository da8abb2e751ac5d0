//! Decisions on requests whose keys and costs are known without the requests, as from a log.

use std::sync::Arc;
use std::time::Instant;

use super::claim::{Claim, ClaimList};
use super::{Claims, Decision, Headroom, Lacking, Lease, MAX_POLICIES, RateLimiter};
use crate::digest::{Key, Principal};
use crate::policy::{LimitChoice, OverrideLimit, Policy};
use crate::time::Timestamp;

/// What one policy charges for a request that is not known itself.
#[derive(Clone, Debug)]
pub struct KnownClaim<'r> {
    /// The policy.
    pub policy: &'r Arc<Policy>,
    /// The client whose counter is charged.
    pub client: Principal,
    /// The limit of the policy that holds for the client.
    pub limit: LimitChoice,
    /// The limit of this client alone, if it has one.
    pub instead: Option<OverrideLimit>,
    /// The units that the request costs.
    pub cost: u64,
}

impl<'r> KnownClaim<'r> {
    pub(super) fn claim(self) -> Claim<&'r Arc<Policy>> {
        let Self { policy, client, limit, instead, cost } = self;
        let key = Key { principal: client, counter: policy.counter };
        Claim { instead: instead.map(Box::new), ..Claim::known(policy, key, limit, cost) }
    }
}

impl RateLimiter {
    /// Judges a request by these claims, of which the first [`MAX_POLICIES`] count. Otherwise
    /// this is [`decide`](Self::decide).
    pub async fn decide_known<'r>(
        &self,
        claims: impl IntoIterator<Item = KnownClaim<'r>>,
        headroom: Headroom,
        now: Timestamp,
    ) -> Decision<&'r Arc<Policy>> {
        self.decide_known_by(claims, headroom, now, None).await
    }

    /// The same. The store has until `until`, if that is earlier than its own deadline.
    pub async fn decide_known_by<'r>(
        &self,
        claims: impl IntoIterator<Item = KnownClaim<'r>>,
        headroom: Headroom,
        now: Timestamp,
        until: Option<Instant>,
    ) -> Decision<&'r Arc<Policy>> {
        let list: ClaimList<_> =
            claims.into_iter().take(MAX_POLICIES).map(KnownClaim::claim).collect();
        let mut claims = Claims { list, lacking: Lacking::new(), settles: false };
        let judge = self.judge();
        judge.judge_by(&mut claims, headroom, (now, judge.deadline(until))).await
    }

    /// Settles a request, as [`end`](Self::end) does. The policies of the lease have cost
    /// these units, in their order; the rest have cost what was charged.
    pub fn end_known(&self, lease: &Lease, spent: &[u64], now: Timestamp) {
        self.judge().end_known(lease, spent, now);
    }

    /// Gives back what was charged for a request that is not processed. A counter whose units leak
    /// gets back all of them, see [`Op::Cancel`](crate::algorithm::Op::Cancel).
    pub fn give_back(&self, lease: &Lease, now: Timestamp) {
        self.judge().give_back(lease, now);
    }
}

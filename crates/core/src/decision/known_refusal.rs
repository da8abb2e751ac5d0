//! Refusals that are known before a request is complete.
//!
//! A request whose body is still to be read is refused before that, if some policies that need no
//! body refuse it and this node knows it without a question to the store. Nothing is counted but
//! the refusal itself. In every other case all policies decide together, when the body was read.

use std::borrow::Borrow;
use std::sync::Arc;

use super::claim::Charges;
use super::{Claims, Decision, Headroom, Judge, Outcome, RateLimiter};
use crate::policy::{Policy, Subject};
use crate::store::StoreRef;
use crate::time::Timestamp;

impl RateLimiter {
    /// The decision of `policies`, if this node knows now that one of them refuses the request for
    /// which `is_final` is true, or that the request lacks what one of them demands.
    ///
    /// The limit of a policy that room at the upstream or an override can lift is not known.
    pub async fn refuse_known<'r>(
        &self,
        policies: impl Iterator<Item = &'r Arc<Policy>> + Clone,
        subject: &Subject<'_, '_>,
        is_final: impl Fn(&Policy) -> bool,
        now: Timestamp,
    ) -> Option<Decision<&'r Arc<Policy>>> {
        match Claims::new(policies.clone(), subject) {
            Err(outcome) => return Some(Decision::uncounted(outcome)),
            Ok(claims) if !self.judge().knows_refusal(&claims, &is_final, now) => return None,
            Ok(_) => {}
        }
        let decision = self.decide_open(policies, subject, Headroom::default(), now).await;
        // Otherwise another request has just given units back.
        let is_known = match decision.outcome {
            Outcome::Admit => {
                self.end_known(&decision.lease, &decision.lease.all_cost(0), now);
                false
            }
            Outcome::Refuse(_) => {
                decision.reports.iter().any(|it| it.refuses() && is_final(it.policy))
            }
            _ => true,
        };
        is_known.then_some(decision)
    }
}

impl Judge<'_> {
    /// Whether a claim of a policy for which `is_final` is true is refused, as far as this node knows.
    fn knows_refusal<P: Borrow<Arc<Policy>>>(
        self,
        claims: &Claims<P>,
        is_final: impl Fn(&Policy) -> bool,
        now: Timestamp,
    ) -> bool {
        let is_lasting = |policy: &Policy| {
            policy.elastic.is_none()
                && (policy.overrides.is_none() || self.overrides.is_none())
                && is_final(policy)
        };
        let mut charges = Charges::new();
        for claim in claims.list.iter().filter(|claim| is_lasting(claim.policy())) {
            claim.charge(&mut charges);
        }
        charges.iter().filter(|charge| charge.binding).any(|charge| match self.store {
            StoreRef::Memory(memory) => !memory.look(charge, now).admitted,
            StoreRef::Remote(remote) => remote.refuses(charge, now),
            StoreRef::Trial(_) => false,
        })
    }
}

#[cfg(test)]
mod tests;

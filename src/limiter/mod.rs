//! Deciding: all policies of a route at once, and what clients are told of it.
//!
//! Keys come from the rules, states from the store, and what the verdicts come
//! to is a pure function. Here is only what joins them.

mod decision;
mod headers;
mod settings;
#[cfg(test)]
mod tests;

use smallvec::SmallVec;

pub use decision::{Decision, Outcome, Report, Reports};
pub use headers::HeaderWriter;
pub use settings::{Dialect, HeaderSettings};

use crate::rules::{KeyFor, Policy, Subject};
use crate::store::{Charge, Store};
use crate::time::Timestamp;

/// The most policies that may judge one request.
pub const MAX_POLICIES: usize = 16;

/// The units that a request costs.
const COST: u64 = 1;

/// Decides over requests by counting them in a store.
#[derive(Debug)]
pub struct RateLimiter {
    store: Store,
}

impl RateLimiter {
    /// Counts in this store.
    pub const fn new(store: Store) -> Self {
        Self { store }
    }

    /// Where it counts.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// What all policies of the subject's route say. If they admit the
    /// request, all have counted it; if one refuses it, none has.
    pub async fn decide<'r>(&self, subject: &Subject<'r, '_>, now: Timestamp) -> Decision<'r> {
        let policies = subject.route().policies.iter();
        self.judge(policies.map(|policy| (&**policy, subject.key(policy))), now).await
    }

    async fn judge<'r>(
        &self,
        keyed: impl Iterator<Item = (&'r Policy, KeyFor)>,
        now: Timestamp,
    ) -> Decision<'r> {
        let mut policies: SmallVec<[&Policy; 4]> = SmallVec::new();
        let mut charges: SmallVec<[Charge<'_>; 4]> = SmallVec::new();
        for (policy, key) in keyed {
            match key {
                KeyFor::Key(key) => {
                    policies.push(policy);
                    charges.push(Charge {
                        key,
                        algorithm: &policy.algorithm,
                        cost: COST,
                        binding: true,
                    });
                }
                KeyFor::Exempt => {}
                KeyFor::Denied => return Decision::deny(policy),
            }
        }
        debug_assert!(charges.len() <= MAX_POLICIES, "the configuration bounds policies a route");
        let verdicts = self.store.apply(&charges, now).await;
        let reports = policies.into_iter().zip(verdicts);
        Decision::combine(
            reports.map(|(policy, verdict)| Report { policy, verdict, cost: COST }).collect(),
        )
    }
}

//! What a policy has charged for a request, in a form that can leave the process.
//!
//! Any node with the same policies and the same store can settle it later.

use std::borrow::Borrow;
use std::sync::Arc;

use super::{RateLimiter, Report, Ruling};
use crate::algorithm::{Algorithm, MAX_LIMIT, Op, QuotaError};
use crate::digest::{Counter, Key, Principal};
use crate::policy::{Beside, LimitChoice, Policy};
use crate::store::{Charge, Correction, Mark, Marked, Source, StoreUnavailable};
use crate::time::{Span, Timestamp};

/// What one policy has charged for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charged {
    /// The identity of the policy.
    pub policy: Counter,
    /// The client whose counter it is.
    pub client: Principal,
    /// The limit of the client.
    pub limit: ChargedLimit,
    /// Whether the units were counted beyond the limit, because the upstream had room.
    pub is_beyond: bool,
    /// The units.
    pub cost: u64,
    /// Where they are counted.
    pub source: Source,
}

/// The limit under which units were charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargedLimit {
    /// One of the policy's.
    Policy(LimitChoice),
    /// One of the key alone: units in a window.
    Key(u64, Span),
}

/// Why a charge cannot be settled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettleError {
    /// The policy has changed, and cannot count it any more.
    #[error("the policy cannot count the limit of the key any more: {0}")]
    Changed(#[from] QuotaError),
    /// The store does not answer. The same call again is safe.
    #[error(transparent)]
    Unavailable(#[from] StoreUnavailable),
}

impl Charged {
    /// What the policy of this report has charged, if it was charged and can be settled. Units
    /// in flight are not settled but held.
    pub fn of<P: Borrow<Arc<Policy>>>(report: &Report<P>) -> Option<Self> {
        let policy: &Arc<Policy> = report.policy.borrow();
        let is_beyond = match report.ruling {
            Ruling::Admitted | Ruling::Soft => false,
            Ruling::Elastic => true,
            Ruling::Refused | Ruling::Banned | Ruling::FailedOpen | Ruling::FailedClosed => {
                return None;
            }
        };
        if matches!(policy.algorithm, Algorithm::Concurrency(_)) {
            return None;
        }
        let limit = match report.overridden {
            true => ChargedLimit::Key(report.verdict.limit, report.window),
            false => ChargedLimit::Policy(report.choice),
        };
        let (client, cost, source) = (report.client, report.cost, report.source);
        Some(Self { policy: policy.counter, client, limit, is_beyond, cost, source })
    }

    /// The key and the algorithm of the counter.
    fn counter(&self, policy: &Policy) -> Result<(Key, Algorithm), QuotaError> {
        let own = Key { principal: self.client, counter: self.policy };
        if let (true, Some(elastic)) = (self.is_beyond, &policy.elastic) {
            return Ok((Beside::Beyond.key(own, &elastic.beyond), elastic.beyond.clone()));
        }
        match self.limit {
            ChargedLimit::Policy(choice) => Ok((own, policy.limit(choice).widest().clone())),
            ChargedLimit::Key(units, window) => {
                let limit = policy.override_limit(units, Some(window))?;
                Ok((Key { counter: limit.counter, ..own }, limit.widest().clone()))
            }
        }
    }
}

impl RateLimiter {
    /// Settles units that were charged at `taken`, by the clock of the store: they have cost
    /// `actual`. The mark is set in the same step. If it was set before, nothing changes.
    ///
    /// # Errors
    /// If the policy, which must be that of the charge, has changed too much, or the store does
    /// not answer.
    pub async fn settle_once(
        &self,
        charged: &Charged,
        (policy, mark): (&Policy, &Mark),
        (taken, actual): (Timestamp, u64),
        now: Timestamp,
    ) -> Result<Marked, SettleError> {
        let (key, algorithm) = charged.counter(policy)?;
        let Charged { cost, source, .. } = *charged;
        let consistency = policy.consistency;
        let charge = Charge { key, algorithm: &algorithm, cost, binding: false, consistency };
        // At most twice the limit is counted.
        let actual = actual.min(2 * MAX_LIMIT);
        let op = Op::Settle { reserved: cost, actual, taken };
        let correction = Correction { charge, source, op };
        Ok(self.store().as_ref().correct_once(&correction, mark, now).await?)
    }
}

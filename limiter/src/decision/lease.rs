//! What an admitted request still owes its counters when its response has ended.
//!
//! What is in flight is no longer. What was reserved is settled by what it was.
//! What is counted by its outcome is given back if that was another one. Of
//! plain policies a request owes nothing, and its lease takes no memory.

use std::borrow::Borrow;
use std::sync::Arc;

use http::StatusCode;
use smallvec::SmallVec;

use super::claim::Claim;
use super::{Report, Ruling};
use crate::algorithm::{Algorithm, Op};
use crate::digest::Key;
use crate::meter::MeterSpec;
use crate::policy::{Cost, Count, Policy};
use crate::store::{Charge, Correction, HoldingTimes, Source};
use crate::time::Timestamp;

/// What a request still owes. Whoever holds it hands it to
/// [`RateLimiter::end`](super::RateLimiter::end) at the end of the response,
/// whatever that end is. A lease that is dropped leaves all charged, and what it
/// has in flight in flight.
#[derive(Debug, Default)]
#[must_use = "what is in flight stays so until the lease is ended"]
pub struct Lease {
    debts: Vec<Debt>,
    /// When it was counted, by the clock of the store.
    taken: Timestamp,
    /// When it was decided, by the clock of this node.
    began: Timestamp,
    /// That of the [claims](super::Claims::spread) that were judged.
    spread: u128,
}

/// What a request still owes one counter. It outlives the rules by which it was
/// judged, and so owns all it needs.
#[derive(Debug)]
struct Debt {
    policy: Arc<Policy>,
    key: Key,
    algorithm: Algorithm,
    cost: u64,
    source: Source,
}

/// How a request has ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ending<'a> {
    /// The response's status; none if there is no response, or nobody to take it.
    pub status: Option<StatusCode>,
    /// Bytes of the request's body that came.
    pub request_bytes: u64,
    /// What the meters of the lease have read, in their order.
    pub metered: &'a [Option<u64>],
}

impl Lease {
    /// What a request owes that was judged at `taken` by the store's clock, and at
    /// `began` by this node's: nothing if it is refused.
    pub(super) fn new<P: Borrow<Arc<Policy>>>(
        claims: &[Claim<P>],
        reports: &[Report<P>],
        taken: Timestamp,
        began: Timestamp,
    ) -> Self {
        let is_open = claims.iter().any(|claim| is_open_until_the_end(claim.policy()));
        if !is_open || reports.iter().any(Report::refuses) {
            return Self::default();
        }
        let debts = claims.iter().zip(reports).filter_map(|(claim, report)| {
            if !is_open_until_the_end(claim.policy()) {
                return None;
            }
            let charge = match report.ruling {
                Ruling::Admitted | Ruling::Soft => claim.within(),
                Ruling::Elastic => claim.beyond()?,
                Ruling::Refused | Ruling::Banned | Ruling::FailedOpen | Ruling::FailedClosed => {
                    return None;
                }
            };
            let Charge { key, algorithm, cost, .. } = charge;
            let policy = Arc::clone(claim.policy());
            let source = report.source;
            Some(Debt { policy, key, algorithm: algorithm.clone(), cost, source })
        });
        Self { debts: debts.collect(), taken, began, spread: 0 }
    }

    /// The same, of claims with this spread.
    pub(super) fn with_spread(self, spread: u128) -> Self {
        Self { spread, ..self }
    }

    /// That of the claims that were judged.
    pub(crate) const fn spread(&self) -> u128 {
        self.spread
    }

    /// Whether nothing is owed.
    pub const fn is_empty(&self) -> bool {
        self.debts.is_empty()
    }

    /// The meters that the response has to pass.
    pub fn meters(&self) -> impl Iterator<Item = &MeterSpec> {
        self.debts.iter().filter_map(|debt| match &debt.policy.cost {
            Cost::Metered { meter, .. } => Some(meter),
            Cost::Fixed(_) | Cost::Field { .. } | Cost::Body { .. } => None,
        })
    }

    /// Notes for how long it has held what was in flight.
    pub(super) fn measure(&self, holding: &HoldingTimes, now: Timestamp) {
        for debt in &self.debts {
            if let Algorithm::Concurrency(_) = debt.algorithm {
                holding.ended(debt.key.counter, now.since(self.began));
            }
        }
    }

    /// What is due at this end.
    pub(super) fn due(&self, ending: &Ending<'_>) -> SmallVec<[Correction<'_>; 1]> {
        let mut readings = ending.metered.iter().copied();
        let due = self.debts.iter().filter_map(|debt| {
            let actual = debt.actual(ending, &mut readings);
            debt.correction(actual, self.taken)
        });
        due.collect()
    }
}

impl Debt {
    /// What corrects it, if it must be corrected.
    fn correction(&self, actual: u64, taken: Timestamp) -> Option<Correction<'_>> {
        let Self { key, ref algorithm, cost, source, .. } = *self;
        let op = match algorithm {
            Algorithm::Concurrency(_) => Op::Give { cost, taken },
            _ if actual == cost => return None,
            _ => Op::Settle { reserved: cost, actual, taken },
        };
        let charge =
            Charge { key, algorithm, cost, binding: false, consistency: self.policy.consistency };
        Some(Correction { charge, source, op })
    }

    /// The units that it should have been. Takes the next of the readings if it
    /// is metered.
    fn actual(&self, ending: &Ending<'_>, readings: &mut impl Iterator<Item = Option<u64>>) -> u64 {
        let spent = match &self.policy.cost {
            Cost::Fixed(_) | Cost::Field { .. } => self.cost,
            Cost::Body { unit_bytes } => ending.request_bytes.div_ceil(unit_bytes.get()),
            Cost::Metered { .. } => readings.next().flatten().unwrap_or(self.cost),
        };
        match (&self.policy.count, ending.status) {
            (Count::Statuses(counted), Some(status)) if !counted.contains(&status) => 0,
            _ => spent,
        }
    }
}

/// Whether only the end of a response tells what counts under this policy.
fn is_open_until_the_end(policy: &Policy) -> bool {
    policy.count != Count::All
        || matches!(policy.cost, Cost::Body { .. } | Cost::Metered { .. })
        || matches!(policy.algorithm, Algorithm::Concurrency(_))
}

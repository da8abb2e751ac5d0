//! The settlement of an admitted request at the end of its response.
//!
//! Units in flight are released. Reserved units are settled by the actual cost. Units that
//! count for some statuses only are given back if the response has another status. Other
//! policies need no settlement, and the lease then takes no memory.

use std::borrow::Borrow;
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use smallvec::SmallVec;

use super::claim::Claim;
use super::watch::Watch;
use super::{Report, Ruling};
use crate::algorithm::{Algorithm, Op};
use crate::digest::Key;
use crate::meter::{Expected, Meter, MeterSpec, Metered, Unsettled, Usage};
use crate::policy::{Beside, Cost, Count, Elastic, Estimate, Left, Policy};
use crate::store::{Charge, Correction, HoldingTimes, Source};
use crate::time::Timestamp;

/// The open settlement of a request. Its owner passes it to
/// [`RateLimiter::end`](super::RateLimiter::end) after the response, however the response
/// ends. If a lease is dropped instead, all units stay charged, and units in flight stay in
/// flight.
#[derive(Debug, Default)]
#[must_use = "units stay in flight until the lease is ended"]
pub struct Lease {
    debts: Vec<Debt>,
    /// The time of the charge, by the clock of the store.
    taken: Timestamp,
    /// The time of the decision, by the clock of this node.
    began: Timestamp,
    /// The [spread](super::Claims::spread) of the claims that were judged.
    spread: u128,
}

/// The open settlement of a request with one counter. It outlives the policies of the
/// decision, so it owns all its data.
#[derive(Debug)]
struct Debt {
    policy: Arc<Policy>,
    key: Key,
    algorithm: Algorithm,
    cost: u64,
    /// The limit that the response named.
    limit: u64,
    source: Source,
    /// The time of the charge, by the clock of its server.
    taken: Timestamp,
    /// What the request is expected to use, if that has determined the cost.
    estimate: Option<Box<Estimate>>,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ending<'a> {
    /// The response's status. None if there is no response, or the client has disconnected.
    pub status: Option<StatusCode>,
    /// The received bytes of the request's body. None if they are not known: what was charged
    /// for the body then stays charged.
    pub request_bytes: Option<u64>,
    /// What the meters of the lease have read, in their order. If one is missing, there was no
    /// response.
    pub metered: &'a [Metered],
}

impl Ending<'_> {
    /// The end of a request that was abandoned before it was processed.
    pub const ABANDONED: Self = Self { status: None, request_bytes: Some(0), metered: &[] };
}

impl Lease {
    /// The lease of a request that was judged at `taken` by the store's clock, and at
    /// `began` by this node's. It is empty if the request is refused. `settles`: it is also
    /// open for policies whose limit is of the key alone.
    pub(super) fn new<P: Borrow<Arc<Policy>>>(
        claims: &[Claim<P>],
        reports: &[Report<P>],
        settles: bool,
        [taken, began]: [Timestamp; 2],
    ) -> Self {
        let none = Self { debts: Vec::new(), taken, began, spread: 0 };
        let is_open = |claim: &Claim<P>| {
            is_open_until_the_end(claim.policy()) || settles && claim.instead.is_some()
        };
        if !claims.iter().any(is_open) || reports.iter().any(Report::refuses) {
            return none;
        }
        let debts = claims.iter().zip(reports).filter_map(|(claim, report)| {
            if !is_open(claim) {
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
            let algorithm = algorithm.clone();
            let source = report.source;
            let limit = report.verdict.limit;
            let taken = report.at.unwrap_or(taken);
            let estimate = claim.estimate.clone();
            Some(Debt { policy, key, algorithm, cost, limit, source, taken, estimate })
        });
        Self { debts: debts.collect(), ..none }
    }

    /// Adds the policies of `reports`, those of this lease's decision, that the lease does not
    /// contain: their cost can then be settled like that of the others. The judgement has added
    /// those with a limit of the key alone, if the claims [settle](super::Claims).
    pub fn open_all<P: Borrow<Arc<Policy>>>(&mut self, reports: &[Report<P>]) {
        if reports.iter().any(Report::refuses) {
            return;
        }
        for report in reports {
            let Report { client, cost, source, .. } = report;
            let policy = report.policy.borrow();
            let is_open = self.debts.iter().any(|debt| Arc::ptr_eq(&debt.policy, policy));
            if is_open || report.owner.is_some() {
                continue;
            }
            let key = Key { principal: *client, counter: policy.counter };
            let (key, algorithm) = match (report.ruling, &policy.elastic) {
                (Ruling::Admitted | Ruling::Soft, _) => (key, policy.limit(report.choice).widest()),
                (Ruling::Elastic, Some(Elastic { beyond, .. })) => {
                    (Beside::Beyond.key(key, beyond), beyond)
                }
                _ => continue,
            };
            let policy = Arc::clone(policy);
            let algorithm = algorithm.clone();
            let limit = report.verdict.limit;
            let cost = *cost;
            let source = *source;
            let taken = report.at.unwrap_or(self.taken);
            let estimate = None;
            self.debts.push(Debt { policy, key, algorithm, cost, limit, source, taken, estimate });
        }
    }

    /// Closes the policies whose cost the end of the response does not determine: what was
    /// charged for them stays charged.
    pub fn close_known(&mut self) {
        self.debts.retain(|debt| is_open_until_the_end(&debt.policy));
    }

    /// The units that were charged, by policy. Units in flight are left out.
    pub fn charged(&self) -> impl Iterator<Item = (&Arc<Policy>, u64)> {
        let charged = self.debts.iter().filter(|debt| !debt.is_in_flight());
        charged.map(|debt| (&debt.policy, debt.cost))
    }

    /// When the units were charged, by the clock of the store. A server may have counted its part
    /// at [another time](Report::at).
    pub const fn taken(&self) -> Timestamp {
        self.taken
    }

    /// Takes out the units in flight of the counters that `is_part` selects, as a lease of
    /// their own. Keys are those without limits of single keys.
    pub fn take_in_flight(&mut self, is_part: impl Fn(Key) -> bool) -> Self {
        let Self { taken, began, spread, .. } = *self;
        let is_part = |debt: &Debt| {
            let own = Key { counter: debt.policy.counter, ..debt.key };
            debt.is_in_flight() && is_part(own)
        };
        let (part, rest) = std::mem::take(&mut self.debts).into_iter().partition(is_part);
        self.debts = rest;
        Self { debts: part, taken, began, spread }
    }

    /// The same lease, with the spread of its claims.
    pub(super) fn with_spread(self, spread: u128) -> Self {
        Self { spread, ..self }
    }

    /// The spread of the claims that were judged.
    pub const fn spread(&self) -> u128 {
        self.spread
    }

    /// Whether nothing must be settled.
    pub fn is_empty(&self) -> bool {
        self.debts.is_empty()
    }

    /// The meters that must read the response.
    pub fn meters(&self) -> impl Iterator<Item = &MeterSpec> {
        self.debts.iter().filter_map(|debt| match &debt.policy.cost {
            Cost::Metered { meter, .. } => Some(meter),
            Cost::Fixed(_) | Cost::Field { .. } | Cost::Body { .. } | Cost::Calls => None,
        })
    }

    /// The meters for the response with these fields, in the order of their readings.
    pub fn begin_meters(&self, headers: &HeaderMap) -> impl Iterator<Item = Meter> {
        self.debts.iter().filter_map(|debt| match &debt.policy.cost {
            Cost::Metered { meter, .. } => {
                let meter = Meter::expecting(meter, headers, debt.expected());
                Some(meter.asked(debt.estimate.as_ref().and_then(|estimate| estimate.entry)))
            }
            Cost::Fixed(_) | Cost::Field { .. } | Cost::Body { .. } | Cost::Calls => None,
        })
    }

    /// What the request is expected to use, under the first policy that estimates it.
    pub fn estimate(&self) -> Option<&Estimate> {
        self.debts.iter().find_map(|debt| debt.estimate.as_deref())
    }

    /// The units that are in flight until the request has ended, by policy.
    pub fn in_flight(&self) -> impl Iterator<Item = (&Arc<Policy>, u64)> {
        let held = self.debts.iter().filter(|debt| debt.is_in_flight());
        held.map(|debt| (&debt.policy, debt.cost))
    }

    /// The units that were charged and the units that the request has really cost, by policy,
    /// for this end. Units in flight are left out.
    pub fn settlements(
        &self,
        ending: &Ending<'_>,
    ) -> impl Iterator<Item = (&Arc<Policy>, [u64; 2])> {
        let all = self.debts.iter().zip(self.spent(ending));
        let settled = all.filter(|(debt, _)| !debt.is_in_flight());
        settled.map(|(debt, (policy, cost))| (policy, [debt.cost, cost]))
    }

    /// The units that each of its policies counts in the end, if the request ends so.
    pub fn spent(&self, ending: &Ending<'_>) -> impl Iterator<Item = (&Arc<Policy>, u64)> {
        let mut readings = ending.metered.iter().copied();
        self.debts.iter().map(move |debt| (&debt.policy, debt.actual(ending, &mut readings)))
    }

    /// The policies under which the cost of a request that ends so is not known, with the cause.
    pub fn unsettled(
        &self,
        ending: &Ending<'_>,
    ) -> impl Iterator<Item = (&Arc<Policy>, Unsettled)> {
        let mut readings = ending.metered.iter();
        let metered = self.debts.iter().filter(|debt| debt.is_metered());
        metered.filter_map(move |debt| {
            let reading = readings.next();
            let cause = match reading {
                Some(reading) => reading.unsettled()?,
                None => Unsettled::Left,
            };
            let may_cost = match reading {
                // No answer names another model than the request.
                None | Some(Metered::Unanswered) => debt.cost > 0,
                Some(_) => debt.may_cost(),
            };
            (may_cost && debt.counts(ending)).then_some((&debt.policy, cause))
        })
    }

    /// Records the time for which its units were in flight.
    pub(super) fn measure(&self, holding: &HoldingTimes, now: Timestamp) {
        for debt in &self.debts {
            if debt.is_in_flight() {
                holding.ended(debt.key.counter, now.since(self.began));
            }
        }
    }

    /// The policies that are open, in the order of their units in a settlement.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.debts.iter().map(|debt| &debt.policy)
    }

    /// These units for each of its policies.
    pub fn all_cost(&self, units: u64) -> SmallVec<[u64; 4]> {
        SmallVec::from_elem(units, self.debts.len())
    }

    /// The corrections for this end.
    pub(super) fn due(&self, ending: &Ending<'_>) -> SmallVec<[Correction<'_>; 1]> {
        let spent: SmallVec<[u64; 2]> = self.spent(ending).map(|(_, units)| units).collect();
        self.due_for(&spent)
    }

    /// The corrections for this end, each with a watch if it may pass a share of a limit.
    pub(super) fn due_watched<'l>(
        &'l self,
        ending: &Ending<'_>,
    ) -> SmallVec<[(Correction<'l>, Option<Watch>); 1]> {
        let due = self.debts.iter().zip(self.spent(ending)).filter_map(|(debt, (_, units))| {
            let correction = debt.correction(units)?;
            let watch = Watch::new(&debt.policy, debt.limit, &correction);
            Some((correction, watch))
        });
        due.collect()
    }

    /// The corrections for a request that is not processed.
    pub(super) fn due_back(&self) -> SmallVec<[Correction<'_>; 1]> {
        self.debts.iter().map(Debt::cancellation).collect()
    }

    /// The corrections, if the policies have cost these units.
    pub(super) fn due_for(&self, spent: &[u64]) -> SmallVec<[Correction<'_>; 1]> {
        let spent = spent.iter().map(|units| Some(*units)).chain(std::iter::repeat(None));
        let due = self.debts.iter().zip(spent);
        due.filter_map(|(debt, units)| debt.correction(units.unwrap_or(debt.cost))).collect()
    }
}

impl Debt {
    const fn is_in_flight(&self) -> bool {
        matches!(self.algorithm, Algorithm::Concurrency(_))
    }

    /// The correction, if one is needed.
    fn correction(&self, actual: u64) -> Option<Correction<'_>> {
        let Self { ref algorithm, cost, taken, .. } = *self;
        let op = match algorithm {
            Algorithm::Concurrency(_) => Op::Give { cost, taken },
            _ if actual == cost => return None,
            _ => Op::Settle { reserved: cost, actual, taken },
        };
        Some(self.corrected(op))
    }

    /// The correction for a request that is not processed.
    fn cancellation(&self) -> Correction<'_> {
        let Self { ref algorithm, cost, taken, .. } = *self;
        self.corrected(match algorithm {
            Algorithm::Concurrency(_) => Op::Give { cost, taken },
            _ => Op::Cancel { cost, taken },
        })
    }

    fn corrected(&self, op: Op) -> Correction<'_> {
        let Self { key, ref algorithm, cost, source, .. } = *self;
        let consistency = self.policy.consistency;
        let charge = Charge { key, algorithm, cost, binding: false, consistency };
        Correction { charge, source, op }
    }

    /// The actual cost in units. Consumes the next of the readings if the cost is metered.
    fn actual(&self, ending: &Ending<'_>, readings: &mut impl Iterator<Item = Metered>) -> u64 {
        let spent = match &self.policy.cost {
            Cost::Fixed(_) | Cost::Field { .. } | Cost::Calls => self.cost,
            Cost::Body { unit_bytes } => {
                ending.request_bytes.map_or(self.cost, |bytes| bytes.div_ceil(unit_bytes.get()))
            }
            Cost::Metered { .. } => match readings.next() {
                _ if !self.may_cost() => 0,
                None | Some(Metered::Unanswered) => self.unanswered(),
                Some(reading) => reading.units(self.cost),
            },
        };
        if self.counts(ending) { spent } else { 0 }
    }

    /// Whether the answer may state a cost. A request without a body reserves nothing, and retrieves
    /// what was counted before. One that names a free model reserves nothing, too, but the answer may
    /// be that of another model.
    fn may_cost(&self) -> bool {
        self.cost > 0 || self.estimate.as_ref().is_some_and(|estimate| !estimate.is_empty())
    }

    /// What counts if the answer does not tell the cost. None: what was reserved.
    fn expected(&self) -> Option<Expected> {
        let estimate = self.estimate.as_deref()?;
        self.policy.cost.reservation()?.expected(estimate)
    }

    /// The units of a request without an answer.
    fn unanswered(&self) -> u64 {
        let entry = self.estimate.as_ref().and_then(|estimate| estimate.entry);
        let input = |expected: Expected| {
            let usage = Usage { input: expected.input, ..Usage::default() };
            let estimate = Estimate { usage: Some(usage), model: None, entry };
            self.policy.cost.reserved(&estimate).min(self.cost)
        };
        self.expected().map_or(self.cost, input)
    }

    fn is_metered(&self) -> bool {
        matches!(self.policy.cost, Cost::Metered { .. })
    }

    /// Whether a request that ends so counts.
    fn counts(&self, ending: &Ending<'_>) -> bool {
        match (&self.policy.count, ending.status) {
            (Count::All, _) => true,
            (Count::Statuses { statuses, .. }, Some(status)) => statuses.contains(&status),
            (Count::Statuses { left, .. }, None) => *left == Left::Counted,
        }
    }
}

/// Whether the end of a response determines the units that count under this policy.
fn is_open_until_the_end(policy: &Policy) -> bool {
    policy.count != Count::All
        || matches!(policy.cost, Cost::Body { .. } | Cost::Metered { .. })
        || matches!(policy.algorithm, Algorithm::Concurrency(_))
}

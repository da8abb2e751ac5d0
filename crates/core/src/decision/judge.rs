//! The judgement of claims. It sends the charges to the store, and sends further charges if
//! room at the upstream or a penalty can change the result.

use std::borrow::Borrow;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use smallvec::SmallVec;

use super::claim::{Charges, Claim};
use super::moment::Moment;
use super::overrides;
use super::{Claims, Decision, Ending, Headroom, Lease, MAX_POLICIES, Report, Reports, Ruling};
use crate::algorithm::{Op, Retry};
use crate::policy::{Misfits, Policy};
use crate::store::overrides::Overrides;
use crate::store::{Answer, Charge, Correction, MemoryStore, StoreRef};
use crate::time::Timestamp;

/// Judges claims by the counters of one store.
#[derive(Clone, Copy, Debug)]
pub struct Judge<'s> {
    pub(super) store: StoreRef<'s>,
    pub(super) overrides: Option<(&'s Overrides, &'s Misfits)>,
}

impl<'s> Judge<'s> {
    pub(super) const fn new(
        store: StoreRef<'s>,
        overrides: Option<(&'s Overrides, &'s Misfits)>,
    ) -> Self {
        Self { store, overrides }
    }

    /// Judges by counters in memory, which have no limits of single keys. The future of
    /// such a judgement is ready when it is first polled.
    pub const fn in_memory(memory: &'s crate::store::MemoryStore) -> Self {
        Self { store: StoreRef::Memory(memory), overrides: None }
    }

    /// The decision on the request with these claims. If it is admitted, every
    /// policy that enforces its limit has counted it; if it is refused, none has.
    ///
    /// The lease of an admitted request must be [ended](Self::end). If the future
    /// is dropped before it is ready, nothing stays in flight.
    ///
    /// The claims are borrowed, because the future would contain them twice otherwise. A
    /// gateway allocates and copies its size for each request.
    pub fn judge<P: Borrow<Arc<Policy>> + Clone>(
        self,
        claims: &mut Claims<P>,
        headroom: Headroom,
        now: Timestamp,
    ) -> impl Future<Output = Decision<P>> {
        // One deadline holds for all messages to the store for one request.
        let deadline = self.store.deadline();
        self.judge_by(claims, headroom, (now, deadline))
    }

    /// The same with this deadline for the store.
    pub(super) async fn judge_by<P: Borrow<Arc<Policy>> + Clone>(
        self,
        claims: &mut Claims<P>,
        headroom: Headroom,
        (now, deadline): Moment,
    ) -> Decision<P> {
        let spread = claims.spread();
        if let Some((overrides, misfits)) = self.overrides {
            overrides::apply(overrides, misfits, &mut claims.list, (now, deadline)).await;
        }
        let mut reports = Reports::new();
        let list = &claims.list;
        let settles = claims.settles;
        let lease = self.reports(list, settles, &mut reports, headroom, (now, deadline)).await;
        Decision::combine(reports, mem::take(&mut claims.lacking), lease.with_spread(spread))
    }

    /// The deadline of the store for a call that is made now, or `until`, if that is earlier.
    pub(super) fn deadline(self, until: Option<Instant>) -> Option<Instant> {
        let own = self.store.deadline();
        own.map(|own| until.map_or(own, |until| own.min(until)))
    }

    /// Writes one report for each claim, and returns the lease of the request. The caller
    /// passes the list, because returning it would copy it, and whether its claims settle.
    pub(super) async fn reports<P: Borrow<Arc<Policy>> + Clone>(
        self,
        claims: &[Claim<P>],
        settles: bool,
        reports: &mut Reports<P>,
        headroom: Headroom,
        (now, deadline): Moment,
    ) -> Lease {
        debug_assert!(claims.len() <= MAX_POLICIES, "the configuration bounds policies a route");
        if claims.is_empty() {
            return Lease::default();
        }
        let mut charges = Charges::new();
        claims.iter().for_each(|claim| claim.charge(&mut charges));
        let decided = self.store.apply_by(&charges, now, deadline).await;
        let mut answers = decided.answers.iter();
        let holding = self.store.holding();
        reports.extend(claims.iter().map(|claim| claim.read(&mut answers, holding, now)));
        if reports.iter().all(|report| report.verdict.admitted) {
            return Lease::new(claims, reports, settles, [decided.at, now]);
        }
        // Boxed, because further questions are rare and their futures are large.
        let at = match may_try_elastic(claims, reports, headroom) {
            true => Box::pin(self.try_elastic(claims, reports, (now, deadline))).await,
            false => decided.at,
        };
        let lease = Lease::new(claims, reports, settles, [at, now]);
        let mut undecided = Undecided::new(self, lease, now);
        if claims.iter().zip(&*reports).any(|(claim, report)| is_punished(claim, report)) {
            Box::pin(self.punish(claims, reports, (now, deadline))).await;
        }
        mem::take(&mut undecided.lease)
    }

    /// The same by counters in memory, at once. Claims whose policies need no second question are
    /// judged without a future, which takes longer to move than the judgement takes.
    pub fn judge_now<P: Borrow<Arc<Policy>> + Clone>(
        memory: &MemoryStore,
        mut claims: Claims<P>,
        headroom: Headroom,
        now: Timestamp,
    ) -> Decision<P> {
        let is_plain = |claim: &Claim<P>| {
            let policy = claim.policy();
            policy.penalty.is_none() && policy.elastic.is_none()
        };
        if !claims.list.iter().all(is_plain) {
            let judgement = Judge::in_memory(memory).judge(&mut claims, headroom, now);
            return judgement.now_or_never().expect("a judgement in memory is ready at once");
        }
        let report =
            |claim: &Claim<P>, answer: &Answer| claim.counted(answer, memory.holding(), now);
        let mut reports = Reports::new();
        match &*claims.list {
            [] => {}
            [claim] => reports.push(report(claim, &memory.take(&claim.within(), now))),
            list => {
                let charges: Charges<'_> = list.iter().map(Claim::within).collect();
                let answers = memory.decide(&charges, now);
                reports.extend(list.iter().zip(&answers).map(|(claim, it)| report(claim, it)));
            }
        }
        let lease = Lease::new(&claims.list, &reports, claims.settles, [now, now]);
        let lease = lease.with_spread(claims.spread());
        Decision::combine(reports, claims.lacking, lease)
    }

    /// Sends the charges once more, with the refused costs counted beyond the limits.
    async fn try_elastic<P: Borrow<Arc<Policy>> + Clone>(
        self,
        claims: &[Claim<P>],
        reports: &mut [Report<P>],
        (now, deadline): Moment,
    ) -> Timestamp {
        let mut charges = Charges::new();
        for (claim, report) in claims.iter().zip(&*reports) {
            let within = charges.len();
            claim.charge(&mut charges);
            if report.refuses() {
                if let Some(beyond) = claim.beyond() {
                    charges[within] = beyond;
                }
            }
        }
        let decided = self.store.apply_by(&charges, now, deadline).await;
        let is_refused =
            |(charge, it): (&Charge<'_>, &Answer)| charge.binding && !it.verdict.admitted;
        let is_admitted_beyond = !charges.iter().zip(&decided.answers).any(is_refused);
        let mut answers = decided.answers.iter();
        for (claim, report) in claims.iter().zip(reports) {
            let again = claim.read(&mut answers, self.store.holding(), now);
            if !report.refuses() {
                *report = again;
            } else if is_admitted_beyond {
                // Responses name the limit itself, so its numbers do not change.
                report.ruling = Ruling::Elastic;
                report.verdict.admitted = true;
                report.verdict.retry = Retry::Now;
                report.verdict.delay = again.verdict.delay;
                (report.source, report.at) = (again.source, again.at);
            }
        }
        decided.at
    }

    /// Counts refusals under policies with a penalty, and bans clients with too many.
    async fn punish<P: Borrow<Arc<Policy>> + Clone>(
        self,
        claims: &[Claim<P>],
        reports: &mut [Report<P>],
        (now, deadline): Moment,
    ) {
        let mut punished = SmallVec::<[_; 1]>::new();
        let mut refusals = SmallVec::<[_; 1]>::new();
        for (claim, report) in claims.iter().zip(reports) {
            if is_punished(claim, &*report) {
                if let Some(refusal) = claim.refusal() {
                    punished.push((claim, report));
                    refusals.push(refusal);
                }
            }
        }
        let counted = self.store.apply_by(&refusals, now, deadline).await;
        for ((claim, report), it) in punished.into_iter().zip(counted.answers) {
            if it.verdict.remaining == 0 {
                if let Some(charge) = claim.ban() {
                    let op = Op::Settle { reserved: 0, actual: 1, taken: counted.at };
                    self.store.correct(&[Correction { charge, source: it.source, op }], now);
                    // A client that waits only for the limit would still be banned.
                    let answers = self.store.apply_by(&[charge], now, deadline).await.answers;
                    answers.iter().for_each(|ban| report.ban(&ban.verdict));
                }
            }
        }
    }

    /// Settles the lease of a request after its response: releases the units in flight,
    /// corrects the cost, and gives back units that must not be counted. A cost that the
    /// ending does not contain stays as it was charged.
    pub fn end(self, lease: &Lease, ending: &Ending<'_>, now: Timestamp) {
        lease.measure(self.store.holding(), now);
        self.settle(lease, ending, now);
    }

    /// The same with these units for the policies of the lease.
    pub fn end_known(self, lease: &Lease, spent: &[u64], now: Timestamp) {
        lease.measure(self.store.holding(), now);
        self.store.correct(&lease.due_for(spent), now);
    }

    /// Gives back what was charged for a request that is not processed, see [`Op::Cancel`].
    pub fn give_back(self, lease: &Lease, now: Timestamp) {
        lease.measure(self.store.holding(), now);
        self.store.correct(&lease.due_back(), now);
    }

    pub(super) fn settle(self, lease: &Lease, ending: &Ending<'_>, now: Timestamp) {
        self.store.correct(&lease.due(ending), now);
    }
}

/// Whether there is a refusal, and room at the upstream can lift all of them.
fn may_try_elastic<P: Borrow<Arc<Policy>> + Clone>(
    claims: &[Claim<P>],
    reports: &[Report<P>],
    headroom: Headroom,
) -> bool {
    let may = |(claim, report): (&Claim<P>, &Report<P>)| {
        !report.refuses() || report.ruling == Ruling::Refused && claim.is_elastic_in(headroom)
    };
    reports.iter().any(Report::refuses) && claims.iter().zip(reports).all(may)
}

/// Whether the policy has refused the request and counts its refusals.
fn is_punished<P: Borrow<Arc<Policy>>>(claim: &Claim<P>, report: &Report<P>) -> bool {
    report.ruling == Ruling::Refused && claim.policy().penalty.is_some()
}

/// The lease of a request whose decision is not complete. If the client disconnects before,
/// the drop ends the lease.
#[derive(Debug)]
struct Undecided<'l> {
    judge: Judge<'l>,
    lease: Lease,
    now: Timestamp,
}

impl<'l> Undecided<'l> {
    const fn new(judge: Judge<'l>, lease: Lease, now: Timestamp) -> Self {
        Self { judge, lease, now }
    }
}

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        if !self.lease.is_empty() {
            // The request had no response, so its time is not measured.
            self.judge.settle(&self.lease, &Ending::ABANDONED, self.now);
        }
    }
}

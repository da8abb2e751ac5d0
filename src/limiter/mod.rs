//! Deciding: all policies of a route at once, and what clients are told of it.
//!
//! Keys, limits and costs come from the rules, states from the store, and what
//! the verdicts come to is a pure function. Here is only what joins them, in at
//! most three steps, of which all but the first are rare. Before them stand the
//! limits of single keys, where a policy may have such (`overrides`).
//!
//! 1. All policies are asked together, and whether the client is banned by one
//!    of them. If all admit the request, it is counted, otherwise nothing is.
//! 2. If only elastic policies refuse, and the upstream has room, the request is
//!    asked for once more, with what they refused counted beyond their limits.
//! 3. A refusal by a policy with a penalty is counted, and may bring a ban.

mod claim;
mod decision;
mod headers;
mod lease;
mod overrides;
mod report;
mod room;
mod settings;
#[cfg(test)]
mod tests;

use std::mem;
use std::time::Instant;

use smallvec::SmallVec;

pub use decision::{Decision, Lacking, Outcome};
pub use headers::{HeaderWriter, X_RATELIMIT_SOFT};
pub use lease::{Ending, Lease};
pub use report::{Report, Reports, Ruling};
pub use room::Room;
pub use settings::{Dialect, HeaderSettings};

use self::claim::{Charges, Claim, Claims};
use self::lease::Undecided;
use self::overrides::Misfits;
use crate::algorithm::{Op, Retry};
use crate::rules::{KeyFor, Mode, Subject};
use crate::store::overrides::Overrides;
use crate::store::{Answer, Charge, Correction, Store};
use crate::time::Timestamp;

/// When a request is decided: the time by this node's clock, and by when all that
/// is asked for it must be answered.
type Moment = (Timestamp, Option<Instant>);

/// The most policies that may judge one request.
pub const MAX_POLICIES: usize = 16;

/// Decides over requests by counting them in a store.
#[derive(Debug)]
pub struct RateLimiter {
    store: Store,
    overrides: Option<Overrides>,
    misfits: Misfits,
}

impl RateLimiter {
    /// Counts in this store. No key has a limit of its own.
    pub fn new(store: Store) -> Self {
        Self { store, overrides: None, misfits: Misfits::default() }
    }

    /// Goes by the limits of single keys that are kept there.
    pub fn with_overrides(self, overrides: Option<Overrides>) -> Self {
        Self { overrides, ..self }
    }

    /// Where it counts.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// What must be done now and then, whether requests come or not.
    pub fn housekeep(&self, now: Timestamp) {
        self.store.housekeep(now);
    }

    /// Ends this worker's part of the store.
    pub async fn close(&self, now: Timestamp) {
        self.store.close(now).await;
    }

    /// What all policies of the subject's route say, and what becomes of the
    /// request. If it is admitted, every policy that enforces its limit has
    /// counted it; if it is refused, none has.
    ///
    /// The lease of an admitted request must be [ended](Self::end). Where the future
    /// is dropped before, nothing stays in flight.
    pub async fn decide<'r>(
        &self,
        subject: &Subject<'r, '_>,
        room: Room,
        now: Timestamp,
    ) -> Decision<'r> {
        // Of all that is asked for one request, nothing is waited for after that.
        let deadline = self.store.deadline();
        let (mut claims, mut lacking) = (Claims::new(), Lacking::new());
        for policy in &subject.route().policies {
            let policy = subject.judging(policy);
            let outcome = match subject.key(policy) {
                KeyFor::Key(key) => {
                    claims.extend(Claim::new(subject, policy, key));
                    continue;
                }
                KeyFor::Exempt => continue,
                KeyFor::Denied => Outcome::Deny(policy),
                KeyFor::Unverifiable => Outcome::Unverifiable(policy, decision::RETRY_KEYS),
                KeyFor::Ambiguous => Outcome::Ambiguous(policy),
                KeyFor::Unauthorized(fault) => Outcome::Unauthorized(policy, fault),
            };
            match policy.mode {
                Mode::Enforce => return Decision::uncounted(outcome),
                Mode::Shadow => lacking.push(policy),
            }
        }
        if let Some(overrides) = &self.overrides {
            let moment = (now, deadline);
            overrides::apply(overrides, &self.misfits, &mut claims, subject, moment).await;
        }
        let mut reports = Reports::new();
        let lease = self.judge(&claims, &mut reports, room, (now, deadline)).await;
        Decision::combine(reports, lacking, lease)
    }

    /// What becomes of the claims, one report for each, and what the request owes.
    /// Into a list of the caller's, because to return it would copy it on the way.
    async fn judge<'r>(
        &self,
        claims: &[Claim<'r>],
        reports: &mut Reports<'r>,
        room: Room,
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
        reports.extend(claims.iter().map(|claim| claim.read(&mut answers, holding)));
        if reports.iter().all(|report| report.verdict.admitted) {
            return Lease::new(claims, reports, decided.at, now);
        }
        let at = match may_stretch(claims, reports, room) {
            true => self.stretch(claims, reports, (now, deadline)).await,
            false => decided.at,
        };
        let mut undecided = Undecided::new(self, Lease::new(claims, reports, at, now), now);
        self.punish(claims, reports, (now, deadline)).await;
        mem::take(&mut undecided.lease)
    }

    /// Asks once more, with the costs that are refused counted beyond the limits.
    async fn stretch<'r>(
        &self,
        claims: &[Claim<'r>],
        reports: &mut [Report<'r>],
        (now, deadline): Moment,
    ) -> Timestamp {
        let mut charges = Charges::new();
        for (claim, report) in claims.iter().zip(&*reports) {
            let within = charges.len();
            claim.charge(&mut charges);
            if report.refuses()
                && let Some(beyond) = claim.beyond()
            {
                charges[within] = beyond;
            }
        }
        let decided = self.store.apply_by(&charges, now, deadline).await;
        let is_refused =
            |(charge, it): (&Charge<'_>, &Answer)| charge.binding && !it.verdict.admitted;
        let is_stretched = !charges.iter().zip(&decided.answers).any(is_refused);
        let mut answers = decided.answers.iter();
        for (claim, report) in claims.iter().zip(reports) {
            let again = claim.read(&mut answers, self.store.holding());
            if !report.refuses() {
                *report = again;
            } else if is_stretched {
                // What the client is promised is the limit: its numbers stay.
                report.ruling = Ruling::Elastic;
                report.verdict.admitted = true;
                report.verdict.retry = Retry::Now;
                report.verdict.delay = again.verdict.delay;
                report.source = again.source;
            }
        }
        decided.at
    }

    /// Counts refusals where they have a penalty, and bans who has had too many.
    async fn punish<'r>(
        &self,
        claims: &[Claim<'r>],
        reports: &mut [Report<'r>],
        (now, deadline): Moment,
    ) {
        let (mut punished, mut refusals) = (SmallVec::<[_; 1]>::new(), SmallVec::<[_; 1]>::new());
        for (claim, report) in claims.iter().zip(reports) {
            if report.ruling == Ruling::Refused
                && let Some(refusal) = claim.refusal()
            {
                punished.push((claim, report));
                refusals.push(refusal);
            }
        }
        if refusals.is_empty() {
            return;
        }
        let counted = self.store.apply_by(&refusals, now, deadline).await;
        for ((claim, report), it) in punished.into_iter().zip(counted.answers) {
            if it.verdict.remaining == 0
                && let Some(charge) = claim.ban()
            {
                let op = Op::Settle { reserved: 0, actual: 1, taken: counted.at };
                self.store.correct(&[Correction { charge, source: it.source, op }], now);
                // One who obeyed the wait of the limit would meet the ban.
                let answers = self.store.apply_by(&[charge], now, deadline).await.answers;
                answers.iter().for_each(|ban| *report = report.banned(&ban.verdict));
            }
        }
    }

    /// Settles what a request owes now that its response has ended: releases what
    /// it had in flight, corrects what it has cost, and gives back what was not
    /// to be counted. What the ending does not tell stays charged.
    pub fn end(&self, lease: &Lease, ending: &Ending<'_>, now: Timestamp) {
        lease.measure(self.store.holding(), now);
        self.settle(lease, ending, now);
    }

    fn settle(&self, lease: &Lease, ending: &Ending<'_>, now: Timestamp) {
        self.store.correct(&lease.due(ending), now);
    }
}

/// Whether room upstream makes up for all that is refused, if anything is.
fn may_stretch(claims: &[Claim<'_>], reports: &[Report<'_>], room: Room) -> bool {
    let may = |(claim, report): (&Claim<'_>, &Report<'_>)| {
        !report.refuses() || report.ruling == Ruling::Refused && claim.stretches(room)
    };
    reports.iter().any(Report::refuses) && claims.iter().zip(reports).all(may)
}

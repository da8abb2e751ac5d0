//! What a policy has charged for a request, in a form that can leave the process.
//!
//! Any node with the same policies and the same store can settle it later.

use std::borrow::Borrow;
use std::sync::Arc;

use super::watch::{Movement, Watch};
use super::{RateLimiter, Report, Ruling};
use crate::algorithm::{Algorithm, MAX_LIMIT, Op};
use crate::consistency::Consistency;
use crate::digest::{Counter, Key, Principal};
use crate::policy::{Beside, LimitChoice, PlanId, Policy};
use crate::store::{Charge, Correction, Mark, Marked, Source, StoreUnavailable, Told};
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
    /// When their server counted them. None: at the time of the decision.
    pub at: Option<Timestamp>,
}

/// The limit under which units were charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargedLimit {
    /// The policy's own.
    Own,
    /// That of a plan.
    Plan(PlanId),
    /// One of the key alone: units in a window.
    Key(u64, Span),
}

/// The counter of a charge, under its policy as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargedCounter {
    key: Key,
    algorithm: Algorithm,
    /// The limit that responses name.
    limit: u64,
    consistency: Consistency,
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
        let plan = policy.plans.as_ref().and_then(|plans| plans.chosen(report.choice));
        let limit = match (report.owner.is_some(), plan) {
            (true, _) => ChargedLimit::Key(report.verdict.limit, report.window),
            (false, Some(plan)) => ChargedLimit::Plan(plan),
            (false, None) => ChargedLimit::Own,
        };
        let client = report.client;
        let cost = report.cost;
        let source = report.source;
        let at = report.at;
        Some(Self { policy: policy.counter, client, limit, is_beyond, cost, source, at })
    }

    /// Its counter. `policy` is the policy of the charge as it is now. None: the policy has
    /// changed, and has no such counter any more.
    pub fn counter(&self, policy: &Policy) -> Option<ChargedCounter> {
        let own = Key { principal: self.client, counter: self.policy };
        let by_choice = |choice| {
            let limit = policy.limit(choice);
            (own, limit.widest().clone(), limit.algorithm.limit())
        };
        let (key, algorithm, limit) = match self.limit {
            _ if self.is_beyond => {
                let beyond = &policy.elastic.as_ref()?.beyond;
                (Beside::Beyond.key(own, beyond), beyond.clone(), beyond.limit())
            }
            ChargedLimit::Own => by_choice(LimitChoice::Own),
            ChargedLimit::Plan(plan) => {
                let choice = policy.plans.as_ref().map(|plans| plans.choice(plan));
                by_choice(choice.unwrap_or(LimitChoice::Own))
            }
            ChargedLimit::Key(units, window) => {
                let limit = policy.override_limit(units, Some(window)).ok()?;
                let key = Key { counter: limit.counter, ..own };
                (key, limit.widest().clone(), limit.algorithm.limit())
            }
        };
        Some(ChargedCounter { key, algorithm, limit, consistency: policy.consistency })
    }
}

/// A settlement that is made once, however often it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct MarkedSettlement<'a> {
    /// What was charged.
    pub charged: &'a Charged,
    /// The policy that has charged it.
    pub policy: &'a Arc<Policy>,
    /// The counter that was charged.
    pub counter: &'a ChargedCounter,
    /// The mark that tells whether the settlement was made before.
    pub mark: &'a Mark,
    /// When the units were charged, by the clock of the store.
    pub taken: Timestamp,
    /// The units that the request has cost.
    pub actual: u64,
}

impl RateLimiter {
    /// Settles units, and sets the mark in the same step. If it was set before, nothing changes.
    /// `told` learns what the settlement does to the limit, as by [`end_told`](Self::end_told).
    ///
    /// # Errors
    /// If the store does not answer. The same call again is safe.
    pub async fn settle_once(
        &self,
        settlement: MarkedSettlement<'_>,
        now: Timestamp,
        told: impl Fn(Movement) + 'static,
    ) -> Result<Marked, StoreUnavailable> {
        let MarkedSettlement { charged, policy, counter, mark, taken, actual } = settlement;
        let ChargedCounter { key, ref algorithm, limit, consistency } = *counter;
        let Charged { cost, source, .. } = *charged;
        let charge = Charge { key, algorithm, cost, binding: false, consistency };
        // At most twice the limit is counted.
        let actual = actual.min(2 * MAX_LIMIT);
        let op = Op::Settle { reserved: cost, actual, taken };
        let correction = Correction { charge, source, op };
        // Units beyond the limit have a counter of their own.
        let watch = match charged.is_beyond {
            false => Watch::new(policy, limit, &correction),
            true => None,
        };
        let told = watch
            .map(|watch| -> Told { Box::new(move |moved| watch.movements(moved).for_each(told)) });
        self.store().as_ref().correct_once(&correction, mark, now, told).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Quota, Retry, TokenBucket, Verdict};
    use crate::decision::claim::Claim;
    use crate::decision::tests::{fixed, policy};
    use crate::policy::{Elastic, Overridable, Plan, Plans};
    use crate::store::Answer;

    const HOUR: Span = Span::from_secs(3600);

    fn admitted() -> Answer {
        let limit = 100;
        let remaining = 80;
        let retry = Retry::Now;
        let reset_after = Span::SECOND;
        let delay = Span::ZERO;
        let admitted = true;
        Answer::of_store(Verdict { admitted, limit, remaining, retry, reset_after, delay })
    }

    /// The policy with each kind of limit that a claim can have.
    fn claims() -> Vec<Claim<Arc<Policy>>> {
        let own = policy("own", 100, HOUR);
        let soft = Policy { soft: Some(fixed(110, HOUR)), ..policy("soft", 100, HOUR) };
        let limited = Plan::Limited { algorithm: fixed(500, HOUR), soft: Some(fixed(550, HOUR)) };
        let plans = Plans { from: own.key.clone(), limits: vec![("pro".into(), limited)] };
        let planned = Policy { plans: Some(plans), ..policy("planned", 100, HOUR) };
        let quota = Quota::new(100, HOUR).expect("it is one");
        let bucket = Algorithm::TokenBucket(TokenBucket::new(quota, 20).expect("it is one"));
        let overridable = Policy {
            algorithm: bucket,
            overrides: Some(Overridable::new("bucket", 10)),
            ..policy("bucket", 100, HOUR)
        };
        let cases = [
            (own, LimitChoice::Own, None),
            (soft, LimitChoice::Own, None),
            (planned, LimitChoice::Plan(0), None),
            (overridable.clone(), LimitChoice::Own, Some((300, None))),
            (overridable, LimitChoice::Unlimited, Some((300, Some(Span::DAY)))),
        ];
        let claim = |(policy, limit, instead): (Policy, _, Option<(u64, Option<Span>)>)| {
            let key = Key { principal: Principal::from_bits(7), counter: policy.counter };
            let instead = instead.map(|(units, window)| {
                Box::new(policy.override_limit(units, window).expect("it can be counted"))
            });
            Claim { instead, ..Claim::known(Arc::new(policy), key, limit, 5) }
        };
        cases.into_iter().map(claim).collect()
    }

    #[test]
    fn a_charge_is_found_again_by_its_report() {
        for claim in claims() {
            let charge = claim.within();
            let report = claim.report(&admitted(), None, Timestamp::default());
            let report = match &claim.instead {
                None => report,
                // The store has judged by this limit.
                Some(limit) => Report {
                    verdict: Verdict { limit: limit.algorithm.limit(), ..report.verdict },
                    ..report
                },
            };
            let charged = Charged::of(&report).expect("it is admitted");
            let counter = charged.counter(claim.policy()).expect("it is known");
            assert_eq!(
                (counter.key, &counter.algorithm),
                (charge.key, charge.algorithm),
                "{}",
                claim.policy().name
            );
            assert_eq!((charged.cost, charged.source), (5, Source::Store));
            for ruling in [Ruling::Refused, Ruling::Banned, Ruling::FailedOpen] {
                assert_eq!(Charged::of(&Report { ruling, ..report.clone() }), None);
            }
        }
    }

    /// The index of a plan was once kept, which means another plan after a change of the file.
    #[test]
    fn a_charge_under_a_plan_is_found_again_after_plans_were_reordered() {
        let limited = |limit| Plan::Limited { algorithm: fixed(limit, HOUR), soft: None };
        let with = |names: &[(&str, u64)]| {
            let own = policy("planned", 100, HOUR);
            let limits = names.iter().map(|(name, limit)| ((*name).into(), limited(*limit)));
            let plans = Plans { from: own.key.clone(), limits: limits.collect() };
            Policy { plans: Some(plans), ..own }
        };
        let before = with(&[("free", 10), ("pro", 500)]);
        let key = Key { principal: Principal::from_bits(7), counter: before.counter };
        let policy = Arc::new(before);
        let limit = LimitChoice::Plan(1);
        let claim = Claim::known(policy, key, limit, 5);
        let charged = Charged::of(&claim.report(&admitted(), None, Timestamp::default()))
            .expect("it is admitted");
        let limit = |names: &[(&str, u64)]| {
            let counter = charged.counter(&with(names)).expect("it is known");
            assert_eq!(counter.key, key);
            counter.algorithm.limit()
        };
        assert_eq!(limit(&[("pro", 500), ("free", 10)]), 500);
        assert_eq!(limit(&[("new", 1), ("free", 10), ("pro", 600)]), 600);
        assert_eq!(limit(&[("free", 10), ("other", 20)]), 100, "the plan is gone");
        assert_eq!(limit(&[]), 100);
    }

    #[test]
    fn units_beyond_a_limit_are_found_again() {
        let beyond = fixed(900, Span::from_secs(60));
        let elastic = Elastic { beyond, latency_below: None, in_flight_below_percent: None };
        let policy = Policy { elastic: Some(elastic), ..policy("p", 100, HOUR) };
        let key = Key { principal: Principal::from_bits(7), counter: policy.counter };
        let policy = Arc::new(policy);
        let limit = LimitChoice::Own;
        let claim = Claim::known(policy, key, limit, 5);
        let report = claim.report(&admitted(), None, Timestamp::default());
        let charged = Charged::of(&Report { ruling: Ruling::Elastic, ..report });
        let charged = charged.expect("it is admitted");
        let found = charged.counter(claim.policy()).expect("it is known");
        let beyond = claim.beyond().expect("it is elastic");
        assert_eq!((found.key, &found.algorithm), (beyond.key, beyond.algorithm));
        // The counter of the policy itself has not counted them.
        let inelastic = Policy { elastic: None, ..Policy::clone(claim.policy()) };
        assert_eq!(charged.counter(&inelastic), None);
    }
}

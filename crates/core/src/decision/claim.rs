//! The charges of one policy for one request, and its report from the answers. Pure.

use std::borrow::Borrow;
use std::slice;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Headroom, Reading, Report, Ruling, Uncountable};
use crate::algorithm::{Algorithm, Retry, Verdict};
use crate::digest::Key;
use crate::policy::{
    Beside, Elastic, Estimate, Limit, LimitChoice, Mode, OverrideLimit, OwnLimit, Policy, Subject,
};
use crate::store::{Answer, Charge, HoldingTimes, Source};
use crate::time::{Span, Timestamp};

/// All charges of a request. A list of up to four is not allocated.
pub(super) type Charges<'r> = SmallVec<[Charge<'r>; 4]>;

/// One claim for each policy that judges a request, in the route's order. Claims of several
/// policies are allocated: a list with space for them would be copied at every move.
pub(super) type ClaimList<P> = SmallVec<[Claim<P>; 1]>;

/// What one policy charges for one request. `P` borrows the policy or
/// owns it.
#[derive(Clone, Debug)]
pub(super) struct Claim<P> {
    pub(super) policy: P,
    /// The client's counter under the policy's own window.
    pub(super) key: Key,
    /// The client's limit, unless it has an override.
    pub(super) limit: LimitChoice,
    /// The limit of this key alone, if it has one.
    pub(super) instead: Option<Box<OverrideLimit>>,
    /// A limit of this key does not fit the policy and is ignored.
    pub(super) ignores_limit: bool,
    /// The units that the request costs.
    pub(super) cost: u64,
    /// Whether at most the limit of the client is charged of them: they are an estimate, or a number
    /// without a bound that the request names.
    pub(super) is_capped: bool,
    /// What the request is expected to use, if that determines the cost.
    pub(super) estimate: Option<Box<Estimate>>,
}

impl<P> Claim<P> {
    /// The claim of a known client, without a limit of its own.
    pub(super) const fn known(policy: P, key: Key, limit: LimitChoice, cost: u64) -> Self {
        Self {
            policy,
            key,
            limit,
            instead: None,
            ignores_limit: false,
            cost,
            is_capped: false,
            estimate: None,
        }
    }
}

impl<'r> Claim<&'r Arc<Policy>> {
    /// The claim of `policy` for the subject's request, whose counter is `key`. None if the
    /// client has no limit. If keys can have limits of their own, this is not known yet, so
    /// the result is a claim.
    ///
    /// # Errors
    /// If the policy cannot count the request.
    pub(super) fn new(
        subject: &Subject<'_, '_>,
        policy: &'r Arc<Policy>,
        key: Key,
    ) -> Result<Option<Self>, Uncountable> {
        let own = subject.own_limit(policy);
        let ignores_limit = matches!(own, OwnLimit::Ignored);
        let (limit, instead) = match own {
            OwnLimit::Absent | OwnLimit::Ignored => (subject.limit(policy), None),
            OwnLimit::Unlimited => (LimitChoice::Unlimited, None),
            OwnLimit::Limited(own) => (subject.limit(policy), Some(own)),
            OwnLimit::Uncountable => return Err(Uncountable::KeyLimit),
        };
        if limit == LimitChoice::Unlimited && instead.is_none() && policy.overrides.is_none() {
            return Ok(None);
        }
        let estimate = subject.estimate(policy).map(Box::new);
        let cost = match &estimate {
            Some(estimate) => policy.cost.reserved(estimate),
            None => subject.cost(policy),
        };
        let is_capped = estimate.is_some() || subject.has_unbounded_cost(policy);
        let claim = Self { policy, key, limit, instead, ignores_limit, cost, is_capped, estimate };
        if claim.is_unpriced() { Err(Uncountable::Model) } else { Ok(Some(claim)) }
    }

    pub(super) fn into_owned(self) -> Claim<Arc<Policy>> {
        let Self { policy, key, limit, instead, ignores_limit, cost, is_capped, estimate } = self;
        let policy = Arc::clone(policy);
        Claim { policy, key, limit, instead, ignores_limit, cost, is_capped, estimate }
    }
}

impl<P: Borrow<Arc<Policy>>> Claim<P> {
    pub(super) fn policy(&self) -> &Arc<Policy> {
        self.policy.borrow()
    }

    /// Whether the client has a limit.
    pub(super) fn has_limit(&self) -> bool {
        self.instead.is_some() || self.limit != LimitChoice::Unlimited
    }

    /// The charge of the cost on the client's counter, up to the soft limit.
    pub(super) fn within(&self) -> Charge<'_> {
        let instead = self.instead.as_deref();
        Charge {
            key: instead.map_or(self.key, |it| Key { counter: it.counter, ..self.key }),
            algorithm: self.widest(),
            cost: self.cost(),
            binding: self.policy().mode == Mode::Enforce,
            consistency: self.policy().consistency,
        }
    }

    /// Whether the request uses a model without a price.
    fn is_unpriced(&self) -> bool {
        let estimate = self.estimate.as_ref().filter(|_| self.policy().cost.prices().is_some());
        estimate.is_some_and(|estimate| estimate.is_unpriced())
    }

    /// The units that are charged. Capped ones are at most the limit of the client, because a cost
    /// above the limit would be refused for ever.
    fn cost(&self) -> u64 {
        match self.is_capped {
            true => self.cost.min(self.algorithm().capacity().max(1)),
            false => self.cost,
        }
    }

    /// Whether both count by one limit. `other` has the same key.
    pub(super) fn has_limit_of(&self, other: &Self) -> bool {
        let own = self.policy();
        let policy = other.policy();
        // A limit that a question states makes a policy for this question alone.
        let is_one = Arc::ptr_eq(own, policy)
            || own.algorithm == policy.algorithm
                && own.soft == policy.soft
                && own.mode == policy.mode;
        is_one && self.limit == other.limit && self.instead == other.instead
    }

    /// The limit that holds for the client.
    fn holds(&self) -> Limit<'_> {
        match self.instead.as_deref() {
            Some(instead) => instead.limit(),
            None => self.policy().limit(self.limit),
        }
    }

    /// The limit that responses name.
    fn algorithm(&self) -> &Algorithm {
        self.holds().algorithm
    }

    /// The limit that decides: the soft limit, if there is one.
    fn widest(&self) -> &Algorithm {
        self.holds().widest()
    }

    /// What the policy admits beyond the limit. The limit of a single key is never raised.
    fn elastic(&self) -> Option<&Elastic> {
        self.policy().elastic.as_ref().filter(|_| self.instead.is_none())
    }

    /// The charge of the cost beyond the limit, if the policy is elastic.
    pub(super) fn beyond(&self) -> Option<Charge<'_>> {
        let algorithm = &self.elastic()?.beyond;
        Some(Charge { key: Beside::Beyond.key(self.key, algorithm), algorithm, ..self.within() })
    }

    /// The charge that checks whether the client is banned. It consumes nothing.
    pub(super) fn ban(&self) -> Option<Charge<'_>> {
        let algorithm = &self.policy().penalty.as_ref()?.ban;
        let key = Beside::Ban.key(self.key, algorithm);
        Some(Charge { key, algorithm, cost: 1, ..self.within() })
    }

    /// The charge of one refusal. It is not binding: the request is refused anyway.
    pub(super) fn refusal(&self) -> Option<Charge<'_>> {
        let algorithm = &self.policy().penalty.as_ref()?.after;
        let key = Beside::Refusals.key(self.key, algorithm);
        Some(Charge { key, algorithm, cost: 1, binding: false, ..self.within() })
    }

    /// Appends its charges: the cost, and then the ban.
    pub(super) fn charge<'c>(&'c self, charges: &mut Charges<'c>) {
        charges.push(self.within());
        charges.extend(self.ban());
    }

    /// Appends a charge for each counter that a decision may read or change.
    pub(super) fn counters<'c>(&'c self, charges: &mut Charges<'c>) {
        self.charge(charges);
        charges.extend(self.beyond());
        charges.extend(self.refusal());
    }

    /// The report of the policy. Takes the answers to its [charges](Self::charge), which
    /// are the next ones.
    pub(super) fn read(
        &self,
        answers: &mut slice::Iter<'_, Answer>,
        holding: &HoldingTimes,
        now: Timestamp,
    ) -> Report<P>
    where
        P: Clone,
    {
        let mut next = || answers.next().expect("a store gives one answer for each charge");
        let counted = next();
        let ban = self.policy().penalty.is_some().then(next);
        self.report(&self.estimated(counted, holding), ban, now)
    }

    /// The report of a policy without bans from the answer of its counter.
    pub(super) fn counted(
        &self,
        counted: &Answer,
        holding: &HoldingTimes,
        now: Timestamp,
    ) -> Report<P>
    where
        P: Clone,
    {
        self.report(&self.estimated(counted, holding), None, now)
    }

    /// The answer with the expected wait, if the algorithm cannot know the wait, because it does
    /// not depend on time.
    fn estimated(&self, counted: &Answer, holding: &HoldingTimes) -> Answer {
        let Answer { verdict, .. } = *counted;
        let verdict = match self.widest() {
            Algorithm::Concurrency(_) => {
                estimated(verdict, holding.wait(self.within().key.counter))
            }
            _ => verdict,
        };
        Answer { verdict, ..*counted }
    }

    /// Whether the policy lets the request go beyond its limit.
    pub(super) fn is_elastic_in(&self, headroom: Headroom) -> bool {
        self.elastic().is_some_and(|elastic| headroom.suffices(elastic))
    }

    /// The report of the policy from the answer of its counter, and of its ban if it has
    /// bans.
    pub(super) fn report(&self, counted: &Answer, ban: Option<&Answer>, now: Timestamp) -> Report<P>
    where
        P: Clone,
    {
        let Answer { verdict: ref counted, source, at } = *counted;
        let limit = self.holds();
        let algorithm = limit.algorithm;
        let Reading { used, remaining, is_over } = Reading::of(limit, counted, source);
        let verdict = Verdict { limit: algorithm.limit(), remaining, ..*counted };
        let is_over = is_over && self.cost() > 0;
        let ruling = match (counted.admitted, source) {
            (false, Source::Policy) => Ruling::FailedClosed,
            (true, Source::Policy) => Ruling::FailedOpen,
            (false, _) => Ruling::Refused,
            (true, _) if is_over => Ruling::Soft,
            (true, _) => Ruling::Admitted,
        };
        let mut report = Report {
            policy: self.policy.clone(),
            client: self.key.principal,
            ruling,
            verdict,
            source,
            at,
            used,
            cost: self.cost(),
            window: algorithm.window(),
            length: algorithm.length_at(now),
            choice: self.limit,
            owner: self.instead.as_deref().map(|it| it.owner),
            ignores_limit: self.ignores_limit,
        };
        if let Some(ban) = ban {
            if !ban.verdict.admitted && ban.source != Source::Policy {
                report.ban(&ban.verdict);
            }
        }
        report
    }
}

/// A verdict on units in flight, with the expected wait. The algorithm cannot know the
/// wait, because it does not depend on time.
fn estimated(verdict: Verdict, wait: Span) -> Verdict {
    let retry = match verdict.retry {
        Retry::After(_) => Retry::After(wait),
        other => other,
    };
    let reset_after = if verdict.reset_after.is_zero() { Span::ZERO } else { wait };
    Verdict { retry, reset_after, ..verdict }
}

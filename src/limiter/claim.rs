//! What one policy asks of the store for one request, and what it makes of the
//! answers. Pure.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Report, Reports, Room, Ruling};
use crate::algorithm::Verdict;
use crate::digest::Key;
use crate::rules::{Beside, Limit, Mode, Policy};
use crate::store::{Charge, Verdicts};

/// One claim for each policy that judges a request, in the route's order.
pub(super) type Claims<'r> = SmallVec<[Claim<'r>; 4]>;

/// What one policy asks of the store for one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<'r> {
    pub(super) policy: &'r Arc<Policy>,
    /// The client's counter.
    pub(super) key: Key,
    /// The client's limit.
    pub(super) limit: Limit<'r>,
    /// The units that the request costs.
    pub(super) cost: u64,
}

impl<'r> Claim<'r> {
    /// The cost, within all that is admitted on the policy's own counter.
    pub(super) fn within(&self) -> Charge<'r> {
        Charge {
            key: self.key,
            algorithm: self.limit.widest(),
            cost: self.cost,
            binding: self.policy.mode == Mode::Enforce,
        }
    }

    /// The cost, beyond the limit.
    pub(super) fn beyond(&self) -> Option<Charge<'r>> {
        let algorithm = &self.policy.elastic.as_ref()?.beyond;
        Some(Charge { key: Beside::Beyond.key(self.key, algorithm), algorithm, ..self.within() })
    }

    /// The question whether the client is banned. It consumes nothing.
    pub(super) fn ban(&self) -> Option<Charge<'r>> {
        let algorithm = &self.policy.penalty.as_ref()?.ban;
        let key = Beside::Ban.key(self.key, algorithm);
        Some(Charge { key, algorithm, cost: 1, ..self.within() })
    }

    /// One refusal. It binds nothing: the request is refused anyway.
    pub(super) fn refusal(&self) -> Option<Charge<'r>> {
        let algorithm = &self.policy.penalty.as_ref()?.after;
        let key = Beside::Refusals.key(self.key, algorithm);
        Some(Charge { key, algorithm, cost: 1, binding: false })
    }

    /// Whether the policy lets the request go beyond its limit.
    pub(super) fn stretches(&self, room: Room) -> bool {
        self.policy.elastic.as_ref().is_some_and(|elastic| room.suffices(elastic))
    }

    /// What the policy says, by its counter and by its ban, if it has bans.
    pub(super) fn report(&self, counted: Verdict, ban: Option<Verdict>) -> Report<'r> {
        let Limit { algorithm, .. } = self.limit;
        let widest = self.limit.widest();
        // One counter with two thresholds, so they are always as far apart.
        let margin = widest.capacity().saturating_sub(algorithm.capacity());
        let verdict = Verdict {
            limit: algorithm.limit(),
            remaining: counted.remaining.saturating_sub(margin),
            ..counted
        };
        let is_over = self.cost > 0 && counted.remaining < margin;
        let ruling = match counted.admitted {
            false => Ruling::Refused,
            true if is_over => Ruling::Soft,
            true => Ruling::Admitted,
        };
        let used = widest.capacity().saturating_sub(counted.remaining);
        let report = Report { policy: self.policy, ruling, verdict, used, cost: self.cost };
        match ban {
            Some(ban) if !ban.admitted => report.banned(&ban),
            _ => report,
        }
    }
}

/// All charges of these claims, each with the question about its ban behind it.
pub(super) fn charges<'r>(claims: &[Claim<'r>]) -> SmallVec<[Charge<'r>; 4]> {
    claims.iter().flat_map(|claim| std::iter::once(claim.within()).chain(claim.ban())).collect()
}

/// What the verdicts on these claims' [`charges`] come to.
pub(super) fn reports<'r>(claims: &[Claim<'r>], verdicts: Verdicts) -> Reports<'r> {
    let mut verdicts = verdicts.into_iter();
    let mut next = || verdicts.next().expect("a store gives one verdict for each charge");
    let report = |claim: &Claim<'r>| {
        let counted = next();
        let ban = claim.policy.penalty.is_some().then(&mut next);
        claim.report(counted, ban)
    };
    claims.iter().map(report).collect()
}

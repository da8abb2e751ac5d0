//! Decisions of our own log, made again: by the same keys and costs, at the same times.

use futures_util::FutureExt as _;
use smallvec::SmallVec;
use tollgate_core::decision::{Headroom, KnownClaim, Lease};
use tollgate_core::policy::{LimitChoice, Plan, Policy, Preflights};
use tollgate_core::time::{Span, Timestamp};

use super::{Fate, Open, Trial};
use crate::entry::Entry;
use crate::known_entry::{EntryKey, KnownEntry, LoggedResult};
use crate::refused::ClientName;

/// An upstream that has room.
const ROOM: Headroom =
    Headroom { latency: Some(Span::ZERO), in_flight_percent: Some(0), slowing: false };

impl Trial {
    /// Decides over a request by what our own log says of its decision. Times do not go back.
    pub(crate) fn judge_known(
        &mut self,
        entry: &Entry,
        known: &KnownEntry,
        now: Timestamp,
    ) -> Fate {
        self.end_until(now);
        match known.result {
            LoggedResult::DeniedByList => {
                self.counts.totals.denied += 1;
                return Fate::NotJudged;
            }
            LoggedResult::NotJudged if known.keys.is_empty() => return Fate::NotJudged,
            LoggedResult::Denied => {
                self.counts.totals.add(now, true, Span::ZERO);
                return Fate::Refused;
            }
            _ => {}
        }
        let mut unfit_limits = 0;
        let claims = known.keys.iter().filter_map(|key| {
            let policy = self.policies.get(self.counts.index_of(&key.policy)?)?;
            let policy = match &policy.preflights {
                Preflights::Bounded(bounded) if key.is_preflight => bounded,
                _ => policy,
            };
            let own = key.own_limit.map(|(units, window)| policy.override_limit(units, window));
            unfit_limits += u64::from(matches!(own, Some(Err(_))));
            let own = own.and_then(Result::ok);
            let limit = choice(policy, key);
            let is_limited = own.is_some() || limit != LimitChoice::Unlimited;
            let client = key.client;
            let cost = key.cost;
            is_limited.then_some(KnownClaim { policy, client, limit, instead: own, cost })
        });
        let is_elastic = known.keys.iter().any(|key| key.is_elastic);
        let headroom = if is_elastic { ROOM } else { Headroom::default() };
        let decision = self.limiter.decide_known(claims, headroom, now);
        let mut decision = decision.now_or_never().expect("a memory store answers at once");
        self.counts.totals.unfit_limits += unfit_limits;
        let name_of = |client| {
            let key = known.keys.iter().find(|key| key.client == client);
            key.map_or(ClientName::Address(entry.client()), |key| ClientName::Id(key.id))
        };
        let fate = self.counts.add(&decision, entry.client(), name_of, now);
        self.counts.totals.compare(known, fate, decision.binding().map(|it| it.verdict.remaining));
        let lease = std::mem::take(&mut decision.lease);
        let delay = decision.delay;
        drop(decision);
        self.open(lease, |lease, sequence| {
            Open::known(lease, entry, known, now.plus(delay), sequence)
        });
        fate
    }
}

/// The limit of the policy that holds.
fn choice(policy: &Policy, key: &EntryKey) -> LimitChoice {
    let plans = policy.plans.iter().flat_map(|plans| &plans.limits);
    let named = plans.enumerate().find(|(_, (name, _))| key.plan.as_deref() == Some(&**name));
    match named {
        Some((_, (_, Plan::Unlimited))) => LimitChoice::Unlimited,
        Some((index, _)) => LimitChoice::Plan(index),
        None if policy.is_unlimited => LimitChoice::Unlimited,
        None => LimitChoice::Own,
    }
}

impl Open {
    /// A request that was settled when the log says, or otherwise when it has ended.
    fn known(
        lease: Lease,
        entry: &Entry,
        known: &KnownEntry,
        forwarded: Timestamp,
        sequence: u64,
    ) -> Self {
        let mut open = Self::of(lease, entry, forwarded, sequence);
        let Some(settled) = known.settled else { return open };
        let units = |policy: &str| {
            let key = known.keys.iter().find(|key| *key.policy == *policy);
            key.map_or(0, |key| key.settled.unwrap_or(key.cost))
        };
        let spent: SmallVec<[u64; 2]> =
            open.lease.policies().map(|policy| units(&policy.name)).collect();
        (open.end, open.spent) = (settled, Some(spent));
        open
    }
}

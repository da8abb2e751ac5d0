//! The lease of one node on one key: its units, and how many it takes next.

use std::mem;

use tollgate_core::algorithm::{Algorithm, Op, Retry, State, Verdict};
use tollgate_core::digest::Key;
use tollgate_core::store::{Charge, LeaseUnits};
use tollgate_core::time::{Span, Timestamp};

use crate::shared::ask::Ahead;
use crate::shared::deny::FRESH_FOR;

/// No units are taken ahead from the last fifth of the capacity.
const RESERVE_DIVISOR: u64 = 5;
/// Unspent units are returned if they are at least this part of the capacity. Fewer are
/// not worth the call.
const RETURN_DIVISOR: u64 = 200;
/// After this many lease lengths without a call a key counts as new.
const IDLE_LENGTHS: u64 = 4;
/// The whole of a share.
const WHOLE: u16 = 1024;

/// How a lease decides a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// Its units were taken ahead and are now spent, without a call.
    Spent(Verdict),
    /// The store has just refused the same cost, and is not asked again so soon.
    Refused(Verdict),
    /// The store must be asked.
    Ask(Ahead),
}

/// The lease of one node on one key.
#[derive(Debug)]
pub(super) struct Lease {
    algorithm: Algorithm,
    length: Span,
    /// Units taken ahead and not spent, when they were taken, and when they expire.
    left: u64,
    taken: Timestamp,
    until: Timestamp,
    /// The units of the present lease when it began.
    granted: u64,
    /// What became of units since the ledger has last looked.
    pub(super) units: LeaseUnits,
    /// The store's state after the last call, and when that was.
    after: Option<State>,
    asked: Timestamp,
    /// The units of that call, and the units that requests needed since then.
    brought: u64,
    demand: u64,
    /// This node's share of the units that all nodes take.
    share_1024: u16,
    /// Until then a call that takes units ahead is pending.
    awaited_until: Timestamp,
    /// This cost, and every higher cost, is refused until then.
    held: (u64, Timestamp),
}

impl Lease {
    /// The lease of a new key. It has no units.
    pub(super) fn new(algorithm: &Algorithm, length: Span) -> Self {
        Self {
            algorithm: algorithm.clone(),
            length,
            left: 0,
            granted: 0,
            units: LeaseUnits::default(),
            taken: Timestamp::default(),
            until: Timestamp::default(),
            after: None,
            asked: Timestamp::default(),
            brought: 0,
            demand: 0,
            share_1024: WHOLE / 2,
            awaited_until: Timestamp::default(),
            held: (0, Timestamp::default()),
        }
    }

    /// Spends `cost` units of the lease, or returns why that is not possible.
    pub(super) fn spend(&mut self, cost: u64, now: Timestamp, slack: Span) -> Spending {
        self.demand = self.demand.saturating_add(cost);
        if now < self.until && cost <= self.left {
            self.left -= cost;
            return Spending::Spent(self.verdict(now));
        }
        if self.holds(cost, now.plus(slack)) {
            let (_, known) = self.algorithm.apply(self.after.as_ref(), Op::Take(cost), now);
            let retry = known.retry.max(Retry::After(self.held.1.since(now)));
            let verdict = Verdict { admitted: false, remaining: 0, retry, ..self.verdict(now) };
            return Spending::Refused(verdict);
        }
        Spending::Ask(self.ask(cost, now))
    }

    /// Whether a refusal holds, so that the store is not asked for this cost.
    fn holds(&self, cost: u64, now: Timestamp) -> bool {
        let (held_cost, held_until) = self.held;
        now < held_until && cost >= held_cost
    }

    /// Whether the lease was taken under this limit.
    pub(super) fn counts_as(&self, algorithm: &Algorithm) -> bool {
        self.algorithm == *algorithm
    }

    /// Changes the limit of the key. Refusals and units under the old limit are not valid
    /// any more, so unspent units are returned.
    pub(super) fn change(
        &mut self,
        key: Key,
        algorithm: &Algorithm,
        now: Timestamp,
    ) -> Option<Return> {
        let ended = self.end(key, now);
        self.algorithm = algorithm.clone();
        self.held = (0, Timestamp::default());
        self.brought = 0;
        ended
    }

    /// Puts back units that a refused request had spent at `spent`, if they are of this
    /// lease and it has not ended.
    pub(super) fn put_back(&mut self, cost: u64, spent: Timestamp, now: Timestamp) -> Verdict {
        if now < self.until && spent >= self.taken {
            self.left = self.left.saturating_add(cost);
        }
        self.verdict(now)
    }

    /// The verdict on a charge that the lease pays. It reports the units of the lease and
    /// those that the store had left after the last call.
    fn verdict(&self, now: Timestamp) -> Verdict {
        let (_, seen) = self.algorithm.apply(self.after.as_ref(), Op::Peek, now);
        let left = if now < self.until { self.left } else { 0 };
        let remaining = seen.remaining.saturating_add(left).min(self.algorithm.capacity());
        Verdict { admitted: true, remaining, retry: Retry::Now, ..seen }
    }

    fn ask(&mut self, cost: u64, now: Timestamp) -> Ahead {
        let elapsed = now.since(self.asked).as_micros().max(1);
        let length = self.length.as_micros();
        // Only one call at a time takes units ahead.
        if elapsed > IDLE_LENGTHS * length || now < self.awaited_until {
            return Ahead::NOTHING;
        }
        let wanted = (u128::from(self.demand) * u128::from(length)).div_ceil(elapsed.into());
        let capacity = self.algorithm.capacity();
        let extra = u64::try_from(wanted).unwrap_or(u64::MAX).min(capacity).saturating_sub(cost);
        if extra > 0 {
            self.awaited_until = now.plus(self.length);
        }
        let reserve = capacity.div_ceil(RESERVE_DIVISOR);
        Ahead { extra, reserve, share_1024: self.share_1024 / 2 }
    }

    /// Records the store's reply to a call that took `ahead`: at `at`, by its clock, its state
    /// was `before`. Returns the verdict for the caller. If a new lease begins, returns the
    /// unspent units of the old one as well.
    pub(super) fn answered(
        &mut self,
        charge: &Charge<'_>,
        ahead: Ahead,
        before: Option<&State>,
        at: Timestamp,
    ) -> (Verdict, Option<Return>) {
        let &Charge { key, algorithm, cost, .. } = charge;
        if self.algorithm != *algorithm {
            self.algorithm = algorithm.clone();
        }
        if ahead.extra > 0 {
            self.awaited_until = Timestamp::default();
        }
        let (_, verdict) = algorithm.apply(before, Op::Take(cost), at);
        if !verdict.admitted {
            return (self.hold(cost, verdict, before, at), None);
        }
        self.infer_share(verdict.remaining.saturating_add(cost), at);
        let extra = ahead.granted(verdict.remaining);
        let ended = if extra > 0 { self.end(key, at) } else { None };
        let (next, _) = algorithm.apply(before, Op::Take(cost.saturating_add(extra)), at);
        self.after = next;
        (self.asked, self.brought, self.demand) = (at, cost + extra, 0);
        if extra > 0 {
            self.begin(extra, at);
        }
        (self.verdict(at), ended)
    }

    /// Begins a lease.
    fn begin(&mut self, units: u64, at: Timestamp) {
        let end = at.plus(self.length);
        self.taken = at;
        self.until = self.algorithm.edge(at).map_or(end, |edge| end.min(edge));
        self.left = units;
        self.granted = units;
        self.units.taken += units;
    }

    /// Records a refusal. The same cost is not asked again for [`FRESH_FOR`], and no longer
    /// than half a lease. Otherwise nodes that compete for the last units would call the
    /// store for every request.
    fn hold(
        &mut self,
        cost: u64,
        verdict: Verdict,
        before: Option<&State>,
        at: Timestamp,
    ) -> Verdict {
        (self.after, self.brought) = (before.cloned(), 0);
        let held = FRESH_FOR.min(Span::from_micros(self.length.as_micros() / 2));
        let shortest = Retry::After(held);
        if verdict.retry >= shortest {
            return verdict; // the deny cache knows the exact time
        }
        self.held = (cost, at.plus(held));
        Verdict { retry: shortest, ..verdict }
    }

    /// Updates this node's share: the missing units were taken by other nodes.
    fn infer_share(&mut self, room: u64, at: Timestamp) {
        if self.brought == 0 {
            return;
        }
        let (_, expected) = self.algorithm.apply(self.after.as_ref(), Op::Peek, at);
        let others = expected.remaining.saturating_sub(room);
        let all = u128::from(self.brought) + u128::from(others);
        let share = u128::from(self.brought) * u128::from(WHOLE) / all;
        self.share_1024 = u16::try_from(share).unwrap_or(WHOLE).midpoint(self.share_1024);
    }

    /// Applies a correction that the store performs.
    pub(super) fn corrected(&mut self, op: Op, now: Timestamp) {
        let (next, verdict) = self.algorithm.apply(self.after.as_ref(), op, now);
        if next.is_some() {
            self.after = next;
        }
        if verdict.remaining > 0 {
            // A cost that was refused may fit now.
            self.held = (0, Timestamp::default());
        }
    }

    /// Whether it can pay this cost until then.
    pub(super) const fn lasts(&self, cost: u64, until: Timestamp) -> bool {
        cost <= self.left && until.as_micros() < self.until.as_micros()
    }

    /// The end of the last lease.
    pub(super) const fn until(&self) -> Timestamp {
        self.until
    }

    /// Ends the lease. Returns the unspent units if they are worth a call.
    pub(super) fn end(&mut self, key: Key, now: Timestamp) -> Option<Return> {
        let units = mem::take(&mut self.left);
        self.units.spent += mem::take(&mut self.granted).saturating_sub(units);
        let algorithm = self.algorithm.clone();
        let taken = self.taken;
        let back = Return { key, algorithm, units, taken };
        if !back.is_worth_a_call(now) {
            self.units.expired += units;
            return None;
        }
        self.units.returned += units;
        self.after = self.algorithm.apply(self.after.as_ref(), back.op(), now).0;
        Some(back)
    }
}

/// Unspent units of a lease, which the store gets back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "until the units expire, no node can spend them"]
pub struct Return {
    /// The counter.
    pub key: Key,
    /// How the counter counts.
    pub algorithm: Algorithm,
    /// The number of units.
    pub units: u64,
    /// When they were taken, by the store's clock.
    pub taken: Timestamp,
}

impl Return {
    /// The operation that returns the units to the store.
    pub const fn op(&self) -> Op {
        Op::Give { cost: self.units, taken: self.taken }
    }

    /// Whether the units are worth a call. A bucket may have refilled some of them already,
    /// see [`Op::Give`]. The rule ignores the fill level of the bucket: its other units may
    /// be leases that are returned as well.
    fn is_worth_a_call(&self, now: Timestamp) -> bool {
        let window_us = u128::from(self.algorithm.window().as_micros());
        let refilled = match &self.algorithm {
            Algorithm::TokenBucket(_) => {
                let elapsed_us = now.since(self.taken).as_micros();
                u128::from(self.algorithm.limit()) * u128::from(elapsed_us) / window_us
            }
            _ => 0,
        };
        let least = self.algorithm.capacity().div_ceil(RETURN_DIVISOR);
        u128::from(self.units) >= refilled + u128::from(least)
    }
}

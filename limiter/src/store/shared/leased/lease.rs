//! What one node holds of one key, and how much it asks for.

use std::mem;

use crate::algorithm::{Algorithm, Op, Retry, State, Verdict};
use crate::digest::Key;
use crate::store::Charge;
use crate::store::shared::ask::Ahead;
use crate::time::{Span, Timestamp};

/// Nothing is taken ahead from this part of the capacity, its last fifth.
const RESERVE_DIVISOR: u64 = 5;
/// What is left of a lease goes back if it is at least this part of the
/// capacity: less is not worth the call.
const RETURN_DIVISOR: u64 = 200;
/// After this many lengths without a call a key counts as never seen.
const IDLE_LENGTHS: u64 = 4;
/// A whole, in the unit of shares.
const WHOLE: u16 = 1024;

/// What becomes of a charge here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// Its units were taken ahead, and are now spent: the store need not know.
    Spent(Verdict),
    /// The store has just refused the same, and is not asked so soon again.
    Refused(Verdict),
    /// The store must be asked.
    Ask(Ahead),
}

/// What one node holds of one key.
#[derive(Debug)]
pub(super) struct Lease {
    algorithm: Algorithm,
    length: Span,
    /// Units taken ahead and not spent, when they were taken, and until when
    /// they may be spent.
    left: u64,
    taken: Timestamp,
    until: Timestamp,
    /// The store's state after the last call, and when that was.
    after: Option<State>,
    asked: Timestamp,
    /// What that call brought, and what was asked for here since then.
    brought: u64,
    demand: u64,
    /// This node's part of what all nodes take.
    share_1024: u16,
    /// Until then the answer to a call that takes ahead is waited for.
    awaited_until: Timestamp,
    /// This cost, and any above it, is refused until then.
    held: (u64, Timestamp),
}

impl Lease {
    /// A key that has just been asked for the first time.
    pub(super) fn new(algorithm: &Algorithm, length: Span) -> Self {
        Self {
            algorithm: algorithm.clone(),
            length,
            left: 0,
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

    /// Spends `cost` units of what was taken ahead, or says why not.
    pub(super) fn spend(&mut self, cost: u64, now: Timestamp) -> Spending {
        self.demand = self.demand.saturating_add(cost);
        if now < self.until && cost <= self.left {
            self.left -= cost;
            return Spending::Spent(self.verdict(now));
        }
        let (held_cost, held_until) = self.held;
        if now < held_until && cost >= held_cost {
            let retry = Retry::After(held_until.since(now));
            let verdict = Verdict { admitted: false, remaining: 0, retry, ..self.verdict(now) };
            return Spending::Refused(verdict);
        }
        Spending::Ask(self.ask(cost, now))
    }

    /// Whether it was asked for under this limit.
    pub(super) fn counts_as(&self, algorithm: &Algorithm) -> bool {
        self.algorithm == *algorithm
    }

    /// The key has another limit now: what was refused or taken under the one
    /// before says nothing any more. What is left goes back.
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

    /// Units that a refused request had spent at `spent` are free again, if they
    /// are of this lease and there is still time.
    pub(super) fn put_back(&mut self, cost: u64, spent: Timestamp, now: Timestamp) -> Verdict {
        if now < self.until && spent >= self.taken {
            self.left = self.left.saturating_add(cost);
        }
        self.verdict(now)
    }

    /// The verdict on a charge that is spent here: what is left here, and what was
    /// left in the store as far as is known.
    fn verdict(&self, now: Timestamp) -> Verdict {
        let (_, seen) = self.algorithm.apply(self.after.as_ref(), Op::Peek, now);
        let left = if now < self.until { self.left } else { 0 };
        let remaining = seen.remaining.saturating_add(left).min(self.algorithm.capacity());
        Verdict { admitted: true, remaining, retry: Retry::Now, ..seen }
    }

    fn ask(&mut self, cost: u64, now: Timestamp) -> Ahead {
        let elapsed = now.since(self.asked).as_micros().max(1);
        let length = self.length.as_micros();
        // One call that takes ahead is enough at a time.
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

    /// Takes note of the store's answer to a call that took `ahead`, given at the store's time
    /// `at` in its state `before`. Returns what the caller is told, and what is
    /// left of the lease before this one, if there is a new one.
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
    }

    /// Refused: the same is not asked again for half a lease, or nodes that
    /// compete for the last units would call for every request.
    fn hold(
        &mut self,
        cost: u64,
        verdict: Verdict,
        before: Option<&State>,
        at: Timestamp,
    ) -> Verdict {
        (self.after, self.brought) = (before.cloned(), 0);
        let shortest = Retry::After(Span::from_micros(self.length.as_micros() / 2));
        if verdict.retry >= shortest {
            return verdict; // the time is known exactly, and kept elsewhere
        }
        self.held = (cost, at.plus(Span::from_micros(self.length.as_micros() / 2)));
        Verdict { retry: shortest, ..verdict }
    }

    /// The others took what this node expected to find and did not.
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

    /// The store corrects what it has counted.
    pub(super) fn corrected(&mut self, op: Op, now: Timestamp) {
        let (next, verdict) = self.algorithm.apply(self.after.as_ref(), op, now);
        if next.is_some() {
            self.after = next;
        }
        if verdict.remaining > 0 {
            // There is room again for what was refused.
            self.held = (0, Timestamp::default());
        }
    }

    /// When the last lease ends or ended.
    pub(super) const fn until(&self) -> Timestamp {
        self.until
    }

    /// Ends the lease. What is left goes back, if it is worth a call.
    pub(super) fn end(&mut self, key: Key, now: Timestamp) -> Option<Return> {
        let units = mem::take(&mut self.left);
        let (algorithm, taken) = (self.algorithm.clone(), self.taken);
        let back = Return { key, algorithm, units, taken };
        if !back.is_worth_a_call(now) {
            return None;
        }
        self.after = self.algorithm.apply(self.after.as_ref(), back.op(), now).0;
        Some(back)
    }
}

/// Units that were taken ahead and not spent, for the store to have again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "or nobody can spend the units until they have expired"]
pub struct Return {
    /// The counter.
    pub key: Key,
    /// How it counts.
    pub algorithm: Algorithm,
    /// How many.
    pub units: u64,
    /// When they were taken, by the store's clock.
    pub taken: Timestamp,
}

impl Return {
    /// What it is to the store.
    pub const fn op(&self) -> Op {
        Op::Give { cost: self.units, taken: self.taken }
    }

    /// A bucket may have refilled some of the units itself, see [`Op::Give`]. It
    /// would be no use to find out that it was too full of other units for that:
    /// those may be leases as well, that go back too.
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

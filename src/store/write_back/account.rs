//! What one node knows and owes of one key.

use std::mem;

use super::ledger::Delta;
use crate::algorithm::{Algorithm, Op, State, Verdict};
use crate::digest::Key;
use crate::time::Timestamp;

/// What one node knows and owes of one key.
#[derive(Debug)]
pub(super) struct Account {
    algorithm: Algorithm,
    /// The store's state as last seen, and all that was counted here since.
    estimate: Option<State>,
    /// Counted here, and not sent.
    unsent: u64,
    /// Whether something was sent, and not answered.
    under_way: bool,
    /// Of what is under way, given back meanwhile, and when that had been taken.
    given: (u64, Timestamp),
    /// When the store was last told, if ever.
    told: Option<Timestamp>,
    /// When it is to be told again, if it is, and when that makes sense at all.
    due: Option<Timestamp>,
    not_before: Timestamp,
}

impl Account {
    /// A key that was never seen here.
    pub(super) fn new(algorithm: &Algorithm) -> Self {
        Self {
            algorithm: algorithm.clone(),
            estimate: None,
            unsent: 0,
            under_way: false,
            given: (0, Timestamp::default()),
            told: None,
            due: None,
            not_before: Timestamp::default(),
        }
    }

    /// What the estimate says to `op`, which is not counted.
    pub(super) fn judge(&self, algorithm: &Algorithm, op: Op, now: Timestamp) -> Verdict {
        algorithm.apply(self.estimate.as_ref(), op, now).1
    }

    /// Counts a cost that was admitted, even if it does not fit any more. The
    /// verdict says what remains.
    pub(super) fn count(&mut self, algorithm: &Algorithm, cost: u64, now: Timestamp) -> Verdict {
        if self.algorithm != *algorithm {
            self.algorithm = algorithm.clone();
        }
        self.unsent = self.unsent.saturating_add(cost);
        self.charge(cost, now)
    }

    fn charge(&mut self, units: u64, now: Timestamp) -> Verdict {
        let op = Op::Settle { reserved: 0, actual: units, taken: now };
        let (next, verdict) = self.algorithm.apply(self.estimate.as_ref(), op, now);
        if next.is_some() {
            self.estimate = next;
        }
        verdict
    }

    /// Gives units back that were counted at `taken`. Returns what the store must
    /// give back, because it was told of them.
    pub(super) fn give(&mut self, cost: u64, taken: Timestamp, now: Timestamp) -> Option<Op> {
        self.relieve(cost, taken, now);
        // What could not be sent is here again.
        let is_sent = self.told.is_some_and(|told| taken <= told && self.not_before <= told);
        let unsent = if is_sent { 0 } else { cost.min(self.unsent) };
        self.unsent -= unsent;
        let sent = cost - unsent;
        if self.under_way && sent > 0 {
            self.given = (self.given.0.saturating_add(sent), taken);
        }
        (sent > 0).then_some(Op::Give { cost: sent, taken })
    }

    fn relieve(&mut self, cost: u64, taken: Timestamp, now: Timestamp) {
        let op = Op::Give { cost, taken };
        let (next, _) = self.algorithm.apply(self.estimate.as_ref(), op, now);
        if next.is_some() {
            self.estimate = next;
        }
    }

    /// Whether what is not sent could matter to the other ledgers: the key is
    /// new here, or it is half of this ledger's part of what remains.
    pub(super) fn matters(&self, remaining: u64, ledgers: u64) -> bool {
        self.told.is_none() || self.unsent >= (remaining / 2 / ledgers.max(1)).max(1)
    }

    /// When the store was last told, if ever.
    pub(super) const fn told(&self) -> Option<Timestamp> {
        self.told
    }

    /// Counted here, and not sent.
    pub(super) const fn unsent(&self) -> u64 {
        self.unsent
    }

    /// When the store is to be told, or would be if nothing were under way.
    pub(super) const fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// The store is to be told no later than that, unless it has just failed.
    pub(super) fn hasten(&mut self, due: Timestamp) {
        let due = due.max(self.not_before);
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Whether something was sent, and not answered: until then nothing else is.
    pub(super) const fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// Whether this delta is what is under way. It is not if the key lost its
    /// place in the table meanwhile, and has another account now.
    pub(super) fn awaits(&self, delta: &Delta) -> bool {
        self.under_way && self.told == Some(delta.sent)
    }

    /// Sends what is not sent.
    pub(super) fn send(&mut self, key: Key, now: Timestamp) -> Delta {
        (self.under_way, self.told, self.due) = (true, Some(now), None);
        let units = mem::take(&mut self.unsent);
        Delta { key, algorithm: self.algorithm.clone(), units, sent: now }
    }

    /// The store's state was `before` when it counted the delta at `at`.
    pub(super) fn answered(&mut self, delta: &Delta, before: Option<&State>, at: Timestamp) {
        self.under_way = false;
        self.estimate = before.cloned();
        self.charge(delta.units, at);
        // The store hears of it after the delta.
        let (cost, taken) = mem::take(&mut self.given);
        if cost > 0 {
            self.relieve(cost, taken, at);
        }
        self.charge(self.unsent, at);
    }

    /// There is no answer. What certainly did not arrive is kept, and not sent
    /// before `again`.
    pub(super) fn failed(&mut self, kept: u64, again: Timestamp) {
        self.under_way = false;
        self.given = (0, Timestamp::default());
        self.unsent = self.unsent.saturating_add(kept);
        self.not_before = again;
        if self.unsent > 0 {
            self.due = Some(again);
        }
    }
}

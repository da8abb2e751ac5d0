//! What one node knows and owes of one key.
//!
//! What is free of a limit is what the store's state leaves. A node may have
//! admitted a half of it, divided by the nodes, of which the store has not said
//! that it has counted it: units that are not sent, that are under way, and that
//! may have been lost. Each node does so by a state in which no more was free
//! than the whole limit, so that all nodes together have admitted half a limit at
//! most. A node that is alone may admit all that is free: no other node does.

use std::mem;

use smallvec::SmallVec;

use super::delta::Delta;
use crate::algorithm::{Algorithm, Op, State, Verdict};
use crate::digest::Key;
use crate::time::{Span, Timestamp};

/// The store is told as soon as a node has used up its part, divided by this.
const EARLY: u64 = 2;
/// Answers overtake each other by less than this. One that is older by more tells
/// of a store whose clock was set back.
const OVERTAKING: Span = Span::SECOND;
/// A request may be dated by the store's answer to another of its charges. That time
/// differs by less than this from the node's own estimate, by which it was counted here.
const IMPRECISION: Span = Span::SECOND;
/// So many reports in doubt are told apart; of more the units are added up.
const MAX_DOUBTS: usize = 4;

/// What becomes of a charge here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is counted here, and the store is told later.
    Counted(Verdict),
    /// It is refused by what the store has counted and this node owes.
    Refused(Verdict),
    /// The store must be asked: too little is known here, or too little is free.
    Ask,
}

/// What one node knows and owes of one key.
#[derive(Debug)]
pub(super) struct Account {
    algorithm: Algorithm,
    /// The store's state as last heard, and when the store had it.
    heard: Option<State>,
    heard_at: Timestamp,
    /// The same with all that was counted here and is not known to be in it.
    estimate: Option<State>,
    /// Whether the last report was acknowledged. Otherwise nothing is admitted here.
    is_acknowledged: bool,
    /// Counted here and not sent, and since when.
    unsent: u64,
    since: Timestamp,
    /// The same of what responses have cost beyond their reservations.
    settled: u64,
    under_way: Option<UnderWay>,
    /// Whether the store was heard of since then: it may have counted it already.
    is_heard_since: bool,
    /// Of what is under way, given back meanwhile, and when that had been taken.
    given: (u64, Timestamp),
    /// Reports of which it is not known whether the store has counted them.
    doubts: SmallVec<[Doubt; 1]>,
    /// When the store is to be told again, if it is, and when that makes sense at all.
    due: Option<Timestamp>,
    not_before: Timestamp,
}

/// A report that was sent, and not answered.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u64,
    units: u64,
}

/// A report that will not be answered in time. After `until` it makes no
/// difference any more.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    number: u64,
    units: u64,
    until: Timestamp,
}

impl Account {
    /// A key of which the store has said nothing yet.
    pub(super) fn new(algorithm: &Algorithm) -> Self {
        Self {
            algorithm: algorithm.clone(),
            heard: None,
            heard_at: Timestamp::default(),
            estimate: None,
            is_acknowledged: false,
            unsent: 0,
            since: Timestamp::default(),
            settled: 0,
            under_way: None,
            is_heard_since: false,
            given: (0, Timestamp::default()),
            doubts: SmallVec::new(),
            due: None,
            not_before: Timestamp::default(),
        }
    }

    /// Counts a cost if that may be done here, on one of so many nodes.
    pub(super) fn take(
        &mut self,
        algorithm: &Algorithm,
        cost: u64,
        nodes: u64,
        now: Timestamp,
    ) -> Taken {
        let (next, verdict) = algorithm.apply(self.estimate.as_ref(), Op::Take(cost), now);
        if !verdict.admitted {
            // What is under way may count twice in the estimate.
            let is_certain = !self.is_under_way() || !self.is_heard_since;
            return if is_certain { Taken::Refused(verdict) } else { Taken::Ask };
        }
        self.goes_by(algorithm);
        if cost > 0 && !self.may_admit(cost, verdict.remaining, nodes, now) {
            return Taken::Ask;
        }
        self.estimate = next;
        self.owe(cost, now);
        Taken::Counted(verdict)
    }

    /// Whether the node has so much left of its part.
    fn may_admit(&mut self, cost: u64, remaining: u64, nodes: u64, now: Timestamp) -> bool {
        self.doubts.retain(|doubt| doubt.until > now);
        let doubtful: u64 = self.doubts.iter().map(|doubt| doubt.units).sum();
        let admitted = self.owed().saturating_add(doubtful).saturating_add(cost);
        let free = self.free(remaining.saturating_add(cost));
        self.is_acknowledged && admitted.saturating_mul(parts(nodes)) <= free
    }

    /// Counted here and not known to have been counted by the store, in which
    /// nobody doubts that it will be.
    fn owed(&self) -> u64 {
        let under_way = self.under_way.map_or(0, |it| it.units);
        self.unsent.saturating_add(self.settled).saturating_add(under_way)
    }

    /// Whether what is not sent could matter to the other nodes.
    pub(super) fn matters(&self, remaining: u64, nodes: u64) -> bool {
        let unsent = self.unsent.saturating_add(self.settled);
        let free = self.free(remaining);
        unsent.saturating_mul(EARLY).saturating_mul(parts(nodes)) >= free
    }

    /// What would remain without what is owed. Time may have taken some of that away
    /// already, so it is no more than there ever is.
    fn free(&self, remaining: u64) -> u64 {
        remaining.saturating_add(self.owed()).min(self.algorithm.capacity())
    }

    fn goes_by(&mut self, algorithm: &Algorithm) {
        if self.algorithm != *algorithm {
            self.algorithm = algorithm.clone();
        }
    }

    fn owe(&mut self, units: u64, since: Timestamp) {
        if self.unsent == 0 || since < self.since {
            self.since = since;
        }
        self.unsent = self.unsent.saturating_add(units);
    }

    /// What the estimate says, and what remains.
    pub(super) fn peek(&self, algorithm: &Algorithm, now: Timestamp) -> Verdict {
        algorithm.apply(self.estimate.as_ref(), Op::Peek, now).1
    }

    /// Counts what a response has cost beyond its reservation, whether it fits or
    /// not. Returns how much of it is too much to be kept.
    pub(super) fn settle(&mut self, algorithm: &Algorithm, units: u64, now: Timestamp) -> u64 {
        self.goes_by(algorithm);
        self.charge(units, now);
        let all = self.settled.saturating_add(units);
        // The store would not count more either.
        self.settled = all.min(algorithm.capacity().saturating_mul(2));
        all - self.settled
    }

    /// This node admits a cost that the store is told of by others, and until then
    /// goes by it.
    pub(super) fn foresee(&mut self, cost: u64, now: Timestamp) {
        self.charge(cost, now);
    }

    fn charge(&mut self, units: u64, now: Timestamp) {
        let op = Op::Settle { reserved: 0, actual: units, taken: now };
        let (next, _) = self.algorithm.apply(self.estimate.as_ref(), op, now);
        self.estimate = next.or(self.estimate.take());
    }

    /// Gives units back that were counted at `taken`. Returns what the store must
    /// give back, because it was told of them.
    pub(super) fn give(&mut self, cost: u64, taken: Timestamp, now: Timestamp) -> Option<Op> {
        relieve(&self.algorithm, &mut self.estimate, cost, taken, now);
        let is_unsent = taken.plus(IMPRECISION) >= self.since;
        let unsent = if is_unsent { cost.min(self.unsent) } else { 0 };
        self.unsent -= unsent;
        let sent = cost - unsent;
        if sent == 0 {
            return None;
        }
        relieve(&self.algorithm, &mut self.heard, sent, taken, now);
        if self.is_under_way() {
            self.given = (self.given.0.saturating_add(sent), taken);
        }
        Some(Op::Give { cost: sent, taken })
    }

    /// When the store had the state that was last heard.
    pub(super) const fn heard_at(&self) -> Timestamp {
        self.heard_at
    }

    /// Counted here, and not sent.
    pub(super) const fn has_unsent(&self) -> bool {
        self.unsent > 0 || self.settled > 0
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
        self.under_way.is_some()
    }

    /// Sends what is not sent: first what was admitted, then what was settled.
    pub(super) fn send(&mut self, key: Key, number: u64, now: Timestamp) -> Delta {
        let is_settlement = self.unsent == 0 && self.settled > 0;
        let (owed, since) = match is_settlement {
            true => (&mut self.settled, now),
            false => (&mut self.unsent, self.since),
        };
        let units = mem::take(owed);
        (self.under_way, self.is_heard_since) = (Some(UnderWay { number, units }), false);
        self.due = None;
        let algorithm = self.algorithm.clone();
        Delta { key, algorithm, units, is_settlement, sent: now, since, number, is_doubted: false }
    }

    /// Whether it awaits to hear what became of this delta, which is no more under
    /// way, nor in doubt.
    pub(super) fn recalls(&mut self, delta: &Delta) -> bool {
        if self.under_way.is_some_and(|it| it.number == delta.number) {
            self.under_way = None;
            return true;
        }
        let doubt = self.doubts.iter().position(|it| it.number == delta.number);
        doubt.map(|index| self.doubts.swap_remove(index)).is_some()
    }

    /// The store's state was `before` when it counted the delta at `at`. What did
    /// not fit is owed.
    pub(super) fn answered(&mut self, delta: &Delta, before: Option<&State>, at: Timestamp) {
        let (after, counted) = delta.count(before, at);
        let mut after = after.or_else(|| before.cloned());
        // The store hears of what was given back after the delta.
        if !self.is_under_way() {
            let (cost, taken) = mem::take(&mut self.given);
            if cost > 0 {
                relieve(&self.algorithm, &mut after, cost, taken, at);
            }
        }
        if counted < delta.units {
            self.owe(delta.units - counted, delta.since);
        }
        self.hear(after, at);
    }

    /// The store's state was `state` at `at`.
    pub(super) fn hear(&mut self, state: Option<State>, at: Timestamp) {
        if !self.knows_better(state.as_ref(), at) {
            (self.heard, self.heard_at) = (state, at);
        }
        (self.is_acknowledged, self.is_heard_since) = (true, true);
        self.estimate = self.heard.clone();
        let owed = self.owed();
        if owed > 0 {
            self.charge(owed, at);
        }
    }

    /// Whether the store was heard of since it had this state.
    fn knows_better(&self, state: Option<&State>, at: Timestamp) -> bool {
        if at == self.heard_at {
            // Decisions of one call have one time: the one that finds less is the later one.
            let left = |state| self.algorithm.apply(state, Op::Peek, at).1.remaining;
            return left(self.heard.as_ref()) < left(state);
        }
        at < self.heard_at && self.heard_at.since(at) < OVERTAKING
    }

    /// The delta certainly did not arrive: its units are not sent, and will not be
    /// before `again`.
    pub(super) fn not_sent(&mut self, delta: &Delta, again: Timestamp) {
        match delta.is_settlement {
            true => self.settled = self.settled.saturating_add(delta.units),
            false if delta.units > 0 => self.owe(delta.units, delta.since),
            false => {}
        }
        self.unheard(again);
    }

    /// There is no answer to the delta, which may have arrived.
    pub(super) fn lost(&mut self, delta: &Delta, again: Timestamp) {
        let op = Op::Settle { reserved: 0, actual: delta.units, taken: delta.sent };
        let alone = self.algorithm.apply(None, op, delta.sent).0;
        let until = alone.map_or(delta.sent, |state| self.algorithm.expires_at(&state));
        let doubt = Doubt { number: delta.number, units: delta.units, until };
        if self.doubts.len() >= MAX_DOUBTS
            && let Some(last) = self.doubts.pop()
        {
            self.doubts.push(Doubt { units: last.units.saturating_add(doubt.units), ..doubt });
        } else if delta.units > 0 {
            self.doubts.push(doubt);
        }
        self.unheard(again);
    }

    fn unheard(&mut self, again: Timestamp) {
        self.is_acknowledged = false;
        self.given = (0, Timestamp::default());
        self.not_before = again;
        self.due = self.has_unsent().then_some(again);
    }
}

/// Into how many parts what is free is divided, for so many nodes. One that is
/// alone may admit all of it.
const fn parts(nodes: u64) -> u64 {
    if nodes > 1 { nodes.saturating_mul(2) } else { 1 }
}

/// Takes back what was counted at `taken`.
fn relieve(
    algorithm: &Algorithm,
    state: &mut Option<State>,
    cost: u64,
    taken: Timestamp,
    now: Timestamp,
) {
    let (next, _) = algorithm.apply(state.as_ref(), Op::Give { cost, taken }, now);
    if next.is_some() {
        *state = next;
    }
}

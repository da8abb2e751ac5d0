//! The account of one node for one key: the store's last state, and the units that the node
//! has counted since.
//!
//! The units that the store's state leaves are free, except those for which this node has
//! asked the store and has no reply yet. A node may admit half of the free units, divided by
//! the number of nodes, before the store acknowledges them. This includes units that are not
//! sent, that are under way, and that may have been lost. No state has more free units than
//! the whole limit, so all nodes together admit at most half a limit that is not
//! acknowledged. A node that is alone may admit all free units.

use std::mem;

use smallvec::SmallVec;
use tollgate_core::algorithm::{Algorithm, Op, Retry, State, Verdict};
use tollgate_core::digest::Key;
use tollgate_core::time::{Span, Timestamp};

use super::delta::Delta;
use crate::shared::deny::{FRESH_FOR, is_certain};

/// A node reports to the store as soon as it has used its part, divided by this.
const EARLY: u64 = 2;
/// Replies overtake each other by less than this. If a reply is older by more, the store's
/// clock was set back.
const OVERTAKING: Span = Span::SECOND;
/// The time of a request may come from the store's reply to another of its charges. It
/// differs by less than this from the node's own estimate, at which the charge was counted.
const IMPRECISION: Span = Span::SECOND;
/// The maximum number of reports in doubt. The units of further ones are added to the last.
const MAX_DOUBTS: usize = 4;
/// The maximum number of reports of one key that have no reply.
const MAX_UNDER_WAY: usize = 16;

/// How an account decides a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// This node counts it, and reports it to the store later.
    Counted(Verdict),
    /// It is refused, because of the units that the store has counted and this node owes.
    Refused(Verdict),
    /// The store must be asked: too little is known, or too few units are free.
    Ask,
}

/// The account of one node for one key.
#[derive(Debug)]
pub(super) struct Account {
    algorithm: Algorithm,
    /// The last state that the store reported, and when it had that state.
    heard: Option<State>,
    heard_at: Timestamp,
    /// That state, with all units that this node has counted and that may not be in it.
    estimate: Option<State>,
    /// Whether the last report was acknowledged. Otherwise this node admits nothing itself.
    is_acknowledged: bool,
    /// Units that are counted and not sent, and since when.
    unsent: u64,
    since: Timestamp,
    /// Units that responses cost beyond their reservations, and that are not sent.
    settled: u64,
    /// Reports that have no reply yet.
    under_way: SmallVec<[UnderWay; 1]>,
    /// Whether the store was asked, and must know the unsent units before it decides.
    must_send: bool,
    /// Units for which the store was asked and has not replied.
    asked: u64,
    /// Units of the reports under way that were given back meanwhile, and when they were
    /// taken.
    given: (u64, Timestamp),
    /// Reports that the store may or may not have counted.
    doubts: SmallVec<[Doubt; 1]>,
    /// When the next report is due, if one is, and the earliest time for it.
    due: Option<Timestamp>,
    not_before: Timestamp,
}

/// A report that was sent and has no reply.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u64,
    units: u64,
    /// Whether the store has replied since the report was sent. Its state may then include
    /// the report.
    is_heard_since: bool,
}

/// A report that has no reply in time. After `until` its units do not count any more.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    number: u64,
    units: u64,
    until: Timestamp,
}

impl Account {
    /// The account of a key whose state the store has not reported yet.
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
            under_way: SmallVec::new(),
            must_send: false,
            asked: 0,
            given: (0, Timestamp::default()),
            doubts: SmallVec::new(),
            due: None,
            not_before: Timestamp::default(),
        }
    }

    /// Counts a cost if this node, one of `nodes`, may do so. If the store must be asked, the
    /// cost is [asked](Self::ask) for. The store's time is `now`, or later by up to `slack`.
    pub(super) fn take(
        &mut self,
        algorithm: &Algorithm,
        cost: u64,
        nodes: u64,
        now: Timestamp,
        slack: Span,
    ) -> TakeOutcome {
        let taken = self.judge(algorithm, cost, nodes, now, slack);
        if taken == TakeOutcome::Ask {
            self.ask(cost);
        }
        taken
    }

    /// The last state that the store reported, with the units that this node has counted since.
    pub(super) const fn estimate(&self) -> Option<&State> {
        self.estimate.as_ref()
    }

    /// The store is asked for this cost. The question must be [ended](Self::end_ask).
    pub(super) fn ask(&mut self, cost: u64) {
        self.asked = self.asked.saturating_add(cost);
    }

    /// The store has replied to a question for this cost, or never will.
    pub(super) fn end_ask(&mut self, cost: u64) {
        self.asked = self.asked.saturating_sub(cost);
    }

    /// The store may have counted units for which it was asked, and its state is not known.
    pub(super) fn doubt_ask(&mut self) {
        self.is_acknowledged = false;
    }

    fn judge(
        &mut self,
        algorithm: &Algorithm,
        cost: u64,
        nodes: u64,
        now: Timestamp,
        slack: Span,
    ) -> TakeOutcome {
        let (next, verdict) = algorithm.apply(self.estimate.as_ref(), Op::Take(cost), now);
        if !verdict.admitted {
            // The estimate may count the report under way twice.
            let may_be_too_many = self.under_way.iter().any(|report| report.is_heard_since);
            let may_be_over = verdict.retry <= Retry::After(slack);
            let is_known = !may_be_too_many && !may_be_over;
            return if is_known { TakeOutcome::Refused(verdict) } else { TakeOutcome::Ask };
        }
        self.set_algorithm(algorithm);
        if cost > 0 && !self.may_admit(cost, verdict.remaining, nodes, now) {
            return TakeOutcome::Ask;
        }
        self.estimate = next;
        self.owe(cost, now);
        let remaining = verdict.remaining.saturating_sub(self.asked);
        TakeOutcome::Counted(Verdict { remaining, ..verdict })
    }

    /// The verdict on a request that is refused anyway, if it holds at the moment: the store
    /// has reported its state within [`FRESH_FOR`], or it does not matter what other nodes
    /// have counted since. The units that this node owes count up to `interval` after they
    /// fit.
    pub(super) fn told(
        &self,
        algorithm: &Algorithm,
        cost: u64,
        now: Timestamp,
        interval: Span,
    ) -> Option<Verdict> {
        let fits = |units| self.algorithm.judge(self.heard.as_ref(), units, now).admitted;
        if self.settled > 0 || self.unsent > 0 && fits(self.unsent) {
            return None; // the store can count them now
        }
        let mut verdict = self.foretell(algorithm, cost, (now, interval));
        if self.is_under_way() {
            // Its units count now, or when it arrives.
            let late = self.foretell(algorithm, cost, (now.plus(FRESH_FOR), interval));
            verdict.retry = verdict.retry.max(late.retry.postponed(FRESH_FOR));
        }
        let remaining = algorithm.judge(self.estimate.as_ref(), cost, now).remaining;
        let is_fresh = now.since(self.heard_at) < FRESH_FOR;
        // The owed units may fit into the present window or not.
        let ends = self.owed() == 0 && is_certain(algorithm, verdict.retry);
        let admitted = verdict.retry == Retry::Now;
        (is_fresh || ends).then_some(Verdict { admitted, remaining, ..verdict })
    }

    /// The verdict if the store counts the owed units at `now`, and those that do not fit under
    /// the limit of their own plan up to `interval` after they fit.
    fn foretell(&self, algorithm: &Algorithm, cost: u64, at: (Timestamp, Span)) -> Verdict {
        let (now, interval) = at;
        let mut state = self.heard.clone();
        let mut then = now;
        let mut owed = self.owed();
        while owed > 0 {
            let units = owed.min(self.algorithm.capacity());
            let verdict = self.algorithm.judge(state.as_ref(), units, then);
            if let Retry::After(wait) = verdict.retry {
                then = then.plus(wait).plus(interval);
            }
            let (next, verdict) = self.algorithm.apply(state.as_ref(), Op::Take(units), then);
            state = next.or(state);
            owed -= if verdict.admitted { units } else { owed };
        }
        let verdict = algorithm.judge(state.as_ref(), cost, then);
        let retry = match verdict.retry {
            Retry::Now if then > now => Retry::After(then.since(now)),
            Retry::After(wait) => Retry::After(then.plus(wait).since(now)),
            retry => retry,
        };
        Verdict { retry, ..verdict }
    }

    /// How long it takes until the store can count one more unit, by its last state.
    pub(super) fn fits_after(&self, now: Timestamp) -> Span {
        match self.algorithm.judge(self.heard.as_ref(), 1, now).retry {
            Retry::After(wait) => wait,
            Retry::Now | Retry::Never => Span::MILLISECOND,
        }
    }

    /// Whether the cost fits into this node's part.
    fn may_admit(&mut self, cost: u64, remaining: u64, nodes: u64, now: Timestamp) -> bool {
        self.doubts.retain(|doubt| doubt.until > now);
        let doubtful: u64 = self.doubts.iter().map(|doubt| doubt.units).sum();
        let admitted = self.owed().saturating_add(doubtful).saturating_add(cost);
        let free = self.free(remaining.saturating_add(cost)).saturating_sub(self.asked);
        self.is_acknowledged && admitted.saturating_mul(parts(nodes)) <= free
    }

    /// The units that this node has counted and the store has not acknowledged, without
    /// those in doubt.
    pub(super) fn owed(&self) -> u64 {
        let under_way: u64 = self.under_way.iter().map(|it| it.units).sum();
        self.unsent.saturating_add(self.settled).saturating_add(under_way)
    }

    /// Whether the unsent units are enough to matter to other nodes.
    pub(super) fn matters(&self, remaining: u64, nodes: u64) -> bool {
        let unsent = self.unsent.saturating_add(self.settled);
        let free = self.free(remaining);
        unsent.saturating_mul(EARLY).saturating_mul(parts(nodes)) >= free
    }

    /// The units that would remain without the owed ones, at most the capacity: some of the
    /// owed units may have expired already.
    fn free(&self, remaining: u64) -> u64 {
        remaining.saturating_add(self.owed()).min(self.algorithm.capacity())
    }

    fn set_algorithm(&mut self, algorithm: &Algorithm) {
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

    /// The verdict of the estimate, which has the remaining units.
    pub(super) fn peek(&self, algorithm: &Algorithm, now: Timestamp) -> Verdict {
        algorithm.apply(self.estimate.as_ref(), Op::Peek, now).1
    }

    /// Counts units that a response cost beyond its reservation, whether they fit or not.
    /// Returns the units above the bound, which are dropped.
    pub(super) fn settle(&mut self, algorithm: &Algorithm, units: u64, now: Timestamp) -> u64 {
        self.set_algorithm(algorithm);
        self.charge(units, now);
        let all = self.settled.saturating_add(units);
        // The store counts no more either.
        self.settled = all.min(algorithm.capacity().saturating_mul(2));
        all - self.settled
    }

    /// Adds a cost to the estimate that this node has admitted and that is reported to the
    /// store as a debt, not by this account.
    pub(super) fn foresee(&mut self, cost: u64, now: Timestamp) {
        self.charge(cost, now);
    }

    fn charge(&mut self, units: u64, now: Timestamp) {
        let op = Op::Settle { reserved: 0, actual: units, taken: now };
        let (next, _) = self.algorithm.apply(self.estimate.as_ref(), op, now);
        self.estimate = next.or(self.estimate.take());
    }

    /// Gives back units that were counted at `taken`. If they were reported to the store,
    /// returns the operation that the store must perform.
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

    /// When the store had the last state that it reported.
    pub(super) const fn heard_at(&self) -> Timestamp {
        self.heard_at
    }

    /// Whether there are units that are counted and not sent.
    pub(super) const fn has_unsent(&self) -> bool {
        self.unsent > 0 || self.settled > 0
    }

    /// When the next report is due, if no report is under way.
    pub(super) const fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// Moves the next report to `due` if it is later, unless the store has just failed.
    pub(super) fn hasten(&mut self, due: Timestamp) {
        let due = due.max(self.not_before);
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Makes the next report due because the store is asked, unless the store has just failed.
    pub(super) fn precede(&mut self, now: Timestamp) {
        self.must_send = true;
        self.hasten(now);
    }

    /// Whether a report has no reply yet.
    fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether a report may be sent. While one has no reply, another one is sent only before
    /// a question.
    pub(super) fn may_send(&self) -> bool {
        let is_asked = self.must_send && self.under_way.len() < MAX_UNDER_WAY;
        !self.is_under_way() || is_asked
    }

    /// Takes the unsent units as a report: first those of admitted charges, then those of
    /// settlements.
    pub(super) fn send(&mut self, key: Key, number: u64, now: Timestamp) -> Delta {
        let is_settlement = self.unsent == 0 && self.settled > 0;
        let (owed, since) = match is_settlement {
            true => (&mut self.settled, now),
            false => (&mut self.unsent, self.since),
        };
        let units = mem::take(owed);
        self.under_way.push(UnderWay { number, units, is_heard_since: false });
        (self.due, self.must_send) = (None, false);
        let algorithm = self.algorithm.clone();
        Delta { key, algorithm, units, is_settlement, sent: now, since, number, is_doubted: false }
    }

    /// Ends the wait for the outcome of this delta: it is neither under way nor in doubt any
    /// more. Returns whether the account was waiting for it.
    pub(super) fn end_wait(&mut self, delta: &Delta) -> bool {
        if let Some(index) = self.under_way.iter().position(|it| it.number == delta.number) {
            self.under_way.remove(index);
            return true;
        }
        let doubt = self.doubts.iter().position(|it| it.number == delta.number);
        doubt.map(|index| self.doubts.swap_remove(index)).is_some()
    }

    /// Records that the store counted the delta at `at`, and that its state was `before`.
    /// Units that did not fit are owed again.
    pub(super) fn answered(&mut self, delta: &Delta, before: Option<&State>, at: Timestamp) {
        let (after, counted) = delta.count(before, at);
        let mut after = after.or_else(|| before.cloned());
        // The store receives the give-back after the delta.
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

    /// Records that the store had `state` at `at`.
    pub(super) fn hear(&mut self, state: Option<State>, at: Timestamp) {
        if !self.knows_better(state.as_ref(), at) {
            (self.heard, self.heard_at) = (state, at);
        }
        self.is_acknowledged = true;
        self.under_way.iter_mut().for_each(|report| report.is_heard_since = true);
        self.estimate = self.heard.clone();
        let owed = self.owed();
        if owed > 0 {
            self.charge(owed, at);
        }
    }

    /// Records that the store has given units back at `at`, and had `state` then.
    pub(super) fn returned(&mut self, state: Option<State>, at: Timestamp) {
        if at == self.heard_at {
            self.heard.clone_from(&state); // a state with fewer units left is the earlier one
        }
        self.hear(state, at);
    }

    /// Whether the account has a newer state than this one.
    fn knows_better(&self, state: Option<&State>, at: Timestamp) -> bool {
        if at == self.heard_at {
            // All decisions of one call have the same time. The one with fewer units left is
            // the later one.
            let left = |state| self.algorithm.apply(state, Op::Peek, at).1.remaining;
            return left(self.heard.as_ref()) < left(state);
        }
        at < self.heard_at && self.heard_at.since(at) < OVERTAKING
    }

    /// Records that the delta certainly did not arrive. Its units are unsent again, until
    /// `again` at least.
    pub(super) fn not_sent(&mut self, delta: &Delta, again: Timestamp) {
        match delta.is_settlement {
            true => self.settled = self.settled.saturating_add(delta.units),
            false if delta.units > 0 => self.owe(delta.units, delta.since),
            false => {}
        }
        self.unheard(again);
    }

    /// Records that the delta has no reply and may have arrived.
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

/// The number of parts into which the free units are divided. A node that is alone may
/// admit all of them.
const fn parts(nodes: u64) -> u64 {
    if nodes > 1 { nodes.saturating_mul(2) } else { 1 }
}

/// Removes units that were counted at `taken`.
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

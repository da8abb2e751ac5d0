//! The accounts of all keys of one node, or of a part of them: a bounded table, and the
//! order in which keys are reported to the store.

use std::collections::VecDeque;
use std::mem;

use tollgate_core::algorithm::{Algorithm, Op, Retry, State, Verdict};
use tollgate_core::digest::{Counter, Key};
use tollgate_core::store::Charge;
use tollgate_core::time::{Span, Timestamp};

use super::account::{Account, TakeOutcome};
use super::delta::Delta;
use super::schedule::Schedule;
use crate::shared::table::Table;

/// Workers look for reports that are due at least this often.
const LOOK: Span = Span::from_millis(100);

/// So long before the end of a window its units are reported: workers look for the report, and
/// send it.
const BEFORE_THE_END: Span = Span::from_micros(LOOK.as_micros() + 50_000);

/// The units that one node has counted itself.
#[derive(Debug)]
pub struct Ledger {
    accounts: Table<Account>,
    /// When each key is reported to the store. Each key is in it once at most.
    due: Schedule,
    /// Units that evicted keys owe, the oldest first.
    orphans: VecDeque<Delta>,
    max_keys: usize,
    interval: Span,
    deltas: u64,
    lost_units: u64,
    forgotten_units: u64,
}

impl Ledger {
    /// A ledger for up to `max_keys` keys. It reports each key to the store after `interval`
    /// at the latest.
    pub fn new(max_keys: usize, interval: Span) -> Self {
        Self {
            accounts: Table::new(max_keys),
            due: Schedule::default(),
            orphans: VecDeque::new(),
            max_keys,
            interval,
            deltas: 0,
            lost_units: 0,
            forgotten_units: 0,
        }
    }

    /// Whether the store can count units of this algorithm later. It cannot for queues, which
    /// assign slots in order, nor for units in flight and bans, which are not sums.
    pub const fn counts(algorithm: &Algorithm) -> bool {
        matches!(
            algorithm,
            Algorithm::SlidingWindow(_)
                | Algorithm::SubWindows(_)
                | Algorithm::SlidingLog(_)
                | Algorithm::FixedWindow(_)
                | Algorithm::TokenBucket(_)
        )
    }

    /// Counts a charge if this node, one of `nodes`, may do so. If another charge refuses the
    /// request, the caller must [withdraw](Self::withdraw) it. If the store must be asked,
    /// the caller must pass its reply to [`Self::learn`], and then [end](Self::end_ask) the
    /// question. The store's time is `now`, or later by up to `slack`.
    pub fn take(
        &mut self,
        charge: &Charge<'_>,
        nodes: u64,
        now: Timestamp,
        slack: Span,
    ) -> TakeOutcome {
        let Some(mut account) = self.accounts.use_mut(&charge.key) else {
            self.make_room_for(charge.key, charge.algorithm, now);
            self.ask(charge);
            return TakeOutcome::Ask;
        };
        let taken = account.take(charge.algorithm, charge.cost, nodes, now, slack);
        let due = match taken {
            TakeOutcome::Counted(verdict) if account.matters(verdict.remaining, nodes) => Some(now),
            TakeOutcome::Counted(_) => Some(due_at(charge.algorithm, now, self.interval)),
            TakeOutcome::Ask => {
                self.due.hasten_report(charge.key, &mut account, now);
                None
            }
            // Units may have been given back, or the counter may have been reset.
            TakeOutcome::Refused(_) => {
                (account.heard_at().plus(self.interval) <= now).then_some(now)
            }
        };
        if let Some(due) = due {
            self.due.hasten(charge.key, &mut account, due);
        }
        taken
    }

    /// Makes the report of a charge's key due, if it has units for one.
    pub fn hasten(&mut self, charge: &Charge<'_>, now: Timestamp) {
        if let Some(mut account) = self.accounts.peek_mut(&charge.key) {
            self.due.hasten_report(charge.key, &mut account, now);
        }
    }

    /// The store is asked for a charge without a decision of its account, if there is one. The
    /// question must be [ended](Self::end_ask).
    pub fn ask(&mut self, charge: &Charge<'_>) {
        if let Some(mut account) = self.accounts.peek_mut(&charge.key) {
            account.ask(charge.cost);
        }
    }

    /// The last state of a key that the store reported, with the units that this node has
    /// counted since.
    pub fn estimate(&self, key: &Key) -> Option<&State> {
        self.accounts.peek(key).and_then(Account::estimate)
    }

    /// The verdict of an account on a request that is refused anyway, if it holds at the
    /// moment, with the units that this node owes.
    pub fn told(&self, charge: &Charge<'_>, now: Timestamp) -> Option<Verdict> {
        self.accounts.peek(&charge.key)?.told(charge.algorithm, charge.cost, now, self.lateness())
    }

    /// Whether the store has not acknowledged all that this node has counted.
    pub fn owes(&self, key: &Key) -> bool {
        self.accounts.peek(key).is_some_and(|account| account.owed() > 0)
    }

    /// A question to the store has its reply, or will have none.
    pub fn end_ask(&mut self, charge: &Charge<'_>) {
        if let Some(mut account) = self.accounts.peek_mut(&charge.key) {
            account.end_ask(charge.cost);
        }
    }

    /// The store may have counted a charge for which it was asked, and has not replied. This
    /// node admits nothing itself until it has heard of the store again.
    pub fn doubt_ask(&mut self, charge: &Charge<'_>) {
        if let Some(mut account) = self.accounts.peek_mut(&charge.key) {
            account.doubt_ask();
        }
    }

    /// Withdraws a charge that was [counted](TakeOutcome::Counted) at `taken`, because another
    /// charge refuses the request. The verdict reports what remains without it. If the charge
    /// was reported to the store, the store must perform the returned operation.
    pub fn withdraw(
        &mut self,
        charge: &Charge<'_>,
        taken: Timestamp,
        now: Timestamp,
    ) -> (Verdict, Option<Op>) {
        let (verdict, op) = match self.accounts.peek_mut(&charge.key) {
            Some(mut account) => {
                let op = account.give(charge.cost, taken, now);
                (account.peek(charge.algorithm, now), op)
            }
            None => {
                let verdict = charge.algorithm.apply(None, Op::Peek, now).1;
                (verdict, Some(Op::Give { cost: charge.cost, taken }))
            }
        };
        (Verdict { admitted: true, retry: Retry::Now, ..verdict }, op)
    }

    /// Records the store's reply to a charge for which it was [asked](TakeOutcome::Ask): at `at`,
    /// by its clock, its state was `before`, and it counted the charge if `is_counted`.
    pub fn learn(
        &mut self,
        charge: &Charge<'_>,
        before: Option<&State>,
        is_counted: bool,
        at: Timestamp,
    ) {
        let key = charge.key;
        let algorithm = charge.algorithm;
        let taken = is_counted.then(|| algorithm.apply(before, Op::Take(charge.cost), at).0);
        let after = taken.flatten().or_else(|| before.cloned());
        if self.accounts.peek(&key).is_none() {
            self.make_room_for(key, algorithm, at);
        }
        if let Some(mut account) = self.accounts.peek_mut(&key) {
            account.hear(after, at);
        }
    }

    /// Records that the store has given units of a key back at `at`, by its clock, and what its
    /// state was then.
    pub fn returned(&mut self, key: &Key, state: Option<State>, at: Timestamp) {
        if let Some(mut account) = self.accounts.peek_mut(key) {
            account.returned(state, at);
        }
    }

    /// Records a charge that this node admitted while the store was away. It is reported as a
    /// debt, not by this ledger. Until then the key is judged as if the store had counted it.
    pub fn foresee(&mut self, charge: &Charge<'_>, now: Timestamp) {
        if let Some(mut account) = self.accounts.peek_mut(&charge.key) {
            account.foresee(charge.cost, now);
        }
    }

    /// Corrects a charge. Returns the operation that the store must perform, if the charge
    /// was reported to it or the key has no account.
    pub fn correct(
        &mut self,
        charge: &Charge<'_>,
        op: Op,
        nodes: u64,
        now: Timestamp,
    ) -> Option<Op> {
        let (reserved, actual, taken) = match op {
            Op::Give { cost, taken } | Op::Cancel { cost, taken } => (cost, 0, taken),
            Op::Settle { reserved, actual, taken } => (reserved, actual, taken),
            Op::Take(_) | Op::Count(_) | Op::Peek => return None,
        };
        let Some(mut account) = self.accounts.peek_mut(&charge.key) else { return Some(op) };
        if actual <= reserved {
            return account.give(reserved - actual, taken, now);
        }
        let forgotten = account.settle(charge.algorithm, actual - reserved, now);
        self.forgotten_units = self.forgotten_units.saturating_add(forgotten);
        let remaining = account.peek(charge.algorithm, now).remaining;
        let matters = account.matters(remaining, nodes);
        let due = if matters { now } else { due_at(charge.algorithm, now, self.interval) };
        self.due.hasten(charge.key, &mut account, due);
        None
    }

    /// Up to `most` deltas that are due at `now`.
    pub fn due(&mut self, now: Timestamp, most: usize) -> Vec<Delta> {
        let again = |orphan: &Delta| orphan.sent.plus(self.pause()) <= now;
        let orphans = self.orphans.iter().take(most).take_while(|it| again(it)).count();
        let mut deltas: Vec<_> = self.orphans.drain(..orphans).collect();
        while deltas.len() < most
            && let Some(key) = self.due.pop(now)
        {
            deltas.extend(self.send(key, now));
        }
        deltas
    }

    fn send(&mut self, key: Key, now: Timestamp) -> Option<Delta> {
        self.deltas += 1;
        self.accounts.peek_mut(&key).map(|mut it| it.send(key, self.deltas, now))
    }

    /// The time of the next delta, if nothing is counted until then.
    pub fn next_due(&self) -> Option<Timestamp> {
        let orphan = self.orphans.front().map(|orphan| orphan.sent.plus(self.pause()));
        self.due.next().into_iter().chain(orphan).min()
    }

    /// Records that the store counted a delta at `at`, by its clock, as [`Delta::count`]
    /// does, and that its state was `before`. If the reply comes after [`Self::lost`], the
    /// delta is no longer in doubt.
    pub fn answered(&mut self, delta: Delta, before: Option<&State>, at: Timestamp) {
        self.find(&delta);
        let shortest = self.pause();
        let longest = self.interval;
        // Units that did not fit are owed, even if the account does not wait for this delta.
        if let Some(mut account) = self.accounts.peek_mut(&delta.key) {
            account.end_wait(&delta);
            self.due.forget(delta.key, &account);
            account.answered(&delta, before, at);
            if account.has_unsent() {
                // Units that do not fit now may fit later. A settlement always fits.
                let due = match delta.is_settlement {
                    true => at,
                    false => at.plus(account.fits_after(at).max(shortest).min(longest)),
                };
                account.hasten(due);
            }
            self.due.resume(delta.key, &account);
            return;
        }
        let units = delta.units - delta.count(before, at).1;
        self.keep(Delta { units, sent: at, ..delta });
    }

    /// Records that a delta certainly did not arrive. Its units are sent again later. This
    /// may follow [`Self::lost`].
    pub fn not_sent(&mut self, delta: Delta, now: Timestamp) {
        self.find(&delta);
        let again = now.plus(self.pause());
        if let Some(mut account) = self.accounts.peek_mut(&delta.key) {
            account.end_wait(&delta);
            self.due.forget(delta.key, &account);
            account.not_sent(&delta, again);
            self.due.resume(delta.key, &account);
            return;
        }
        self.keep(Delta { sent: now, ..delta });
    }

    /// Records that a delta has no reply in time. The store may have counted it, so it is
    /// not sent again. Its units count as admitted and not acknowledged, until they expire or
    /// the outcome is known by [`Self::answered`] or [`Self::not_sent`].
    pub fn lost(&mut self, delta: &mut Delta, now: Timestamp) {
        let again = now.plus(self.pause());
        self.lost_units = self.lost_units.saturating_add(delta.units);
        delta.is_doubted = true;
        if let Some(mut account) = self.accounts.peek_mut(&delta.key)
            && account.end_wait(delta)
        {
            self.due.forget(delta.key, &account);
            account.lost(delta, again);
            self.due.resume(delta.key, &account);
        }
    }

    /// The outcome of the delta is known, so its units are not lost.
    const fn find(&mut self, delta: &Delta) {
        if delta.is_doubted {
            self.lost_units = self.lost_units.saturating_sub(delta.units);
        }
    }

    /// All unsent units, for a node that stops. Deltas under way are not included.
    pub fn close(&mut self, now: Timestamp) -> Vec<Delta> {
        let mut deltas: Vec<_> = mem::take(&mut self.orphans).into();
        let unsent = self.accounts.iter().filter(|(_, it)| it.has_unsent());
        let keys: Vec<Key> = unsent.map(|(key, _)| *key).chain(self.due.take()).collect();
        for key in keys {
            while self.accounts.peek(&key).is_some_and(Account::has_unsent) {
                deltas.extend(self.send(key, now));
            }
        }
        deltas
    }

    /// The units of each key that this node has counted and the store has not acknowledged.
    pub fn unsent(&self) -> impl Iterator<Item = (Counter, u64)> {
        let accounts = self.accounts.iter().map(|(key, account)| (key.counter, account.owed()));
        accounts.chain(self.orphans.iter().map(|delta| (delta.key.counter, delta.units)))
    }

    /// Units that the store may or may not have counted.
    pub const fn lost_units(&self) -> u64 {
        self.lost_units
    }

    /// Units that were never reported to the store: the table was full while the store was
    /// away, or they were more than twice a capacity.
    pub const fn forgotten_units(&self) -> u64 {
        self.forgotten_units
    }

    /// By how much later than it is due a unit is counted at most. Workers look for due reports
    /// at least every [`LOOK`].
    fn lateness(&self) -> Span {
        Span::from_micros(self.interval.as_micros() + LOOK.as_micros())
    }

    /// How long a key waits after a failure, because the store may be away.
    const fn pause(&self) -> Span {
        Span::from_micros(self.interval.as_micros() / 10)
    }

    fn make_room_for(&mut self, key: Key, algorithm: &Algorithm, now: Timestamp) {
        for (key, mut account) in self.accounts.insert(key, Account::new(algorithm)) {
            self.due.forget(key, &account);
            while account.has_unsent() {
                self.keep(account.send(key, 0, now));
            }
        }
    }

    /// Keeps the units that an evicted key owes. The store counts them whether they fit or
    /// not. If there are too many, the oldest are dropped.
    fn keep(&mut self, delta: Delta) {
        if delta.units == 0 {
            return;
        }
        self.orphans.push_back(Delta { is_settlement: true, is_doubted: false, ..delta });
        if self.orphans.len() > self.max_keys
            && let Some(oldest) = self.orphans.pop_front()
        {
            self.forgotten_units = self.forgotten_units.saturating_add(oldest.units);
        }
    }
}

/// When units are reported that are counted at `now`: after the interval, or before their window
/// ends. The store counts them at the time of the report, so those that are reported later count
/// in the next window.
fn due_at(algorithm: &Algorithm, now: Timestamp, interval: Span) -> Timestamp {
    let due = now.plus(interval);
    let window = match algorithm {
        Algorithm::SubWindows(it) => it.length(),
        _ => algorithm.window(),
    };
    let is_long = window.as_micros() >= 2 * interval.as_micros();
    let end = algorithm.edge(now).filter(|_| is_long).map(|edge| edge.minus(BEFORE_THE_END));
    end.filter(|end| *end > now).map_or(due, |end| due.min(end))
}

//! The accounts of all keys of one node, or of a part of them: a bounded table,
//! and an order in which the store is told.

use std::collections::VecDeque;
use std::mem;

use super::account::{Account, Taken};
use super::delta::Delta;
use super::schedule::Schedule;
use crate::algorithm::{Algorithm, Op, Retry, State, Verdict};
use crate::digest::Key;
use crate::store::Charge;
use crate::store::shared::table::Table;
use crate::time::{Span, Timestamp};

/// What one node has counted by itself.
#[derive(Debug)]
pub struct Ledger {
    accounts: Table<Account>,
    /// When the store is to be told of which key: of each once at most.
    due: Schedule,
    /// What keys owe that have lost their place in the table, the oldest first.
    orphans: VecDeque<Delta>,
    max_keys: usize,
    interval: Span,
    deltas: u64,
    lost_units: u64,
    forgotten_units: u64,
}

impl Ledger {
    /// A ledger that remembers up to `max_keys` keys, and tells the store of
    /// each after an `interval` at the latest.
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

    /// Whether units of this algorithm can be counted later. A queue hands out
    /// slots in their order, and what is in flight or banned is not summed up.
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

    /// Counts a charge on one of so many nodes, if that can be done here. What is
    /// counted for a request that another charge stops must be
    /// [withdrawn](Self::withdraw). What the store says when it must be asked is
    /// to be [learnt](Self::learn). `now` is the store's time.
    pub fn take(&mut self, charge: &Charge<'_>, nodes: u64, now: Timestamp) -> Taken {
        let Some(mut account) = self.accounts.use_mut(&charge.key) else { return Taken::Ask };
        let taken = account.take(charge.algorithm, charge.cost, nodes, now);
        let due = match taken {
            Taken::Counted(verdict) if account.matters(verdict.remaining, nodes) => Some(now),
            Taken::Counted(_) => Some(now.plus(self.interval)),
            Taken::Ask => account.has_unsent().then_some(now),
            // Units may have been given back, or all of it been reset.
            Taken::Refused(_) => (account.heard_at().plus(self.interval) <= now).then_some(now),
        };
        if let Some(due) = due {
            self.due.hasten(charge.key, &mut account, due);
        }
        taken
    }

    /// Takes a charge back that was [counted](Taken::Counted) at `taken` for a
    /// request that another one stopped. The verdict says what remains without it.
    /// If the store was told of it, it must do the operation that is returned.
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

    /// Learns what the store said at `at`, by its clock, to a charge for which it
    /// was [asked](Taken::Ask): its state was `before`, and it has counted the charge
    /// or not.
    pub fn learn(
        &mut self,
        charge: &Charge<'_>,
        before: Option<&State>,
        is_counted: bool,
        at: Timestamp,
    ) {
        let (key, algorithm) = (charge.key, charge.algorithm);
        let taken = is_counted.then(|| algorithm.apply(before, Op::Take(charge.cost), at).0);
        let after = taken.flatten().or_else(|| before.cloned());
        if self.accounts.peek(&key).is_none() {
            self.make_room_for(key, algorithm, at);
        }
        if let Some(mut account) = self.accounts.peek_mut(&key) {
            account.hear(after, at);
        }
    }

    /// Takes note of a charge that was admitted without the store, which is told of
    /// it when it is back, and not by this ledger. Until then the key is judged as if
    /// the store had counted it.
    pub fn foresee(&mut self, charge: &Charge<'_>, now: Timestamp) {
        if let Some(mut account) = self.accounts.peek_mut(&charge.key) {
            account.foresee(charge.cost, now);
        }
    }

    /// Corrects what was counted. Returns what the store must correct: what it was
    /// told of before, or what nothing is known of here.
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
            Op::Take(_) | Op::Peek => return None,
        };
        let Some(mut account) = self.accounts.peek_mut(&charge.key) else { return Some(op) };
        if actual <= reserved {
            return account.give(reserved - actual, taken, now);
        }
        let forgotten = account.settle(charge.algorithm, actual - reserved, now);
        self.forgotten_units = self.forgotten_units.saturating_add(forgotten);
        let remaining = account.peek(charge.algorithm, now).remaining;
        let matters = account.matters(remaining, nodes);
        let due = if matters { now } else { now.plus(self.interval) };
        self.due.hasten(charge.key, &mut account, due);
        None
    }

    /// What the store is to be told at `now`, `most` deltas at a time.
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

    /// When there is something to tell, if nothing is counted until then.
    pub fn next_due(&self) -> Option<Timestamp> {
        let orphan = self.orphans.front().map(|orphan| orphan.sent.plus(self.pause()));
        self.due.next().into_iter().chain(orphan).min()
    }

    /// The store has counted a delta at `at`, by its clock, as [`Delta::count`] says;
    /// its state before that was `before`. An answer may come late, when the delta
    /// was thought to be [lost](Self::lost): then it is in doubt no more.
    pub fn answered(&mut self, delta: Delta, before: Option<&State>, at: Timestamp) {
        self.find(&delta);
        // It need not be recalled: what did not fit is owed in any case.
        if let Some(mut account) = self.accounts.peek_mut(&delta.key) {
            account.recalls(&delta);
            self.due.forget(delta.key, &account);
            account.answered(&delta, before, at);
            if account.has_unsent() {
                // What does not fit now may fit later; a settlement always does.
                let due = if delta.is_settlement { at } else { at.plus(self.interval) };
                account.hasten(due);
            }
            self.due.resume(delta.key, &account);
            return;
        }
        let units = delta.units - delta.count(before, at).1;
        self.keep(Delta { units, sent: at, ..delta });
    }

    /// A delta certainly did not arrive: its units are kept, and sent later. This
    /// may also be found out late.
    pub fn not_sent(&mut self, delta: Delta, now: Timestamp) {
        self.find(&delta);
        let again = now.plus(self.pause());
        if let Some(mut account) = self.accounts.peek_mut(&delta.key) {
            account.recalls(&delta);
            self.due.forget(delta.key, &account);
            account.not_sent(&delta, again);
            self.due.resume(delta.key, &account);
            return;
        }
        self.keep(Delta { sent: now, ..delta });
    }

    /// There is no answer to a delta in time, and it may have been counted, so it
    /// is not sent again. Should the ledger hear later what became of it, by
    /// [`Self::answered`] or [`Self::not_sent`], the account is settled. Until
    /// then its units are part of what this node has admitted by itself, for as
    /// long as they would count.
    pub fn lost(&mut self, delta: &mut Delta, now: Timestamp) {
        let again = now.plus(self.pause());
        self.lost_units = self.lost_units.saturating_add(delta.units);
        delta.is_doubted = true;
        if let Some(mut account) = self.accounts.peek_mut(&delta.key)
            && account.recalls(delta)
        {
            self.due.forget(delta.key, &account);
            account.lost(delta, again);
            self.due.resume(delta.key, &account);
        }
    }

    /// What became of it is known now.
    const fn find(&mut self, delta: &Delta) {
        if delta.is_doubted {
            self.lost_units = self.lost_units.saturating_sub(delta.units);
        }
    }

    /// All that is not sent, for a node that stops. What is under way stays so.
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

    /// Units of which it is not known whether the store has counted them.
    pub const fn lost_units(&self) -> u64 {
        self.lost_units
    }

    /// Units that the store was never told of, for want of room while it was away,
    /// or because they were more than twice a capacity.
    pub const fn forgotten_units(&self) -> u64 {
        self.forgotten_units
    }

    /// How long a key waits after a failure: the store may be away.
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

    /// Keeps what a key owes that has no account, to be counted whether it fits or
    /// not. The oldest are forgotten when there are too many.
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

//! The accounts of all keys of one worker: a bounded table, and an order in
//! which the store is told.

use std::collections::{BTreeSet, VecDeque};
use std::mem;

use quick_cache::unsync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, UnitWeighter};

use super::account::Account;
use crate::algorithm::{Algorithm, Op, Retry, State, Verdict};
use crate::digest::Key;
use crate::store::Charge;
use crate::time::{Span, Timestamp};

/// Units that were counted here, for the store to count. Of each one the ledger
/// must hear what became of it: [`Ledger::answered`], [`Ledger::not_sent`] or
/// [`Ledger::lost`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "its units are counted nowhere else"]
pub struct Delta {
    /// The counter.
    pub key: Key,
    /// How it counts.
    pub algorithm: Algorithm,
    /// How many. None, if only the store's state is wanted.
    pub units: u64,
    /// When it was sent, or could not be.
    pub sent: Timestamp,
}

impl Delta {
    /// What it is to the store: counted whether it fits or not.
    pub const fn op(&self) -> Op {
        Op::Settle { reserved: 0, actual: self.units, taken: self.sent }
    }
}

/// What one worker has counted by itself.
#[derive(Debug)]
pub struct Ledger {
    accounts: Cache<Key, Account, UnitWeighter, DefaultHashBuilder, Evictions>,
    /// When the store is to be told of which key: of each once at most.
    due: Schedule,
    /// What keys owe that have lost their place in the table, the oldest first.
    orphans: VecDeque<Delta>,
    max_keys: usize,
    interval: Span,
    lost_units: u64,
    forgotten_units: u64,
}

/// When the store is to be told of which key.
#[derive(Debug, Default)]
struct Schedule(BTreeSet<(Timestamp, Key)>);

impl Schedule {
    /// This key is due no later than that.
    fn hasten(&mut self, key: Key, account: &mut Account, due: Timestamp) {
        self.forget(key, account);
        account.hasten(due);
        self.resume(key, account);
    }

    /// Nothing is under way any more: what came meanwhile has its turn.
    fn resume(&mut self, key: Key, account: &Account) {
        if !account.is_under_way() {
            self.0.extend(account.due().map(|due| (due, key)));
        }
    }

    fn forget(&mut self, key: Key, account: &Account) {
        if let Some(due) = account.due() {
            self.0.remove(&(due, key));
        }
    }

    fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|&(due, _)| due)
    }

    /// The first key that is due at `now`.
    fn pop(&mut self, now: Timestamp) -> Option<Key> {
        let &(due, key) = self.0.first()?;
        (due <= now && self.0.remove(&(due, key))).then_some(key)
    }
}

/// Hands over what is evicted: it may owe units.
#[derive(Clone, Debug)]
struct Evictions;

impl Lifecycle<Key, Account> for Evictions {
    type RequestState = Vec<(Key, Account)>;

    fn on_evict(&self, evicted: &mut Self::RequestState, key: Key, account: Account) {
        evicted.push((key, account));
    }
}

impl Ledger {
    /// A ledger that remembers up to `max_keys` keys, and tells the store of
    /// each after an `interval` at the latest.
    pub fn new(max_keys: usize, interval: Span) -> Self {
        let capacity = u64::try_from(max_keys).unwrap_or(u64::MAX);
        Self {
            accounts: Cache::with(
                max_keys,
                capacity,
                UnitWeighter,
                DefaultHashBuilder::default(),
                Evictions,
            ),
            due: Schedule::default(),
            orphans: VecDeque::new(),
            max_keys,
            interval,
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

    /// What the estimate says to a charge, which is not counted yet: that waits
    /// until no other charge of its request is refused. `now` is the store's time.
    pub fn judge(&mut self, charge: &Charge<'_>, now: Timestamp) -> Verdict {
        let Some(mut account) = self.accounts.get_mut(&charge.key) else {
            return charge.algorithm.apply(None, Op::Take(charge.cost), now).1;
        };
        let verdict = account.judge(charge.algorithm, Op::Take(charge.cost), now);
        let old = account.told().is_none_or(|told| told.plus(self.interval) <= now);
        if !verdict.admitted && old {
            // Units may have been given back, or all of it been reset.
            self.due.hasten(charge.key, &mut account, now);
        }
        verdict
    }

    /// What remains for a charge that another one of its request stopped.
    pub fn peek(&self, charge: &Charge<'_>, now: Timestamp) -> Verdict {
        let account = self.accounts.peek(&charge.key);
        let verdict = match account {
            Some(account) => account.judge(charge.algorithm, Op::Peek, now),
            None => charge.algorithm.apply(None, Op::Peek, now).1,
        };
        Verdict { admitted: true, retry: Retry::Now, ..verdict }
    }

    /// Counts a charge of a request that is admitted. There are `ledgers` on
    /// all nodes together, one for each worker. The verdict says what remains.
    pub fn count(&mut self, charge: &Charge<'_>, ledgers: u64, now: Timestamp) -> Verdict {
        let key = charge.key;
        if self.accounts.peek(&key).is_none() {
            self.make_room_for(key, charge.algorithm, now);
        }
        let Some(mut account) = self.accounts.peek_mut(&key) else {
            self.forgotten_units = self.forgotten_units.saturating_add(charge.cost);
            return charge.algorithm.apply(None, Op::Take(charge.cost), now).1;
        };
        let verdict = account.count(charge.algorithm, charge.cost, now);
        let matters = account.matters(verdict.remaining, ledgers);
        let due = if matters { now } else { now.plus(self.interval) };
        self.due.hasten(key, &mut account, due);
        verdict
    }

    /// Corrects what was counted here. Returns what the store must correct: what
    /// it was told of before, or what nothing is known of here.
    pub fn correct(
        &mut self,
        charge: &Charge<'_>,
        op: Op,
        ledgers: u64,
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
        drop(account);
        let _ = self.count(&Charge { cost: actual - reserved, ..*charge }, ledgers, now);
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
            deltas.extend(self.accounts.peek_mut(&key).map(|mut it| it.send(key, now)));
        }
        deltas
    }

    /// When there is something to tell, if nothing is counted until then.
    pub fn next_due(&self) -> Option<Timestamp> {
        let orphan = self.orphans.front().map(|orphan| orphan.sent.plus(self.pause()));
        self.due.next().into_iter().chain(orphan).min()
    }

    /// The store counted a delta at `at`, by its clock; `before` is its state
    /// before that.
    pub fn answered(&mut self, delta: &Delta, before: Option<&State>, at: Timestamp) {
        if let Some(mut account) = self.accounts.peek_mut(&delta.key)
            && account.awaits(delta)
        {
            account.answered(delta, before, at);
            self.due.resume(delta.key, &account);
        }
    }

    /// A delta certainly did not arrive: its units are kept, and sent later.
    pub fn not_sent(&mut self, delta: Delta, now: Timestamp) {
        let again = now.plus(self.pause());
        match self.accounts.peek_mut(&delta.key) {
            Some(mut account) if account.awaits(&delta) => {
                account.failed(delta.units, again);
                self.due.resume(delta.key, &account);
            }
            _ => self.keep(Delta { sent: now, ..delta }),
        }
    }

    /// A delta may have been counted, so it is not sent again. If it was not,
    /// its units are missing in the store; here they still count.
    pub fn lost(&mut self, delta: &Delta, now: Timestamp) {
        let again = now.plus(self.pause());
        self.lost_units = self.lost_units.saturating_add(delta.units);
        if let Some(mut account) = self.accounts.peek_mut(&delta.key)
            && account.awaits(delta)
        {
            account.failed(0, again);
            self.due.resume(delta.key, &account);
        }
    }

    /// All that is not sent, for a node that stops. What is under way stays so.
    pub fn close(&mut self, now: Timestamp) -> Vec<Delta> {
        let owed = mem::take(&mut self.due.0);
        let mut deltas: Vec<_> = mem::take(&mut self.orphans).into();
        for (_, key) in owed {
            deltas.extend(self.accounts.peek_mut(&key).map(|mut it| it.send(key, now)));
        }
        deltas
    }

    /// Units that may have been counted by the store, or not.
    pub const fn lost_units(&self) -> u64 {
        self.lost_units
    }

    /// Units that the store was never told of, for want of room while it was away.
    pub const fn forgotten_units(&self) -> u64 {
        self.forgotten_units
    }

    /// How long a key waits after a failure: the store may be away.
    const fn pause(&self) -> Span {
        Span::from_micros(self.interval.as_micros() / 10)
    }

    fn make_room_for(&mut self, key: Key, algorithm: &Algorithm, now: Timestamp) {
        let mut evicted = Vec::new();
        self.accounts.insert_with_lifecycle(key, Account::new(algorithm), &mut evicted);
        for (key, mut account) in evicted {
            self.due.forget(key, &account);
            if account.unsent() > 0 {
                self.keep(account.send(key, now));
            }
        }
    }

    /// Keeps what a key owes that has no account. The oldest are forgotten when
    /// there are too many.
    fn keep(&mut self, delta: Delta) {
        self.orphans.push_back(delta);
        if self.orphans.len() > self.max_keys
            && let Some(oldest) = self.orphans.pop_front()
        {
            self.forgotten_units = self.forgotten_units.saturating_add(oldest.units);
        }
    }
}

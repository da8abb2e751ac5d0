//! What of a request is decided on this node, without the store: by leases, by
//! what is told later, and by what is known of bans.
//!
//! A request is first planned, charge by charge: what can be counted here is
//! counted. What must be asked is asked, and then all of it stays counted or is
//! withdrawn, so that it stays all or nothing whichever way its charges go.
//!
//! All workers of a node share what is kept here, divided by key into parts with
//! a lock each. A lock is held for one step on one key, and never while something
//! is awaited. Each worker sends what is due by its own connections.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::ask::Ask;
use super::leased::{self, Bans, LeaseLength, Return, Spending};
use super::write_back::{self, Delta, Taken};
use crate::algorithm::{Algorithm, Op, State, Verdict};
use crate::consistency::StoreMode;
use crate::digest::Key;
use crate::store::{Answer, Charge, Source};
use crate::time::{Span, Timestamp};

/// What a node remembers of keys that are leased, of those told later, and of bans.
const MAX_KEYS: usize = 1 << 18;
/// Parts with a lock each: several for each worker.
const PARTS: usize = 64;
/// How many counters the store is told of at a time.
const MAX_DELTAS: usize = 64;

/// How one charge is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Planned {
    /// The store must be asked.
    Ask(Ask),
    /// It was spent of what was leased, at this time.
    Spent(Verdict, Timestamp),
    /// It was counted here, at this time, and the store is told later.
    Counted(Verdict, Timestamp),
    /// It is known without asking, and nothing is counted.
    Cached(Verdict),
}

/// How each charge of a request is decided, in their order.
pub(in crate::store) type Plan = SmallVec<[Planned; 4]>;

/// The ledgers by which one node decides without the store.
#[derive(Debug)]
pub(in crate::store) struct LocalLedgers {
    parts: Box<[Part]>,
    /// How far the store's clock is ahead of this node's, in microseconds.
    ahead_us: AtomicI64,
}

/// A part of the keys.
#[derive(Debug)]
struct Part {
    books: Mutex<Books>,
    /// When something of it is due, in microseconds. It is read without the lock.
    next_us: AtomicU64,
}

#[derive(Debug)]
struct Books {
    leases: leased::Ledger,
    accounts: write_back::Ledger,
    bans: Bans,
}

/// What the store is to be told.
#[derive(Debug, Default)]
pub(in crate::store) struct Due {
    pub(in crate::store) returns: Vec<Return>,
    pub(in crate::store) deltas: Vec<Delta>,
}

/// What became of what the store was told.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) enum ReportOutcome<'s> {
    /// It counted it, in this state, at this time.
    Counted(Option<&'s State>, Timestamp),
    /// It certainly did not.
    NotCounted,
    /// That is not known.
    Unknown,
}

impl Part {
    fn with<T>(&self, step: impl FnOnce(&mut Books) -> T) -> T {
        let mut books = self.books.lock();
        let done = step(&mut books);
        let next = books.leases.next_return().into_iter().chain(books.accounts.next_due()).min();
        // It may be read too late: then what is due waits for the next look.
        self.next_us.store(next.map_or(u64::MAX, Timestamp::as_micros), Ordering::Relaxed);
        done
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.next_us.load(Ordering::Relaxed) <= now.as_micros()
    }

    fn due(&self, now: Timestamp, due: &mut Due) {
        let most = MAX_DELTAS.saturating_sub(due.deltas.len());
        self.with(|books| {
            due.returns.extend(books.leases.returns(now));
            due.deltas.extend(books.accounts.due(now, most));
        });
    }
}

impl LocalLedgers {
    /// What was counted here may wait for `interval`; leases last for `length`.
    pub(in crate::store) fn new(interval: Span, length: LeaseLength) -> Self {
        let most = MAX_KEYS / PARTS;
        let part = |_| Part {
            books: Mutex::new(Books {
                leases: leased::Ledger::new(most, length),
                accounts: write_back::Ledger::new(most, interval),
                bans: Bans::new(most, length),
            }),
            next_us: AtomicU64::new(u64::MAX),
        };
        Self { parts: (0..PARTS).map(part).collect(), ahead_us: AtomicI64::new(0) }
    }

    /// Keys are digests already.
    fn part(&self, key: Key) -> &Part {
        let bits = key.principal.bits() >> 64 ^ u128::from(key.counter.bits());
        let index = usize::try_from(bits % PARTS as u128).unwrap_or(0);
        &self.parts[index]
    }

    /// A worker knows how far the store's clock is ahead.
    pub(in crate::store) fn set_clock(&self, here: Timestamp, there: Timestamp) {
        let us = |time: Timestamp| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        self.ahead_us.store(us(there).saturating_sub(us(here)), Ordering::Relaxed);
    }

    /// The store's time, for a worker that has not heard it yet.
    pub(in crate::store) fn store_time(&self, now: Timestamp) -> Timestamp {
        let us = now.as_micros().saturating_add_signed(self.ahead_us.load(Ordering::Relaxed));
        Timestamp::from_micros(us)
    }

    /// Plans the charges on one of so many nodes. What is spent or counted
    /// here is so already. While the store is away (`is_up` is false), nothing is counted
    /// to be told later: the charge goes where `on_store_failure` leads. `now` is the
    /// store's time, as it is wherever it is asked for in here.
    pub(in crate::store) fn plan(
        &self,
        charges: &[Charge<'_>],
        (nodes, is_up): (u64, bool),
        now: Timestamp,
    ) -> Plan {
        charges.iter().map(|charge| self.planned(charge, (nodes, is_up), now)).collect()
    }

    fn planned(&self, charge: &Charge<'_>, (nodes, is_up): (u64, bool), now: Timestamp) -> Planned {
        let take = Planned::Ask(Ask::Take(charge.cost));
        match (charge.consistency.mode, charge.algorithm) {
            (StoreMode::Exact, _) => take,
            (_, Algorithm::Ban(_)) => {
                let known = self.part(charge.key).books.lock().bans.judge(charge, now);
                known.map_or(take, Planned::Cached)
            }
            (StoreMode::Leased, algorithm) if leased::Ledger::leases(algorithm) => {
                match self.part(charge.key).with(|books| books.leases.spend(charge, now)) {
                    Spending::Spent(verdict) => Planned::Spent(verdict, now),
                    Spending::Refused(verdict) => Planned::Cached(verdict),
                    Spending::Ask(ahead) => Planned::Ask(Ask::Lease { cost: charge.cost, ahead }),
                }
            }
            (StoreMode::WriteBack, algorithm) if is_up && write_back::Ledger::counts(algorithm) => {
                let part = self.part(charge.key);
                match part.with(|books| books.accounts.take(charge, nodes, now)) {
                    Taken::Counted(verdict) => Planned::Counted(verdict, now),
                    Taken::Refused(verdict) => Planned::Cached(verdict),
                    Taken::Ask => take,
                }
            }
            _ => take,
        }
    }

    /// Withdraws what was planned for a request that is refused: what is said of
    /// it, unless the store was asked, and what the store must do for it.
    pub(in crate::store) fn withdraw(
        &self,
        charge: &Charge<'_>,
        planned: Planned,
        now: Timestamp,
    ) -> (Option<Answer>, Option<Op>) {
        let (verdict, op) = match planned {
            Planned::Ask(_) => return (None, None),
            Planned::Cached(verdict) => (verdict, None),
            Planned::Spent(spent, at) => {
                let part = self.part(charge.key);
                let back = part.with(|books| books.leases.put_back(charge, at, now));
                (back.unwrap_or(spent), None)
            }
            Planned::Counted(_, at) => {
                self.part(charge.key).with(|books| books.accounts.withdraw(charge, at, now))
            }
        };
        (Some(Answer::of_store(verdict)), op)
    }

    /// Takes note of a ban, if `op` imposes one.
    pub(in crate::store) fn imposes(&self, charge: &Charge<'_>, op: Op, now: Timestamp) {
        if matches!(charge.algorithm, Algorithm::Ban(_))
            && charge.consistency.mode != StoreMode::Exact
        {
            self.part(charge.key).books.lock().bans.corrected(charge, op, now);
        }
    }

    /// Corrects what was counted, as far as it is known here. Returns what the
    /// store must correct.
    pub(in crate::store) fn correct(
        &self,
        charge: &Charge<'_>,
        op: Op,
        nodes: u64,
        now: Timestamp,
    ) -> Option<Op> {
        let part = self.part(charge.key);
        match (charge.consistency.mode, charge.algorithm) {
            (StoreMode::Exact, _) => Some(op),
            (_, Algorithm::Ban(_)) => {
                self.imposes(charge, op, now);
                Some(op)
            }
            (StoreMode::Leased, _) => {
                part.with(|books| books.leases.corrected(charge.key, op, now));
                Some(op)
            }
            (StoreMode::WriteBack, algorithm) if write_back::Ledger::counts(algorithm) => {
                part.with(|books| books.accounts.correct(charge, op, nodes, now))
            }
            (StoreMode::WriteBack, _) => Some(op),
        }
    }

    /// Takes note of what the store said at `at` to a charge that it was asked for:
    /// its state was `before`, and it has counted the charge or not. Of a lease that
    /// it would have given, had no other charge stopped the request (`is_stopped`),
    /// nothing is noted. Returns what is to be told instead of the store's verdict.
    pub(in crate::store) fn learn_reply(
        &self,
        charge: &Charge<'_>,
        ask: Ask,
        before: Option<&State>,
        (is_counted, is_stopped): (bool, bool),
        at: Timestamp,
    ) -> Option<Verdict> {
        let part = self.part(charge.key);
        match (charge.consistency.mode, charge.algorithm, ask) {
            (StoreMode::Exact, ..) => None,
            (_, Algorithm::Ban(_), _) => {
                part.books.lock().bans.learn(charge, before, at);
                None
            }
            (_, _, Ask::Lease { ahead, .. }) => {
                let note = || part.with(|books| books.leases.answered(charge, ahead, before, at));
                (!is_stopped).then(note)
            }
            (StoreMode::WriteBack, algorithm, _) if write_back::Ledger::counts(algorithm) => {
                part.with(|books| books.accounts.learn(charge, before, is_counted, at));
                None
            }
            _ => None,
        }
    }

    /// Takes note of what this node has admitted of a request because the store did
    /// not say anything. It is told of that when it is back.
    pub(in crate::store) fn foresee(
        &self,
        charges: &[Charge<'_>],
        answers: &[Answer],
        now: Timestamp,
    ) {
        for (charge, answer) in charges.iter().zip(answers) {
            let is_later = charge.consistency.mode == StoreMode::WriteBack;
            if is_later && answer.source == Source::Local && answer.verdict.admitted {
                self.part(charge.key).with(|books| books.accounts.foresee(charge, now));
            }
        }
    }

    /// What the store is to be told now of all keys.
    pub(in crate::store) fn due(&self, now: Timestamp) -> Due {
        let mut due = Due::default();
        for part in self.parts.iter().filter(|part| part.is_due(now)) {
            part.due(now, &mut due);
        }
        due
    }

    /// What the store is to be told now of these keys, and of some others.
    pub(in crate::store) fn due_of<'c>(
        &self,
        charges: impl Iterator<Item = &'c Charge<'c>>,
        now: Timestamp,
    ) -> Due {
        let mut due = Due::default();
        for charge in charges.filter(|it| it.consistency.mode != StoreMode::Exact) {
            let part = self.part(charge.key);
            if part.is_due(now) {
                part.due(now, &mut due);
            }
        }
        due
    }

    /// What became of what the store was told. A delta that is in doubt is
    /// returned: should it be known later what became of it, that is to be told
    /// likewise, and settles the account.
    pub(in crate::store) fn reported(
        &self,
        mut delta: Delta,
        outcome: ReportOutcome<'_>,
        now: Timestamp,
    ) -> Option<Delta> {
        self.part(delta.key).with(|Books { accounts, .. }| match outcome {
            ReportOutcome::Counted(before, at) => {
                accounts.answered(delta, before, at);
                None
            }
            ReportOutcome::NotCounted => {
                accounts.not_sent(delta, now);
                None
            }
            ReportOutcome::Unknown => {
                accounts.lost(&mut delta, now);
                Some(delta)
            }
        })
    }

    /// Units that the accounts have lost, and forgotten, since the node has started.
    pub(in crate::store) fn losses(&self) -> [u64; 2] {
        let part = |part: &Part| {
            let books = part.books.lock();
            [books.accounts.lost_units(), books.accounts.forgotten_units()]
        };
        let add = |[a, b]: [u64; 2], [c, d]: [u64; 2]| [a.saturating_add(c), b.saturating_add(d)];
        self.parts.iter().map(part).fold([0; 2], add)
    }

    /// All that the store should know before a worker ends. Other workers may go
    /// on, and do the same.
    pub(in crate::store) fn close(&self, now: Timestamp) -> Due {
        let mut due = Due::default();
        for part in &self.parts {
            part.with(|books| {
                due.returns.extend(books.leases.close(now));
                due.deltas.extend(books.accounts.close(now));
            });
        }
        due
    }
}

impl Planned {
    /// Whether the request is refused for it without asking the store.
    pub(in crate::store) const fn refuses(self) -> bool {
        match self {
            Self::Ask(_) => false,
            Self::Spent(verdict, _) | Self::Counted(verdict, _) | Self::Cached(verdict) => {
                !verdict.admitted
            }
        }
    }

    /// What is said of it if the request is admitted, unless the store was asked.
    pub(in crate::store) fn answer(self) -> Option<Answer> {
        match self {
            Self::Ask(_) => None,
            Self::Spent(verdict, _) | Self::Counted(verdict, _) | Self::Cached(verdict) => {
                Some(Answer::of_store(verdict))
            }
        }
    }
}

//! Decisions on this node without the store: by leases, by write-back, and by known bans.
//!
//! A request is first planned, charge by charge. This node counts the charges that it can
//! decide, and asks the store for the others. Then all charges stay counted or all are
//! withdrawn, so a request is all or nothing however its charges are decided.
//!
//! All workers of a node share the ledgers. They are divided by key into shards with a lock
//! each. A lock is held for one step on one key, and never across an `await`. Each worker
//! sends due reports over its own connections.

mod refusals;
mod units;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

pub(crate) use self::refusals::{Standing, has_account, lengthen};
use tollgate_core::algorithm::{Algorithm, Op, Retry, State, Verdict};
use tollgate_core::consistency::StoreMode;
use tollgate_core::digest::Key;
use tollgate_core::store::{Answer, Charge, Source};
use tollgate_core::time::{Span, Timestamp};

use super::ask::Ask;
use super::leased::{self, Bans, LeaseLength, Return, Spending};
use super::write_back::{self, Delta, TakeOutcome};

/// The maximum number of leases, of accounts and of bans on one node.
const MAX_KEYS: usize = 1 << 18;
/// The number of shards with a lock each: several for each worker.
const SHARDS: usize = 64;
/// The maximum number of counters in one report.
const MAX_DELTAS: usize = 64;
/// The smallest change of the difference of the clocks that is recorded, in microseconds.
const NOTICEABLE_US: u64 = 1000;

/// How one charge is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planned {
    /// The store must be asked.
    Ask(Ask),
    /// It was paid from a lease, at this time.
    Spent(Verdict, Timestamp),
    /// This node has counted it, at this time, and reports it to the store later.
    Counted(Verdict, Timestamp),
    /// The verdict is known without a call, and nothing is counted.
    Cached(Verdict),
}

/// The ledgers by which one node decides without the store.
#[derive(Debug)]
pub(crate) struct LocalLedgers {
    shards: Box<[Shard]>,
    /// The store's clock minus this node's, in microseconds.
    ahead_us: AtomicI64,
}

/// The ledgers of a part of the keys.
#[derive(Debug)]
struct Shard {
    ledgers: Mutex<Ledgers>,
    /// When the next report is due, in microseconds. It is read without the lock.
    next_us: AtomicU64,
}

#[derive(Debug)]
struct Ledgers {
    leases: leased::Ledger,
    accounts: write_back::Ledger,
    bans: Bans,
}

/// Reports that are due.
#[derive(Debug, Default)]
pub(crate) struct Due {
    pub(crate) returns: Vec<Return>,
    pub(crate) deltas: Vec<Delta>,
}

/// The outcome of a report.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReportOutcome<'s> {
    /// The store counted it, in this state, at this time.
    Counted(Option<&'s State>, Timestamp),
    /// The store certainly did not count it.
    NotCounted,
    /// The store may or may not have counted it.
    Unknown,
}

impl Shard {
    fn with<T>(&self, step: impl FnOnce(&mut Ledgers) -> T) -> T {
        let mut ledgers = self.ledgers.lock();
        let done = step(&mut ledgers);
        let next =
            ledgers.leases.next_return().into_iter().chain(ledgers.accounts.next_due()).min();
        // If another thread reads the old value, due reports wait for the next look.
        self.next_us.store(next.map_or(u64::MAX, Timestamp::as_micros), Ordering::Relaxed);
        done
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.next_us.load(Ordering::Relaxed) <= now.as_micros()
    }

    fn due(&self, now: Timestamp, due: &mut Due) {
        let most = MAX_DELTAS.saturating_sub(due.deltas.len());
        self.with(|ledgers| {
            due.returns.extend(ledgers.leases.returns(now));
            due.deltas.extend(ledgers.accounts.due(now, most));
        });
    }
}

impl LocalLedgers {
    /// Reports wait for at most `interval`. Leases last for `length`.
    pub(crate) fn new(interval: Span, length: LeaseLength) -> Self {
        let most = MAX_KEYS / SHARDS;
        let shard = |_| Shard {
            ledgers: Mutex::new(Ledgers {
                leases: leased::Ledger::new(most, length),
                accounts: write_back::Ledger::new(most, interval),
                bans: Bans::new(most, length),
            }),
            next_us: AtomicU64::new(u64::MAX),
        };
        Self { shards: (0..SHARDS).map(shard).collect(), ahead_us: AtomicI64::new(0) }
    }

    /// The shard of a key. Keys are digests, so their bits are uniform.
    fn shard(&self, key: Key) -> &Shard {
        let bits = key.principal.bits() >> 64 ^ u128::from(key.counter.bits());
        let index = usize::try_from(bits % SHARDS as u128).unwrap_or(0);
        &self.shards[index]
    }

    /// Sets the difference of the clocks: it is `here` on this node and `there` in the store. Each
    /// reply to a worker does so. A change that the time of a call explains is not written, because
    /// all workers share the value.
    pub(crate) fn set_clock(&self, here: Timestamp, there: Timestamp) {
        let us = |time: Timestamp| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let ahead_us = us(there).saturating_sub(us(here));
        if self.ahead_us.load(Ordering::Relaxed).abs_diff(ahead_us) >= NOTICEABLE_US {
            self.ahead_us.store(ahead_us, Ordering::Relaxed);
        }
    }

    /// The store's time, without the last reply to one worker.
    pub(crate) fn store_time(&self, now: Timestamp) -> Timestamp {
        let us = now.as_micros().saturating_add_signed(self.ahead_us.load(Ordering::Relaxed));
        Timestamp::from_micros(us)
    }

    /// Plans a charge on one of `nodes` nodes. A lease is spent and units are counted already when
    /// this returns. While the store is away (`is_up` is false), no units are counted for a later
    /// report: `on_store_failure` decides. In this module `now` is always the store's time. Here
    /// it may be later by up to `slack`.
    pub(crate) fn plan(
        &self,
        charge: &Charge<'_>,
        nodes: u64,
        is_up: bool,
        now: Timestamp,
        slack: Span,
    ) -> Planned {
        let is_over = |verdict: &Verdict| !verdict.admitted && verdict.retry <= Retry::After(slack);
        let take = Planned::Ask(Ask::Take(charge.cost));
        match (charge.consistency.mode, charge.algorithm) {
            (StoreMode::Exact, _) => take,
            (_, Algorithm::Ban(_)) => {
                let known = self.shard(charge.key).ledgers.lock().bans.judge(charge, now);
                known.filter(|it| !is_over(it)).map_or(take, Planned::Cached)
            }
            (StoreMode::Leased, algorithm) if leased::Ledger::leases(algorithm) => {
                match self
                    .shard(charge.key)
                    .with(|ledgers| ledgers.leases.spend(charge, now, slack))
                {
                    Spending::Spent(verdict) => Planned::Spent(verdict, now),
                    Spending::Refused(verdict) => Planned::Cached(verdict),
                    Spending::Ask(ahead) => Planned::Ask(Ask::Lease { cost: charge.cost, ahead }),
                }
            }
            (StoreMode::WriteBack, algorithm) if write_back::Ledger::counts(algorithm) => {
                let taken = self.shard(charge.key).with(|Ledgers { accounts, .. }| match is_up {
                    true => accounts.take(charge, nodes, now, slack),
                    false => {
                        accounts.ask(charge);
                        TakeOutcome::Ask
                    }
                });
                match taken {
                    TakeOutcome::Counted(verdict) => Planned::Counted(verdict, now),
                    TakeOutcome::Refused(verdict) => Planned::Cached(verdict),
                    TakeOutcome::Ask => take,
                }
            }
            _ => take,
        }
    }

    /// Withdraws the planned charge of a request that is refused. Returns its answer, unless
    /// the store is asked for it, and the operation that the store must perform.
    pub(crate) fn withdraw(
        &self,
        charge: &Charge<'_>,
        planned: Planned,
        now: Timestamp,
    ) -> (Option<Answer>, Option<Op>) {
        let (verdict, op) = match planned {
            Planned::Ask(_) => {
                self.end_ask(charge);
                return (None, None);
            }
            Planned::Cached(verdict) => (verdict, None),
            Planned::Spent(spent, at) => {
                let shard = self.shard(charge.key);
                let back = shard.with(|ledgers| ledgers.leases.put_back(charge, at, now));
                (back.unwrap_or(spent), None)
            }
            Planned::Counted(_, at) => {
                self.shard(charge.key).with(|ledgers| ledgers.accounts.withdraw(charge, at, now))
            }
        };
        (Some(Answer::of_store(verdict)), op)
    }

    /// The answer to a planned charge of a request that is admitted, unless the store was asked.
    pub(crate) fn conclude(&self, charge: &Charge<'_>, planned: Planned) -> Option<Answer> {
        if let Planned::Ask(_) = planned {
            self.end_ask(charge);
        }
        planned.answer()
    }

    /// The reply of the store to this charge is still awaited, although its request was decided
    /// without it. The question must be [ended](Self::end_ask).
    pub(crate) fn ask(&self, charge: &Charge<'_>) {
        self.of_account(charge, |accounts| accounts.ask(charge));
    }

    /// A question to the store has its reply, or will have none.
    pub(crate) fn end_ask(&self, charge: &Charge<'_>) {
        self.of_account(charge, |accounts| accounts.end_ask(charge));
    }

    /// The store may have counted a charge, and has not replied.
    pub(crate) fn doubt_ask(&self, charge: &Charge<'_>) {
        self.of_account(charge, |accounts| accounts.doubt_ask(charge));
    }

    /// The last known state of a counter, with the units that this node has counted since.
    pub(crate) fn known(&self, charge: &Charge<'_>) -> Option<State> {
        let mut state = None;
        self.of_account(charge, |accounts| state = accounts.estimate(&charge.key).cloned());
        state
    }

    /// A step on the accounts, if this charge has one.
    fn of_account(&self, charge: &Charge<'_>, step: impl FnOnce(&mut write_back::Ledger)) {
        if has_account(charge) {
            step(&mut self.shard(charge.key).ledgers.lock().accounts);
        }
    }

    /// Records a ban, if `op` imposes one.
    pub(crate) fn imposes(&self, charge: &Charge<'_>, op: Op, now: Timestamp) {
        if matches!(charge.algorithm, Algorithm::Ban(_))
            && charge.consistency.mode != StoreMode::Exact
        {
            self.shard(charge.key).ledgers.lock().bans.corrected(charge, op, now);
        }
    }

    /// Corrects a charge in the ledgers of this node. Returns the operation that the store
    /// must perform.
    pub(crate) fn correct(
        &self,
        charge: &Charge<'_>,
        op: Op,
        nodes: u64,
        now: Timestamp,
    ) -> Option<Op> {
        let shard = self.shard(charge.key);
        match (charge.consistency.mode, charge.algorithm) {
            (StoreMode::Exact, _) => Some(op),
            (_, Algorithm::Ban(_)) => {
                self.imposes(charge, op, now);
                Some(op)
            }
            (StoreMode::Leased, _) => {
                shard.with(|ledgers| ledgers.leases.corrected(charge.key, op, now));
                Some(op)
            }
            (StoreMode::WriteBack, algorithm) if write_back::Ledger::counts(algorithm) => {
                shard.with(|ledgers| ledgers.accounts.correct(charge, op, nodes, now))
            }
            (StoreMode::WriteBack, _) => Some(op),
        }
    }

    /// Records the store's reply to a charge: at `at` its state was `before`, and it counted
    /// the charge if `is_counted`. If another charge refuses the request (`is_stopped`), a
    /// lease is not recorded. Returns the verdict that replaces the store's, if one does.
    pub(crate) fn learn_reply(
        &self,
        charge: &Charge<'_>,
        ask: Ask,
        before: Option<&State>,
        is_counted: bool,
        is_stopped: bool,
        at: Timestamp,
    ) -> Option<Verdict> {
        let shard = self.shard(charge.key);
        match (charge.consistency.mode, charge.algorithm, ask) {
            (StoreMode::Exact, ..) => None,
            (_, Algorithm::Ban(_), _) => {
                shard.ledgers.lock().bans.learn(charge, before, at);
                None
            }
            (_, _, Ask::Lease { ahead, .. }) => {
                let note =
                    || shard.with(|ledgers| ledgers.leases.answered(charge, ahead, before, at));
                (!is_stopped).then(note)
            }
            (StoreMode::WriteBack, algorithm, _) if write_back::Ledger::counts(algorithm) => {
                shard.with(|Ledgers { accounts, .. }| {
                    accounts.learn(charge, before, is_counted, at);
                    // A wait includes the units that the store does not know.
                    (!is_counted).then(|| accounts.told(charge, at)).flatten()
                })
            }
            _ => None,
        }
    }

    /// Records that the store has given units of a counter back at `at`, and what its state was
    /// then.
    pub(crate) fn returned(&self, key: &Key, state: Option<State>, at: Timestamp) {
        self.shard(*key).ledgers.lock().accounts.returned(key, state, at);
    }

    /// Records a charge of an admitted request. If this node admitted it because the store did
    /// not reply, it is reported as a debt when the store is back.
    pub(crate) fn foresee(&self, charge: &Charge<'_>, answer: &Answer, now: Timestamp) {
        let is_later = charge.consistency.mode == StoreMode::WriteBack;
        if is_later && answer.source == Source::Local && answer.verdict.admitted {
            self.shard(charge.key).with(|ledgers| ledgers.accounts.foresee(charge, now));
        }
    }

    /// The due reports of all keys.
    pub(crate) fn due(&self, now: Timestamp) -> Due {
        let mut due = Due::default();
        for shard in self.shards.iter().filter(|shard| shard.is_due(now)) {
            shard.due(now, &mut due);
        }
        due
    }

    /// The due reports of these keys, and of the others in their shards.
    pub(crate) fn due_of<'c>(
        &self,
        charges: impl Iterator<Item = Charge<'c>>,
        now: Timestamp,
    ) -> Due {
        let mut due = Due::default();
        for charge in charges.filter(|it| it.consistency.mode != StoreMode::Exact) {
            let shard = self.shard(charge.key);
            if shard.is_due(now) {
                shard.due(now, &mut due);
            }
        }
        due
    }

    /// Records the outcome of a report. A delta in doubt is returned. If its outcome is known
    /// later, it must be recorded likewise and corrects the account.
    pub(crate) fn reported(
        &self,
        mut delta: Delta,
        outcome: ReportOutcome<'_>,
        now: Timestamp,
    ) -> Option<Delta> {
        self.shard(delta.key).with(|Ledgers { accounts, .. }| match outcome {
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

    /// The lost units and the forgotten units of the accounts, since the node has started.
    pub(crate) fn losses(&self) -> [u64; 2] {
        let shard = |shard: &Shard| {
            let ledgers = shard.ledgers.lock();
            [ledgers.accounts.lost_units(), ledgers.accounts.forgotten_units()]
        };
        let add = |[a, b]: [u64; 2], [c, d]: [u64; 2]| [a.saturating_add(c), b.saturating_add(d)];
        self.shards.iter().map(shard).fold([0; 2], add)
    }

    /// All reports of this node, before a worker ends. Other workers may continue, and end
    /// likewise.
    pub(crate) fn close(&self, now: Timestamp) -> Due {
        let mut due = Due::default();
        for shard in &self.shards {
            shard.with(|ledgers| {
                due.returns.extend(ledgers.leases.close(now));
                due.deltas.extend(ledgers.accounts.close(now));
            });
        }
        due
    }
}

impl Planned {
    /// The operation that the store performs for this charge, if the store decides it.
    pub(crate) const fn ask(self) -> Option<Ask> {
        match self {
            Self::Ask(ask) => Some(ask),
            Self::Spent(..) | Self::Counted(..) | Self::Cached(_) => None,
        }
    }

    /// Whether this charge is refused without a call.
    pub(crate) const fn refuses(self) -> bool {
        match self {
            Self::Ask(_) => false,
            Self::Spent(verdict, _) | Self::Counted(verdict, _) | Self::Cached(verdict) => {
                !verdict.admitted
            }
        }
    }

    /// The answer to the charge if the request is admitted, unless the store is asked.
    pub(crate) fn answer(self) -> Option<Answer> {
        match self {
            Self::Ask(_) => None,
            Self::Spent(verdict, _) | Self::Counted(verdict, _) | Self::Cached(verdict) => {
                Some(Answer::of_store(verdict))
            }
        }
    }
}

//! Decides without the store.
//!
//! While the store is away every charge is judged as its consistency settings say. Where nodes
//! count for themselves, two things decide, and both must have room:
//!
//! - what the store has said last of a counter that was used up, until that
//!   state's own end (see [`Fallback::learn`]);
//! - this node's share of the limit: the limit divided by the nodes last seen
//!   alive, at least one. What was admitted by the share counts until its own
//!   window is over, through any number of outages.
//!
//! When the store is back it is told, as a [debt](debts), what was admitted
//! meanwhile and still counts.
//!
//! What was under way to the store when it went may have been counted there. It
//! is judged again here, and becomes a debt only when the store's answer comes
//! late and says that it was refused there.
//!
//! All times are those of the store's clock, as far as this node knows it.

mod debts;
mod filter;

use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;

use self::debts::Debts;
pub(in crate::store) use self::debts::{Debt, ServerStatus};
use self::filter::PrincipalFilter;
use super::ask::Ask;
use crate::algorithm::{Algorithm, Op, Retry, State, Verdict};
use crate::consistency::{Consistency, OnFailure};
use crate::digest::{Counter, Key};
use crate::store::{Answer, Charge, Correction, MemoryStore, Source, fresh};
use crate::time::{Span, Timestamp};

/// After how long it is worth another try.
const RETRY: Span = Span::SECOND;

/// Judges while the store is away. Shared by all workers.
#[derive(Debug)]
pub(in crate::store) struct Fallback {
    /// What this node has admitted of its shares. Beside it, under keys of their
    /// own, what the store has said last of counters that were used up.
    memory: Arc<MemoryStore>,
    filter: PrincipalFilter,
    debts: Mutex<Debts>,
}

/// A charge that the store has not judged.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Unjudged<'a> {
    pub(in crate::store) charge: Charge<'a>,
    /// The store may have counted it all the same.
    pub(in crate::store) is_doubtful: bool,
}

impl Fallback {
    pub(in crate::store) fn new(memory: Arc<MemoryStore>) -> Self {
        Self { memory, filter: PrincipalFilter::default(), debts: Mutex::default() }
    }

    /// Judges charges of which the store has told nothing, on one of `nodes`.
    /// Nothing is counted if `refused` says that the request is refused anyway.
    pub(in crate::store) fn judge(
        &self,
        charges: &[Unjudged<'_>],
        refused: bool,
        nodes: u64,
        now: Timestamp,
    ) -> SmallVec<[Answer; 4]> {
        let denied = |it: &Charge<'_>| it.binding && it.consistency.on_failure == OnFailure::Deny;
        let refused = refused || charges.iter().any(|it| denied(&it.charge));
        let local: SmallVec<[Unjudged<'_>; 4]> =
            charges.iter().filter(|it| is_local(&it.charge)).copied().collect();
        let verdicts = self.judge_local(&local, refused, nodes, now);
        let stopped = local.iter().zip(&verdicts).any(|(it, v)| it.charge.binding && !v.admitted);
        if !refused && !stopped {
            let admitted = local.iter().zip(&verdicts).filter(|(_, verdict)| verdict.admitted);
            for (Unjudged { charge, .. }, _) in admitted.filter(|(it, _)| !it.is_doubtful) {
                self.owe(charge, charge.cost, now);
            }
        }
        let mut verdicts = verdicts.into_iter();
        let answer = |Unjudged { charge, .. }: &Unjudged<'_>| match charge.consistency.on_failure {
            OnFailure::Local => {
                let verdict = verdicts.next().expect("one verdict for each local charge");
                Answer { verdict, source: Source::Local }
            }
            OnFailure::Allow => Answer { verdict: fresh(charge, now), source: Source::Policy },
            OnFailure::Deny => {
                let retry = Retry::After(RETRY);
                let verdict = Verdict { admitted: false, retry, ..fresh(charge, now) };
                Answer { verdict, source: Source::Policy }
            }
        };
        charges.iter().map(answer).collect()
    }

    /// The verdicts by the shares, and by what is known.
    fn judge_local(
        &self,
        local: &[Unjudged<'_>],
        refused: bool,
        nodes: u64,
        now: Timestamp,
    ) -> SmallVec<[Verdict; 4]> {
        if local.is_empty() {
            return SmallVec::new();
        }
        let shares: SmallVec<[Algorithm; 4]> =
            local.iter().map(|it| share(it.charge.algorithm, nodes)).collect();
        // The share of each charge, and behind it what is known of its counter.
        let mut asked: SmallVec<[Charge<'_>; 4]> = SmallVec::new();
        let mut is_known: SmallVec<[bool; 4]> = SmallVec::new();
        for (Unjudged { charge, .. }, algorithm) in local.iter().zip(&shares) {
            asked.push(Charge { algorithm, ..*charge });
            is_known.push(self.knows(charge.key, charge.algorithm, now));
            if is_known.last() == Some(&true) {
                self.filter.insert(&charge.key, charge.algorithm, now);
                asked.push(Charge { key: last_known(charge.key), ..*charge });
            }
        }
        let verdicts = match refused {
            false => self.memory.apply(&asked, now),
            true => asked.iter().map(|charge| self.memory.look(charge, now)).collect(),
        };
        let mut verdicts = verdicts.into_iter();
        let mut next = || verdicts.next().expect("one verdict for each charge");
        let verdict = |is_known: bool| match (next(), is_known) {
            (share, false) => share,
            (share, true) => both(share, next()),
        };
        is_known.into_iter().map(verdict).collect()
    }

    /// Corrects what was counted here.
    pub(in crate::store) fn correct(
        &self,
        correction: &Correction<'_>,
        nodes: u64,
        now: Timestamp,
    ) {
        let Correction { ref charge, op, .. } = *correction;
        self.change(charge, op, nodes, now);
        match op {
            Op::Settle { reserved, actual, .. } if actual > reserved => {
                self.debts.lock().add(charge.key, charge.algorithm, actual - reserved, now);
            }
            Op::Settle { reserved, actual, taken } => {
                self.debts.lock().relieve(charge.key, reserved - actual, taken, now);
            }
            Op::Give { cost, taken } | Op::Cancel { cost, taken } => {
                self.debts.lock().relieve(charge.key, cost, taken, now);
            }
            Op::Take(_) | Op::Peek => {}
        }
    }

    /// The store could not be told of units that a request has cost beyond what
    /// it had counted: they count here, and it is told of them later.
    pub(in crate::store) fn settle(
        &self,
        charge: &Charge<'_>,
        units: u64,
        nodes: u64,
        now: Timestamp,
    ) {
        let op = Op::Settle { reserved: 0, actual: units, taken: now };
        self.change(charge, op, nodes, now);
        self.debts.lock().add(charge.key, charge.algorithm, units, now);
    }

    /// The store is to be told of units that were admitted, and count here already.
    pub(in crate::store) fn owe(&self, charge: &Charge<'_>, units: u64, now: Timestamp) {
        if consumes(charge.algorithm) {
            self.debts.lock().add(charge.key, charge.algorithm, units, now);
        }
    }

    /// A charge that was admitted here at `taken` turns out to be counted by the store.
    pub(in crate::store) fn counted_by_store(
        &self,
        charge: &Charge<'_>,
        taken: Timestamp,
        nodes: u64,
        now: Timestamp,
    ) {
        if consumes(charge.algorithm) {
            let algorithm = share(charge.algorithm, nodes);
            let share = Charge { algorithm: &algorithm, ..*charge };
            self.memory.correct(&share, Op::Give { cost: charge.cost, taken }, now);
        }
    }

    /// Does to the share of a counter, and to what is known of it, what is never
    /// refused.
    fn change(&self, charge: &Charge<'_>, op: Op, nodes: u64, now: Timestamp) {
        let algorithm = share(charge.algorithm, nodes);
        self.memory.correct(&Charge { algorithm: &algorithm, ..*charge }, op, now);
        self.change_known(charge.key, charge.algorithm, op, now);
    }

    /// Does the same to what is known of a counter alone.
    fn change_known(&self, key: Key, algorithm: &Algorithm, op: Op, now: Timestamp) {
        if self.knows(key, algorithm, now) {
            self.filter.insert(&key, algorithm, now);
            let (key, consistency) = (last_known(key), Consistency::default());
            let known = Charge { key, algorithm, cost: 0, binding: false, consistency };
            self.memory.correct(&known, op, now);
        }
    }

    /// The store has said in what state a counter is. Where the counter has no room
    /// for another request of this `cost`, or had none when the store last said so,
    /// it is remembered.
    pub(in crate::store) fn learn(
        &self,
        key: Key,
        algorithm: &Algorithm,
        cost: u64,
        state: Option<&State>,
        now: Timestamp,
    ) {
        // It is not known when units in flight are given back.
        if matches!(algorithm, Algorithm::Concurrency(_)) {
            return;
        }
        let is_used_up = !algorithm.apply(state, Op::Take(cost.max(1)), now).1.admitted;
        match state {
            Some(state) if is_used_up || self.knows(key, algorithm, now) => {
                self.filter.insert(&key, algorithm, now);
                self.memory.put(last_known(key), algorithm, state.clone(), now);
            }
            Some(_) => {}
            None => self.forget(key, algorithm, now),
        }
    }

    /// The store takes units of a counter away: what it has said of it last is
    /// corrected, or forgotten.
    pub(in crate::store) fn take_away(
        &self,
        key: Key,
        algorithm: &Algorithm,
        ask: Ask,
        now: Timestamp,
    ) {
        let op = match ask {
            Ask::Give { cost, taken } => Op::Give { cost, taken },
            Ask::Cancel { cost, taken } => Op::Cancel { cost, taken },
            _ => return self.forget(key, algorithm, now),
        };
        self.change_known(key, algorithm, op, now);
    }

    /// What the store has said of a counter is out of date.
    fn forget(&self, key: Key, algorithm: &Algorithm, now: Timestamp) {
        if self.knows(key, algorithm, now) {
            self.memory.take_out(last_known(key), algorithm, now);
        }
    }

    /// Whether it may be known what the store has said last of any counter of this
    /// principal. It takes no lock.
    pub(in crate::store) fn may_know(&self, key: &Key, now: Timestamp) -> bool {
        self.filter.may_contain(key, now)
    }

    /// Whether it is known what the store has said last of a counter.
    fn knows(&self, key: Key, algorithm: &Algorithm, now: Timestamp) -> bool {
        self.may_know(&key, now) && self.memory.holds(last_known(key), algorithm, now)
    }

    /// Up to `most` debts of which the store can be told, as `status` says of
    /// their keys. Of each it must be said what became of it: [`Self::settled`] or
    /// [`Self::not_counted`].
    pub(in crate::store) fn owed(
        &self,
        most: usize,
        now: Timestamp,
        status: impl Fn(&Key) -> ServerStatus,
    ) -> Vec<Debt> {
        self.debts.lock().take(most, now, status)
    }

    /// The store has not answered a debt in time. It may do so later.
    pub(in crate::store) fn overdue(&self, debt: &mut Debt) {
        self.debts.lock().overdue(debt);
    }

    /// The store has counted a debt, or it cannot be known whether it has.
    pub(in crate::store) fn settled(&self, debt: Debt) {
        self.debts.lock().settled(debt);
    }

    /// The store has certainly not counted a debt: it is told again.
    pub(in crate::store) fn not_counted(&self, debt: Debt, now: Timestamp) {
        self.debts.lock().not_counted(debt, now);
    }
}

/// Where that is kept which the store has said last of a counter.
const fn last_known(key: Key) -> Key {
    Key { counter: Counter::from_bits(!key.counter.bits()), ..key }
}

/// Whether what is admitted stays counted. What is in flight ends with its request,
/// which knows who judged it; and the question whether a client is banned consumes
/// nothing.
pub(in crate::store) const fn consumes(algorithm: &Algorithm) -> bool {
    !matches!(algorithm, Algorithm::Concurrency(_) | Algorithm::Ban(_))
}

/// Whether a node counts for itself.
fn is_local(charge: &Charge<'_>) -> bool {
    charge.consistency.on_failure == OnFailure::Local
}

/// The verdict where two counters must have room.
fn both(one: Verdict, other: Verdict) -> Verdict {
    Verdict {
        admitted: one.admitted && other.admitted,
        limit: one.limit,
        remaining: one.remaining.min(other.remaining),
        retry: one.retry.max(other.retry),
        reset_after: one.reset_after.max(other.reset_after),
        delay: one.delay.max(other.delay),
    }
}

/// The part of a limit that one of `nodes` may admit by itself.
fn share(algorithm: &Algorithm, nodes: u64) -> Algorithm {
    let limit = (algorithm.limit() / nodes.max(1)).max(1);
    algorithm.with_limit(limit).unwrap_or_else(|_| algorithm.clone())
}

#[cfg(test)]
mod tests;

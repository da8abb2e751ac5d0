//! What the store is to be told when it is back: units that were admitted or
//! settled without it, and bans that were imposed.
//!
//! A debt is a state of its own, so that it fades as what is counted fades: what
//! counts no more is not told. A debt that is told stays here until it is known
//! what became of it: the store has counted it, or has certainly not (then it is
//! told again), or it cannot be known (then it is not told again, because to count
//! it twice would harm the client).
//!
//! There are debts of [`MAX_OWING`] counters at most.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use crate::algorithm::{Algorithm, Ban, Op, Quota, State, SubWindows};
use crate::digest::Key;
use crate::time::Timestamp;

/// Counters of which the store is to be told. Of those beyond it is not told: a
/// flood of keys must not outlive the outage.
pub(super) const MAX_OWING: usize = 100_000;
/// Debts that are told and of which it is not known yet what became of them.
const MAX_TOLD: usize = 1024;
/// Counters that are looked at for one that can be told now.
const MAX_LOOKED_AT: usize = 256;
/// The parts of a window in which the debts of a log fade. A log itself would
/// take memory for each of its units.
const PARTS_OF_A_LOG: u32 = 60;

/// Whether a counter's server can be told of a debt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum ServerStatus {
    /// It is away.
    Down,
    /// It is back, and has not answered a decision yet: it is told of one debt, and of
    /// the others when that is answered.
    Probing,
    /// It answers.
    Up,
}

/// What the store is told of one counter.
#[derive(Debug)]
#[must_use = "of each debt that is taken it must be said what became of it"]
pub(in crate::store) struct Debt {
    pub(in crate::store) key: Key,
    /// How the counter counts. A ban lasts for what is left of it.
    pub(in crate::store) algorithm: Algorithm,
    /// The units that the store must count.
    pub(in crate::store) units: u64,
    /// The debt itself, if it has to be told once more.
    owing: Owing,
    /// It was not answered in time, and may be answered later.
    is_late: bool,
}

/// What is owed under one key.
#[derive(Debug)]
struct Owing {
    algorithm: Algorithm,
    state: Option<State>,
}

/// All debts of one node.
#[derive(Debug, Default)]
pub(super) struct Debts {
    owing: HashMap<Key, Owing>,
    /// The keys of `owing`, in the order in which their turn comes.
    turns: VecDeque<Key>,
    told: usize,
    /// How many of those were not answered in time.
    late: usize,
}

impl Debts {
    /// The store must count so many units more.
    pub(super) fn add(&mut self, key: Key, algorithm: &Algorithm, units: u64, now: Timestamp) {
        if units == 0 {
            return;
        }
        let Some(owing) = self.entry(key, algorithm) else { return };
        let wide = widened(algorithm);
        let op = Op::Settle { reserved: 0, actual: units, taken: now };
        if let (Some(next), _) = wide.apply(owing.state.as_ref(), op, now) {
            owing.state = Some(next);
        }
    }

    /// So many units less than were [added](Self::add) at `taken`, as far as the
    /// store was not told of them.
    pub(super) fn relieve(&mut self, key: Key, units: u64, taken: Timestamp, now: Timestamp) {
        if let Some(owing) = self.owing.get_mut(&key) {
            let op = Op::Give { cost: units, taken };
            if let (Some(next), _) = widened(&owing.algorithm).apply(owing.state.as_ref(), op, now)
            {
                owing.state = Some(next);
            }
        }
    }

    /// Up to `most` debts that can be told now. What counts no more is forgotten.
    pub(super) fn take(
        &mut self,
        most: usize,
        now: Timestamp,
        status: impl Fn(&Key) -> ServerStatus,
    ) -> Vec<Debt> {
        let mut debts = Vec::new();
        for _ in 0..self.turns.len().min(MAX_LOOKED_AT.max(most)) {
            if debts.len() >= most || self.told >= MAX_TOLD {
                break;
            }
            let Some(key) = self.turns.pop_front() else { break };
            let can_be_told = match status(&key) {
                ServerStatus::Down => false,
                ServerStatus::Probing => self.told == self.late,
                ServerStatus::Up => true,
            };
            if !can_be_told {
                self.turns.push_back(key);
                continue;
            }
            let Some(owing) = self.owing.remove(&key) else { continue };
            let units = counted(&owing, now);
            if units > 0 {
                self.told += 1;
                debts.push(Debt { key, algorithm: owing.told(now), units, owing, is_late: false });
            }
        }
        debts
    }

    /// A debt was not answered in time. It stays told, and another one may be tried.
    pub(super) fn overdue(&mut self, debt: &mut Debt) {
        self.late += usize::from(!debt.is_late);
        debt.is_late = true;
    }

    fn ended(&mut self, is_late: bool) {
        self.told = self.told.saturating_sub(1);
        self.late = self.late.saturating_sub(usize::from(is_late));
    }

    /// It is known what became of a debt, or that this will never be known.
    pub(super) fn settled(&mut self, debt: Debt) {
        self.ended(debt.is_late);
    }

    /// The store has certainly not counted a debt.
    pub(super) fn not_counted(&mut self, debt: Debt, now: Timestamp) {
        let Debt { key, owing: old, is_late, .. } = debt;
        self.ended(is_late);
        let Some(owing) = self.entry(key, &old.algorithm) else { return };
        if owing.state.is_none() {
            owing.state = old.state;
        } else {
            self.add(key, &old.algorithm, counted(&old, now), now);
        }
    }

    fn entry(&mut self, key: Key, algorithm: &Algorithm) -> Option<&mut Owing> {
        let is_full = self.owing.len() >= MAX_OWING;
        let owing = match self.owing.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(_) if is_full => return None,
            Entry::Vacant(entry) => {
                self.turns.push_back(key);
                entry.insert(Owing { algorithm: algorithm.clone(), state: None })
            }
        };
        // Its limit may be another one by now.
        if owing.algorithm != *algorithm {
            owing.algorithm = algorithm.clone();
        }
        Some(owing)
    }
}

impl Owing {
    /// How the store is to count it: a ban began when it was imposed here, not when
    /// the store is told of it.
    fn told(&self, now: Timestamp) -> Algorithm {
        let left = match (&self.algorithm, &self.state) {
            (Algorithm::Ban(ban), Some(State::Ban { until, .. })) => {
                Ban::new(until.since(now), ban.longest()).ok()
            }
            _ => None,
        };
        left.map_or_else(|| self.algorithm.clone(), Algorithm::Ban)
    }
}

/// The units of a debt that still count: some, as long as a ban lasts.
fn counted(owing: &Owing, now: Timestamp) -> u64 {
    let wide = widened(&owing.algorithm);
    let (_, verdict) = wide.apply(owing.state.as_ref(), Op::Take(0), now);
    wide.capacity().saturating_sub(verdict.remaining)
}

/// A counter that fades alike, and tells debts of up to twice the capacity: the
/// store counts no more.
fn widened(algorithm: &Algorithm) -> Algorithm {
    let twice = algorithm.capacity().saturating_mul(2);
    let wide = match algorithm {
        Algorithm::SlidingLog(_) => Quota::new(twice, algorithm.window())
            .and_then(|quota| SubWindows::new(quota, PARTS_OF_A_LOG))
            .map(Algorithm::SubWindows),
        // With another limit it would let requests go at another pace.
        Algorithm::LeakyBucket(_) => return algorithm.clone(),
        _ => algorithm.with_capacity(twice),
    };
    wide.unwrap_or_else(|_| algorithm.clone())
}

#[cfg(test)]
mod tests;

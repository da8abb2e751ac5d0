//! Debts: units that were admitted or settled while the store was away, and bans that were
//! imposed. They are reported when the store is back.
//!
//! A debt is a state of the same algorithm, so its units expire like counted units, and
//! expired units are not reported. A reported debt is kept until its outcome is known: the
//! store has counted it; or it certainly has not, and the debt is reported again; or the
//! outcome cannot be known, and the debt is not reported again, because counting it twice
//! would harm the client.
//!
//! The level of a bucket decreases at one rate, however high it is, and the level in the store
//! also decreases while the store is away. So the debt of a bucket begins at the last known level
//! of the store, and the difference to that level alone is reported. With several nodes, each
//! node has a part of the level and of the rate. Instead of dividing both, the debt multiplies
//! the units of this node by the number of nodes, and divides the difference by it.
//!
//! At most [`MAX_DEBTS`] counters have debts.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use tollgate_core::algorithm::{Algorithm, Ban, Op, Quota, State, SubWindows};
use tollgate_core::digest::{Counter, Key};
use tollgate_core::store::ByCounter;
use tollgate_core::store::DebtUnits;
use tollgate_core::time::Timestamp;

/// The maximum number of counters with debts. Further debts are dropped, so that a flood of
/// keys does not outlive the outage.
pub(super) const MAX_DEBTS: usize = 100_000;
/// The maximum number of reported debts without an outcome.
const MAX_TOLD: usize = 1024;
/// The maximum number of counters that are searched for debts that can be reported.
const MAX_LOOKED_AT: usize = 256;
/// The number of sub-windows instead of a log. A log would take memory for each unit.
const PARTS_OF_A_LOG: u32 = 60;

/// Whether debts can be reported to a counter's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerStatus {
    /// It is away.
    Down,
    /// It is back, and has not answered a decision yet. One debt is reported, and the others
    /// when it has answered that one.
    Probing,
    /// It answers.
    Up,
}

/// The debt of one counter, as it is reported.
#[derive(Debug)]
#[must_use = "the outcome of each debt must be recorded"]
pub(crate) struct Debt {
    pub(crate) key: Key,
    /// How the counter counts. A ban has its remaining length.
    pub(crate) algorithm: Algorithm,
    /// The units that the store must count.
    pub(crate) units: u64,
    /// The debt itself, in case it must be reported again.
    record: DebtRecord,
    /// Whether it has no reply in time. The reply may come later.
    is_late: bool,
}

/// The debt under one key.
#[derive(Debug)]
struct DebtRecord {
    algorithm: Algorithm,
    state: Option<State>,
    /// The state of a bucket without the debt.
    without: Option<State>,
    /// By what units of a bucket are multiplied: the number of nodes.
    factor: u64,
}

/// What is known when a debt begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Since {
    /// The last state of a bucket that the store has reported.
    pub(super) level: Option<State>,
    /// The number of nodes.
    pub(super) nodes: u64,
}

/// All debts of one node.
#[derive(Debug, Default)]
pub(super) struct Debts {
    records: HashMap<Key, DebtRecord>,
    /// The keys of `records`, in the order in which they are reported.
    turns: VecDeque<Key>,
    told: usize,
    /// How many of the reported debts have no reply in time.
    late: usize,
    units: ByCounter<DebtUnits>,
}

impl Debts {
    /// Adds units that the store must count.
    pub(super) fn add(
        &mut self,
        key: Key,
        algorithm: &Algorithm,
        units: u64,
        since: Since,
        now: Timestamp,
    ) {
        if units == 0 {
            return;
        }
        let is_added = self.add_again(key, algorithm, units, since, now);
        let sum = self.units.of(key.counter);
        *(if is_added { &mut sum.owed } else { &mut sum.dropped }) += units;
    }

    /// The same, of units that were already added once. Returns whether there was room.
    fn add_again(
        &mut self,
        key: Key,
        algorithm: &Algorithm,
        units: u64,
        since: Since,
        now: Timestamp,
    ) -> bool {
        let Some(record) = self.entry(key, algorithm, since) else { return false };
        let wide = widened(algorithm, record.factor);
        let actual = units.saturating_mul(record.factor);
        let op = Op::Settle { reserved: 0, actual, taken: now };
        if let (Some(next), _) = wide.apply(record.state.as_ref(), op, now) {
            record.state = Some(next);
        }
        true
    }

    /// The number of counters that have a debt.
    pub(super) fn counters(&self) -> usize {
        self.records.len()
    }

    /// The units of all debts since the node has started.
    pub(super) fn units(&self) -> impl Iterator<Item = (Counter, &DebtUnits)> {
        self.units.iter()
    }

    /// Removes units that were [added](Self::add) at `taken`, unless they were reported.
    pub(super) fn relieve(&mut self, key: Key, units: u64, taken: Timestamp, now: Timestamp) {
        if let Some(record) = self.records.get_mut(&key) {
            let op = Op::Give { cost: units.saturating_mul(record.factor), taken };
            if let (Some(next), _) =
                widened(&record.algorithm, record.factor).apply(record.state.as_ref(), op, now)
            {
                record.state = Some(next);
            }
        }
    }

    /// Takes up to `most` debts that can be reported now. Expired debts are dropped.
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
            if can_be_told {
                debts.extend(self.tell(key, now));
            } else if self.records.contains_key(&key) {
                self.turns.push_back(key);
            }
        }
        debts
    }

    /// Takes the debt of a counter whose server is asked about it now.
    pub(super) fn take_of(&mut self, key: &Key, now: Timestamp) -> Option<Debt> {
        // The turn of the key is left, and passes later.
        let has_room = self.told < MAX_TOLD && self.turns.len() < 2 * MAX_DEBTS;
        if has_room { self.tell(*key, now) } else { None }
    }

    fn tell(&mut self, key: Key, now: Timestamp) -> Option<Debt> {
        let record = self.records.remove(&key)?;
        let units = counted(&record, now);
        if units == 0 {
            return None;
        }
        self.told += 1;
        Some(Debt { key, algorithm: record.told(now), units, record, is_late: false })
    }

    /// Records that a debt has no reply in time. It stays reported, and another one may be
    /// reported to the same server.
    pub(super) fn overdue(&mut self, debt: &mut Debt) {
        self.late += usize::from(!debt.is_late);
        debt.is_late = true;
    }

    fn ended(&mut self, is_late: bool) {
        self.told = self.told.saturating_sub(1);
        self.late = self.late.saturating_sub(usize::from(is_late));
    }

    /// Records that the store has counted a debt.
    pub(super) fn settled(&mut self, debt: Debt) {
        self.units.of(debt.key.counter).reported += debt.units;
        self.ended(debt.is_late);
    }

    /// Records that it will never be known whether the store has counted a debt.
    pub(super) fn unknown(&mut self, debt: Debt) {
        self.units.of(debt.key.counter).unknown += debt.units;
        self.ended(debt.is_late);
    }

    /// Records that the store has certainly not counted a debt.
    pub(super) fn not_counted(&mut self, debt: Debt, now: Timestamp) {
        let Debt { key, record: old, is_late, .. } = debt;
        self.ended(is_late);
        let units = counted(&old, now);
        match self.records.contains_key(&key) {
            true => drop(self.add_again(key, &old.algorithm, units, Since::default(), now)),
            false => {
                let since = Since { level: old.without.clone(), nodes: old.factor };
                if let Some(record) = self.entry(key, &old.algorithm, since) {
                    *record = old;
                }
            }
        }
    }

    fn entry(
        &mut self,
        key: Key,
        algorithm: &Algorithm,
        Since { level, nodes }: Since,
    ) -> Option<&mut DebtRecord> {
        let is_full = self.records.len() >= MAX_DEBTS;
        let record = match self.records.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(_) if is_full => return None,
            Entry::Vacant(entry) => {
                self.turns.push_back(key);
                let is_bucket = matches!(algorithm, Algorithm::TokenBucket(_));
                let factor = if is_bucket { nodes.max(1) } else { 1 };
                let without = level.filter(|_| is_bucket);
                let algorithm = algorithm.clone();
                let state = without.clone();
                entry.insert(DebtRecord { algorithm, state, without, factor })
            }
        };
        // Its limit may have changed.
        if record.algorithm != *algorithm {
            record.algorithm = algorithm.clone();
        }
        Some(record)
    }
}

impl DebtRecord {
    /// The algorithm for the report. A ban began when this node imposed it, so the report has
    /// its remaining length.
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

/// The units of a debt that still count. While a ban lasts, they are not 0.
fn counted(record: &DebtRecord, now: Timestamp) -> u64 {
    let wide = widened(&record.algorithm, record.factor);
    let left = |state| wide.apply(state, Op::Take(0), now).1.remaining;
    let without = record.without.as_ref().map_or(wide.capacity(), |state| left(Some(state)));
    let units = without.saturating_sub(left(record.state.as_ref())).div_ceil(record.factor);
    units.min(counted_at_most(&record.algorithm))
}

/// The store counts no more units than that.
fn counted_at_most(algorithm: &Algorithm) -> u64 {
    match algorithm {
        Algorithm::LeakyBucket(_) => algorithm.capacity(),
        _ => algorithm.capacity().saturating_mul(2),
    }
}

/// An algorithm with the same expiry and twice the capacity. One for a bucket has room for the
/// level in the store and for the units of this node times `factor`.
fn widened(algorithm: &Algorithm, factor: u64) -> Algorithm {
    let twice = counted_at_most(algorithm);
    let wide = match algorithm {
        Algorithm::SlidingLog(_) => Quota::new(twice, algorithm.window())
            .and_then(|quota| SubWindows::new(quota, PARTS_OF_A_LOG))
            .map(Algorithm::SubWindows),
        // Another limit would change the rate of its slots.
        Algorithm::LeakyBucket(_) => return algorithm.clone(),
        Algorithm::TokenBucket(_) => algorithm
            .with_capacity(twice.saturating_mul(factor.saturating_add(1)))
            .or_else(|_| algorithm.with_capacity(twice)),
        _ => algorithm.with_capacity(twice),
    };
    wide.unwrap_or_else(|_| algorithm.clone())
}

#[cfg(test)]
mod tests;

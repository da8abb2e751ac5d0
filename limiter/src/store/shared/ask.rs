//! What a store is asked for its counters.

use std::cmp::Ordering;

use crate::algorithm::{Algorithm, Op};
use crate::digest::Key;
use crate::time::Timestamp;

/// What is asked of one counter.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The counter. No two of one body are the same.
    pub key: Key,
    /// How it counts.
    pub algorithm: &'a Algorithm,
    /// What is asked.
    pub ask: Ask,
    /// Whether nothing at all may change if it is refused.
    pub binding: bool,
}

/// What may be asked of a counter. Costs are in units of the quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Say what `Take(1)` would say, and change nothing.
    Peek,
    /// See [`Op::Take`].
    Take(u64),
    /// Take a cost, and if it fits more units ahead, to spend them without asking.
    /// Sliding and fixed windows, sub-windows and token buckets can be leased. With no
    /// cost and a share of 1024 as many units are counted as fit, also in a log.
    Lease {
        /// The units that must fit.
        cost: u64,
        /// The units beside them.
        ahead: Ahead,
    },
    /// See [`Op::Give`].
    Give {
        /// The units to give back.
        cost: u64,
        /// When they were taken.
        taken: Timestamp,
    },
    /// See [`Op::Cancel`].
    Cancel {
        /// The units to give back.
        cost: u64,
        /// When they were taken.
        taken: Timestamp,
    },
    /// Count so many units whether they fit or not, up to twice the capacity;
    /// for a ban, impose one.
    Charge(u64),
    /// Say that this worker holds so many units in flight, and will for 15 s. Only
    /// for [`Algorithm::Concurrency`].
    Renew {
        /// Units that are certainly held.
        units: u64,
        /// Units of questions that were sent and are not answered. The store knows
        /// how many of them it has admitted: up to so many more that it counts for
        /// this worker stay counted.
        asked: u64,
    },
    /// Forget the counter.
    Reset,
    /// Forget all counters of the principal, or, asked of a long
    /// [`SlidingLog`](Algorithm::SlidingLog), all of its long logs. Asked alone.
    ResetAll,
}

impl Ask {
    /// Whether it takes units away that were counted, so that what was refused
    /// before may be admitted.
    pub(in crate::store) const fn takes_away(self) -> bool {
        matches!(self, Self::Give { .. } | Self::Cancel { .. } | Self::Reset | Self::ResetAll)
    }
}

/// The units that a call takes ahead, beside a cost that fits:
/// `(free − reserve) · share / 1024` of them, rounded down and `extra` at most, where
/// `free` units are left after the cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The most units beside the cost.
    pub extra: u64,
    /// The units that stay free for other nodes in any case.
    pub reserve: u64,
    /// The part of the rest that is taken, in 1024ths; at most 1024.
    pub share_1024: u16,
}

impl Ahead {
    /// No units beside the cost.
    pub const NOTHING: Self = Self { extra: 0, reserve: 0, share_1024: 0 };

    /// How many units are taken beside a cost that fits, if `free` units are left
    /// after it.
    pub fn granted(&self, free: u64) -> u64 {
        let free = u128::from(free.saturating_sub(self.reserve));
        let share = free * u128::from(self.share_1024.min(1024)) / 1024;
        u64::try_from(share).unwrap_or(u64::MAX).min(self.extra)
    }
}

impl<'a> Asked<'a> {
    /// What corrects a counter as `op` does: [`Op::Give`], [`Op::Cancel`] or [`Op::Settle`].
    /// None if that changes nothing.
    pub fn correction(key: Key, algorithm: &'a Algorithm, op: Op) -> Option<Self> {
        let ask = match op {
            Op::Take(cost) => Ask::Take(cost),
            Op::Peek => return None,
            Op::Give { cost, taken } => Ask::Give { cost, taken },
            Op::Cancel { cost, taken } => Ask::Cancel { cost, taken },
            // What is in flight stays so until it is given back, whatever it cost.
            Op::Settle { .. } if matches!(algorithm, Algorithm::Concurrency(_)) => return None,
            Op::Settle { reserved, actual, taken } => match actual.cmp(&reserved) {
                Ordering::Equal => return None,
                Ordering::Less => Ask::Give { cost: reserved - actual, taken },
                Ordering::Greater => Ask::Charge(actual - reserved),
            },
        };
        Some(Self { key, algorithm, ask, binding: false })
    }
}

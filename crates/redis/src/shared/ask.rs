//! The operations that a store performs on its counters.

use std::cmp::Ordering;

use tollgate_core::algorithm::{Algorithm, Op};
use tollgate_core::digest::Key;
use tollgate_core::time::Timestamp;

/// One operation on one counter.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The counter. All operations of one body have different counters.
    pub key: Key,
    /// How the counter counts.
    pub algorithm: &'a Algorithm,
    /// The operation.
    pub ask: Ask,
    /// Whether a refusal of this operation prevents all others of the body.
    pub binding: bool,
}

/// An operation of the store. Costs are in units of the quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Return the verdict on `Take(1)`, and change nothing.
    Peek,
    /// See [`Op::Take`].
    Take(u64),
    /// See [`Op::Count`].
    Count(u64),
    /// Take a cost. If it fits, also take units ahead, which the node later spends without
    /// a call. Sliding and fixed windows, sub-windows and token buckets can be leased. With
    /// cost 0 and a share of 1024 the store counts as many units as fit, also in a log.
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
    /// Count these units whether they fit or not, up to twice the capacity. On a ban,
    /// impose it.
    Charge(u64),
    /// Set the units that this worker holds in flight. The store counts them for 15 s.
    /// Only for [`Algorithm::Concurrency`].
    Renew {
        /// Units that are certainly held.
        units: u64,
        /// Units of calls that were sent and have no reply yet. The store knows how many
        /// of them it has admitted. It keeps up to this many units beside `units`.
        asked: u64,
    },
    /// Forget the counter.
    Reset,
    /// Forget all counters of the principal, or, on a long
    /// [`SlidingLog`](Algorithm::SlidingLog), all of its long logs. It is alone in its body.
    ResetAll,
}

impl Ask {
    /// Whether the operation removes counted units. Requests that were refused before may
    /// then be admitted.
    pub(crate) const fn takes_away(self) -> bool {
        matches!(self, Self::Give { .. } | Self::Cancel { .. } | Self::Reset | Self::ResetAll)
    }
}

/// The units that a call takes ahead, in addition to a cost that fits:
/// `(free − reserve) · share / 1024` of them, rounded down and `extra` at most, where
/// `free` units are left after the cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The maximum number of units ahead.
    pub extra: u64,
    /// The units that always stay free for other nodes.
    pub reserve: u64,
    /// The share of the rest that is taken, in 1024ths; at most 1024.
    pub share_1024: u16,
}

impl Ahead {
    /// No units ahead.
    pub const NOTHING: Self = Self { extra: 0, reserve: 0, share_1024: 0 };

    /// The number of units taken ahead if `free` units are left after the cost.
    pub fn granted(&self, free: u64) -> u64 {
        let free = u128::from(free.saturating_sub(self.reserve));
        let share = free * u128::from(self.share_1024.min(1024)) / 1024;
        u64::try_from(share).unwrap_or(u64::MAX).min(self.extra)
    }
}

impl<'a> Asked<'a> {
    /// The store's operation that corrects a counter as `op` does: [`Op::Give`],
    /// [`Op::Cancel`] or [`Op::Settle`]. None if it changes nothing.
    pub fn correction(key: Key, algorithm: &'a Algorithm, op: Op) -> Option<Self> {
        let ask = match op {
            Op::Take(cost) => Ask::Take(cost),
            Op::Count(cost) => Ask::Count(cost),
            Op::Peek => return None,
            Op::Give { cost, taken } => Ask::Give { cost, taken },
            Op::Cancel { cost, taken } => Ask::Cancel { cost, taken },
            // Units in flight stay taken until they are given back, whatever the cost was.
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

//! What a node tells the store of one key.

use crate::algorithm::{Algorithm, Op, State};
use crate::digest::Key;
use crate::time::Timestamp;

/// Units that were counted here, for the store to count. Of each one the ledger
/// must hear what became of it, by [`Ledger::answered`], [`Ledger::not_sent`] or
/// [`Ledger::lost`]; after the last of them it may still be answered.
///
/// [`Ledger::answered`]: super::Ledger::answered
/// [`Ledger::not_sent`]: super::Ledger::not_sent
/// [`Ledger::lost`]: super::Ledger::lost
#[derive(Debug, PartialEq, Eq)]
#[must_use = "its units are counted nowhere else"]
pub struct Delta {
    /// The counter.
    pub key: Key,
    /// How it counts.
    pub algorithm: Algorithm,
    /// How many. None, if only the store's state is wanted.
    pub units: u64,
    /// Whether they are counted even if they do not fit, up to twice the
    /// capacity: what a response has cost beyond its reservation. Otherwise as
    /// many are counted as fit.
    pub is_settlement: bool,
    /// When it was sent, or could not be.
    pub sent: Timestamp,
    /// When the first of the units was counted here.
    pub(super) since: Timestamp,
    /// Which of the ledger's deltas it is.
    pub(super) number: u64,
    /// Whether it may have been lost.
    pub(super) is_doubted: bool,
}

impl Delta {
    /// What the store does at `at`, whose state is `before`: its next state, if it
    /// is another one, and how many of the units it counts.
    pub fn count(&self, before: Option<&State>, at: Timestamp) -> (Option<State>, u64) {
        if self.is_settlement {
            let op = Op::Settle { reserved: 0, actual: self.units, taken: at };
            return (self.algorithm.apply(before, op, at).0, self.units);
        }
        let room = self.algorithm.apply(before, Op::Take(0), at).1.remaining;
        let fitting = self.units.min(room);
        if fitting == 0 {
            return (None, 0);
        }
        (self.algorithm.apply(before, Op::Take(fitting), at).0, fitting)
    }
}

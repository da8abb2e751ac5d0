//! The report of a node to the store about one key.

use tollgate_core::algorithm::{Algorithm, Op, State};
use tollgate_core::digest::Key;
use tollgate_core::time::Timestamp;

/// Units that this node has counted and the store must count. The outcome of each delta must
/// be reported to the ledger by [`Ledger::answered`], [`Ledger::not_sent`] or
/// [`Ledger::lost`]. After [`Ledger::lost`] one of the others may still follow.
///
/// [`Ledger::answered`]: super::Ledger::answered
/// [`Ledger::not_sent`]: super::Ledger::not_sent
/// [`Ledger::lost`]: super::Ledger::lost
#[derive(Debug, PartialEq, Eq)]
#[must_use = "its units are counted nowhere else"]
pub struct Delta {
    /// The counter.
    pub key: Key,
    /// How the counter counts.
    pub algorithm: Algorithm,
    /// The number of units. 0 only reads the store's state.
    pub units: u64,
    /// Whether the store counts the units even if they do not fit, up to twice the capacity.
    /// These are units that a response cost beyond its reservation. Otherwise the store
    /// counts as many as fit.
    pub is_settlement: bool,
    /// When the delta was sent, or failed to be sent.
    pub sent: Timestamp,
    /// When this node counted the first of the units.
    pub(super) since: Timestamp,
    /// The number of the delta in its ledger.
    pub(super) number: u64,
    /// Whether the delta may have been lost.
    pub(super) is_doubted: bool,
}

impl Delta {
    /// Applies the delta at `at` to the store's state `before`. Returns the next state, if it
    /// changes, and the number of counted units.
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

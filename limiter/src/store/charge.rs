//! Charges and what a store says of them: the words of all stores.

use smallvec::SmallVec;

use crate::algorithm::{Algorithm, Op, Verdict};
use crate::consistency::Consistency;
use crate::digest::Key;
use crate::time::Timestamp;

/// What one policy asks for one request.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The counter. No two charges of one request have the same.
    pub key: Key,
    /// How it counts.
    pub algorithm: &'a Algorithm,
    /// How many units.
    pub cost: u64,
    /// Whether the request needs it to be admitted. A charge that does not
    /// bind is counted if it fits, and never refuses the request.
    pub binding: bool,
    /// How the counter is kept on several nodes.
    pub consistency: Consistency,
}

/// What judged a charge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The store.
    #[default]
    Store,
    /// This node alone, because the store is away.
    Local,
    /// The policy's `on_store_failure`: the store is away, and no counter was asked.
    Policy,
    /// No counter: another charge refuses the request.
    Unasked,
}

/// What is said to one charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The numbers. If no counter was asked, they are those of a counter never used.
    pub verdict: Verdict,
    /// Whose they are.
    pub source: Source,
}

impl Answer {
    /// An answer of the store itself.
    pub const fn of_store(verdict: Verdict) -> Self {
        Self { verdict, source: Source::Store }
    }

    /// The answer to a charge for which no store was asked, because another charge
    /// refuses the request.
    #[cfg(feature = "redis")]
    pub(crate) fn unasked(charge: &Charge<'_>, now: Timestamp) -> Self {
        Self { verdict: fresh(charge, now), source: Source::Unasked }
    }
}

/// The verdict of a counter that was never used. It is reported for a charge that no
/// store judges.
pub(crate) fn fresh(charge: &Charge<'_>, now: Timestamp) -> Verdict {
    Verdict { admitted: true, ..charge.algorithm.apply(None, Op::Peek, now).1 }
}

/// What is said to all charges of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// When it was decided, by the clock of the store.
    pub at: Timestamp,
    /// One answer for each charge, in their order.
    pub answers: SmallVec<[Answer; 4]>,
}

/// A change of what was counted before.
#[derive(Clone, Copy, Debug)]
pub struct Correction<'a> {
    /// What was counted.
    pub charge: Charge<'a>,
    /// What counted it: no other counter knows of it.
    pub source: Source,
    /// What becomes of it: [`Op::Give`] or [`Op::Settle`].
    pub op: Op,
}

/// One verdict for each charge, in their order.
pub type Verdicts = SmallVec<[Verdict; 4]>;

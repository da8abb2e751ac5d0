//! Operations on the state of a key, and the answers to them.

use super::State;
use crate::time::{Span, Timestamp};

/// What is asked of a state. Costs are in units of the quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Consume this many units, if all of them fit.
    Take(u64),
    /// Undo a `Take` of this cost that was admitted at that time, as far as it
    /// still counts. Where it is not known how much of it still counts, the
    /// least that can be is given back.
    Give {
        /// The units to give back.
        cost: u64,
        /// When they were taken.
        taken: Timestamp,
    },
    /// Undo a `Take` of this cost for a request that was refused elsewhere, a
    /// round trip later. Where it is not known how much of it still counts, the
    /// most that can be is given back. So it is never worse for others than if
    /// the `Take` had not happened; and beyond the algorithm's bound it lets
    /// through the units at most that were under way to be given back.
    Cancel {
        /// The units to give back.
        cost: u64,
        /// When they were taken.
        taken: Timestamp,
    },
    /// Correct a `Take` whose cost is known only now. Units that were reserved
    /// and not used are given back as `Give` does it. Units beyond them are
    /// charged at once, even above the limit, until twice the capacity is
    /// counted. Never refused.
    Settle {
        /// The units that were taken.
        reserved: u64,
        /// The units that it has really cost.
        actual: u64,
        /// When they were taken.
        taken: Timestamp,
    },
    /// Say what `Take(1)` would say, and consume nothing.
    Peek,
}

/// The answer to one operation on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the operation fits. For [`Op::Peek`], whether `Take(1)` would.
    pub admitted: bool,
    /// The quota's limit.
    pub limit: u64,
    /// How many unit operations more would be admitted right now.
    pub remaining: u64,
    /// When the same operation can be admitted; `Now` if it was.
    pub retry: Retry,
    /// How long until the state equals a fresh one if nothing more is consumed.
    /// For [`Concurrency`](super::Concurrency) an estimate.
    pub reset_after: Span,
    /// How long the request is to be held before it goes on. Not zero only if
    /// a [`LeakyBucket`](super::LeakyBucket) admitted it.
    pub delay: Span,
}

/// When a refused operation can be admitted if nobody else consumes.
///
/// Ordered by how long one waits, so that the largest of several binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// It was admitted.
    Now,
    /// After exactly this long.
    After(Span),
    /// Never: it costs more than the quota can ever admit at once.
    Never,
}

impl Retry {
    pub(super) const fn at(earliest: Option<Timestamp>, now: Timestamp) -> Self {
        match earliest {
            Some(earliest) => Self::After(earliest.since(now)),
            None => Self::Never,
        }
    }
}

/// What a take finds.
pub(super) struct Attempt {
    /// How many units fitted before it.
    pub(super) room: u64,
    /// The next state; or, refused, from when on it fits, if ever.
    pub(super) outcome: Result<State, Option<Timestamp>>,
    /// How long it must be held if it is admitted.
    pub(super) delay: Span,
}

//! Operations on the state of a key, and the answers to them.

use super::State;
use crate::time::{Span, Timestamp};

/// An operation on a state. Costs are in units of the quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Consume this many units, if all of them fit.
    Take(u64),
    /// Count this many units whether they fit or not, until twice the capacity is counted. It
    /// is admitted if they fit. A count of 0 changes nothing, and is admitted unless more is
    /// counted than fits; a queue admits it always. The answer to a refused count holds after it.
    Count(u64),
    /// Undo a `Take` of this cost that was admitted at that time, as far as it still
    /// counts. If the algorithm does not know how much of it still counts, it gives back
    /// the least possible amount.
    Give {
        /// The units to give back.
        cost: u64,
        /// When they were taken.
        taken: Timestamp,
    },
    /// Undo a `Take` of this cost for a request that another limit refused, a round trip
    /// later. If the algorithm does not know how much of it still counts, it gives back the
    /// largest possible amount. So other requests never find less room than without the
    /// `Take`. At most the units that wait to be given back are admitted beyond the
    /// algorithm's bound.
    Cancel {
        /// The units to give back.
        cost: u64,
        /// When they were taken.
        taken: Timestamp,
    },
    /// Correct a `Take` whose cost is known only now. Units that were reserved and not used
    /// are given back as by `Give`. Additional units are charged at once, even above the
    /// limit, until twice the capacity is counted. Never refused.
    Settle {
        /// The units that were taken.
        reserved: u64,
        /// The actual cost in units.
        actual: u64,
        /// When they were taken.
        taken: Timestamp,
    },
    /// Return the answer to `Take(1)`, and consume nothing.
    Peek,
}

/// The answer to one operation on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the operation fits. For [`Op::Peek`], whether `Take(1)` would.
    pub admitted: bool,
    /// The quota's limit.
    pub limit: u64,
    /// How many more unit operations would be admitted now.
    pub remaining: u64,
    /// When the same operation can be admitted; `Now` if it was admitted.
    pub retry: Retry,
    /// The time until the state is equivalent to a new one if nothing more is consumed. An
    /// estimate for [`Concurrency`](super::Concurrency).
    pub reset_after: Span,
    /// The delay of the request. It is not zero only if a
    /// [`LeakyBucket`](super::LeakyBucket) admitted it.
    pub delay: Span,
}

/// When a refused operation can be admitted, if no other request consumes meanwhile.
///
/// Ordered by the wait. Of several, the largest one binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// The operation was admitted.
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

    /// The same time, told `by` earlier.
    pub fn postponed(self, by: Span) -> Self {
        match self {
            Self::After(wait) => {
                Self::After(Span::from_micros(wait.as_micros().saturating_add(by.as_micros())))
            }
            Self::Now | Self::Never => self,
        }
    }
}

/// The result of a take.
pub(super) struct Attempt {
    /// The number of units that fitted before it.
    pub(super) room: u64,
    /// The next state. If refused: the time at which the operation fits, if it ever does.
    pub(super) outcome: Result<State, Option<Timestamp>>,
    /// The delay if it is admitted.
    pub(super) delay: Span,
}

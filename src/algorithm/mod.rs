//! The limit algorithms: pure functions from state, operation and time to the
//! next state and a verdict.
//!
//! Nothing in here reads a clock, takes a lock or knows about HTTP. That is
//! what makes property tests, several stores that agree, and all-or-nothing
//! over several policies possible: compute every next state, then keep all of
//! them or none.
//!
//! What every algorithm guarantees:
//! - a refused operation leaves the state as it was;
//! - [`Retry::After`] is exact: one microsecond earlier the same operation is
//!   refused, at that time it is admitted, if nobody else consumes meanwhile;
//! - [`Verdict::remaining`] unit operations would be admitted now, one more
//!   would not;
//! - time that goes backwards never admits more than time that stands still;
//! - from [`Algorithm::expires_at`] on, a state equals no state at all.

mod fixed_window;
mod quota;
mod sliding_window;
mod sub_windows;
mod token_bucket;

pub use fixed_window::FixedWindow;
pub use quota::{MAX_LIMIT, MAX_WINDOW, MIN_WINDOW, Quota, QuotaError};
pub use sliding_window::SlidingWindow;
pub use sub_windows::SubWindows;
pub use token_bucket::TokenBucket;

use crate::time::{Span, Timestamp};

/// How a policy counts. Each variant documents its formulas and its bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Two counters, the older one fading (the default).
    SlidingWindow(SlidingWindow),
    /// Sub-windows counted on the safe side: never more than the limit in any window.
    SubWindows(SubWindows),
    /// One counter that starts again at every window's edge.
    FixedWindow(FixedWindow),
    /// A bucket that refills steadily (GCRA).
    TokenBucket(TokenBucket),
}

impl Algorithm {
    /// The window.
    pub const fn window(&self) -> Span {
        match self {
            Self::SlidingWindow(algorithm) => algorithm.quota(),
            Self::SubWindows(algorithm) => algorithm.quota(),
            Self::FixedWindow(algorithm) => algorithm.quota(),
            Self::TokenBucket(algorithm) => algorithm.quota(),
        }
        .window()
    }
}

/// What is asked of a state. Costs are in units of the quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Consume this many units, if all of them fit.
    Take(u64),
    /// Undo a `Take` of this cost that was admitted at that time.
    Give {
        /// The units to give back.
        cost: u64,
        /// When they were taken.
        taken: Timestamp,
    },
    /// Say what `Take(1)` would say, and consume nothing.
    Peek,
}

/// What an algorithm remembers of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// [`SlidingWindow`]: a window's index since the epoch, the units admitted
    /// in it, and those of the window before.
    Sliding {
        /// Index of the window, counted from the epoch.
        window: u64,
        /// Units admitted in that window.
        current: u64,
        /// Units admitted in the window before it.
        previous: u64,
    },
    /// [`FixedWindow`]: a window's index and the units admitted in it.
    Fixed {
        /// Index of the window, counted from the epoch.
        window: u64,
        /// Units admitted in that window.
        current: u64,
    },
    /// [`TokenBucket`]: the theoretical arrival time, exact to a fraction of a
    /// microsecond: `arrival_us + fraction / limit`.
    Bucket {
        /// Whole microseconds since the epoch.
        arrival_us: u64,
        /// Numerator of the rest, less than the limit.
        fraction: u64,
    },
    /// [`SubWindows`]: units per sub-window, the oldest first, the last of
    /// them being the sub-window `newest`.
    Counts {
        /// Index of the newest sub-window, counted from the epoch.
        newest: u64,
        /// Units per sub-window, as many as the algorithm counts.
        counts: Box<[u32]>,
    },
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
    pub reset_after: Span,
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

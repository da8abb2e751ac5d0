//! The limit algorithms: pure functions from state, operation and time to the
//! next state and a verdict.
//!
//! Nothing in here reads a clock, takes a lock or knows about HTTP. That is
//! what makes property tests, several stores that agree, and all-or-nothing
//! over several policies possible: compute every next state, then keep all of
//! them or none.
//!
//! What every algorithm guarantees:
//! - a refused operation leaves the state as it was; one of cost 0 is never
//!   refused;
//! - [`Retry::After`] is exact: one microsecond earlier the same operation is
//!   refused, at that time it is admitted, if nobody else consumes meanwhile;
//! - [`Verdict::remaining`] unit operations would be admitted now, one more
//!   would not;
//! - time that goes backwards never admits more than time that stands still;
//! - from [`Algorithm::expires_at`] on, a state equals no state at all;
//! - a state outlives a change of the limit: a raised limit helps at once, a
//!   lowered one resets nobody;
//! - no input overflows or panics.

mod fixed_window;
mod quota;
mod ratio;
mod sliding_window;
mod sub_windows;
#[cfg(test)]
pub(crate) mod tests;
mod token_bucket;

pub use fixed_window::FixedWindow;
pub use quota::{MAX_LIMIT, MAX_WINDOW, MIN_WINDOW, Quota, QuotaError};
pub use sliding_window::SlidingWindow;
pub use sub_windows::{MAX_BUCKETS, SubWindows};
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

/// What a take finds.
struct Attempt {
    /// How many units fitted before it.
    room: u64,
    /// The next state; or, refused, from when on it fits, if ever.
    outcome: Result<State, Option<Timestamp>>,
}

impl Algorithm {
    /// What `op` does to a key's state at `now`: the next state, if it is
    /// another one, and the answer. No state is that of a key never seen; a
    /// state of another algorithm counts as none.
    pub fn apply(&self, state: Option<&State>, op: Op, now: Timestamp) -> (Option<State>, Verdict) {
        let (next, remaining, retry) = match op {
            Op::Take(cost) => {
                let Attempt { room, outcome } = self.take(state, cost, now);
                match outcome {
                    Ok(next) => (Some(next), room - cost, Retry::Now),
                    Err(earliest) => (None, room, Retry::at(earliest, now)),
                }
            }
            Op::Give { cost, taken } => {
                let next = self.give(state, cost, taken, now);
                let room = self.take(Some(&next), 0, now).room;
                (Some(next), room, Retry::Now)
            }
            Op::Peek => {
                let Attempt { room, outcome } = self.take(state, 1, now);
                (None, room, outcome.map_or_else(|at| Retry::at(at, now), |_| Retry::Now))
            }
        };
        let verdict = Verdict {
            admitted: retry == Retry::Now,
            limit: self.limit(),
            remaining,
            retry,
            reset_after: next
                .as_ref()
                .or(state)
                .map_or(Span::ZERO, |state| self.expires_at(state).since(now)),
        };
        (next, verdict)
    }

    fn take(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Attempt {
        match self {
            Self::SlidingWindow(window) => window.take(state, cost, now),
            Self::SubWindows(windows) => windows.take(state, cost, now),
            Self::FixedWindow(window) => window.take(state, cost, now),
            Self::TokenBucket(bucket) => bucket.take(state, cost, now),
        }
    }

    fn give(&self, state: Option<&State>, cost: u64, taken: Timestamp, now: Timestamp) -> State {
        match self {
            Self::SlidingWindow(window) => window.give(state, cost, taken, now),
            Self::SubWindows(windows) => windows.give(state, cost, taken, now),
            Self::FixedWindow(window) => window.give(state, cost, taken, now),
            Self::TokenBucket(bucket) => bucket.give(state, cost, taken, now),
        }
    }

    /// From when on the state equals a fresh one, so that it may be forgotten.
    pub fn expires_at(&self, state: &State) -> Timestamp {
        match self {
            Self::SlidingWindow(window) => window.expires_at(state),
            Self::SubWindows(windows) => windows.expires_at(state),
            Self::FixedWindow(window) => window.expires_at(state),
            Self::TokenBucket(bucket) => bucket.expires_at(state),
        }
    }

    const fn quota(&self) -> Quota {
        match self {
            Self::SlidingWindow(window) => window.quota(),
            Self::SubWindows(windows) => windows.quota(),
            Self::FixedWindow(window) => window.quota(),
            Self::TokenBucket(bucket) => bucket.quota(),
        }
    }

    /// The quota's limit in units.
    pub const fn limit(&self) -> u64 {
        self.quota().limit()
    }

    /// The quota's window.
    pub const fn window(&self) -> Span {
        self.quota().window()
    }

    /// The most units that a fresh key may consume at once.
    pub const fn capacity(&self) -> u64 {
        match self {
            Self::TokenBucket(bucket) => bucket.burst(),
            _ => self.limit(),
        }
    }

    /// What metrics and logs call it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SlidingWindow(_) => "sliding_window",
            Self::SubWindows(_) => "sub_windows",
            Self::FixedWindow(_) => "fixed_window",
            Self::TokenBucket(_) => "token_bucket",
        }
    }
}

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
    /// Say what `Take(1)` would say, and consume nothing.
    Peek,
}

/// What an algorithm remembers of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// [`SlidingWindow`]: a window's index since the epoch, the units admitted
    /// in it, and those of the window before.
    Sliding {
        /// Number of the window: it ends that many windows after the epoch.
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
    /// [`TokenBucket`]: how much was taken and has not been refilled yet.
    Bucket {
        /// When the level stood so.
        as_of: Timestamp,
        /// Tokens times the window in microseconds: a token is as many parts as
        /// the window has microseconds, and every microsecond refills as many
        /// parts as the limit has units.
        level: u128,
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

impl Retry {
    const fn at(earliest: Option<Timestamp>, now: Timestamp) -> Self {
        match earliest {
            Some(earliest) => Self::After(earliest.since(now)),
            None => Self::Never,
        }
    }
}

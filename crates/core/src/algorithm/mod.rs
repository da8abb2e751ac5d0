//! The limit algorithms: pure functions from state, operation and time to the
//! next state and a verdict.
//!
//! This module reads no clock, takes no lock and does not depend on HTTP. This makes
//! property tests, several stores that agree, and all-or-nothing over several policies
//! possible: compute every next state, then store all of them or none.
//!
//! Every algorithm guarantees:
//! - a refused operation leaves the state unchanged; an operation of cost 0 is never
//!   refused;
//! - [`Retry::After`] is exact: one microsecond earlier the same operation is
//!   refused, at that time it is admitted, if no other request consumes meanwhile
//!   ([`Concurrency`] alone can only estimate it: it does not depend on time);
//! - [`Verdict::remaining`] unit operations would be admitted now, one more
//!   would not (a [`Ban`] alone consumes nothing: either all pass or none does);
//! - time that goes backwards never admits more than time that does not advance;
//! - from `Algorithm::expires_at` on, a state is equivalent to no state;
//! - a state survives a change of the limit: a raised limit takes effect at once, and a
//!   lowered one resets no counter;
//! - a settlement may exceed the limit, but at most twice the capacity is counted: debt
//!   delays a client, and does not block it for long;
//! - no input overflows or panics.

mod ban;
mod calendar;
mod concurrency;
mod fixed_window;
mod kind;
mod leaky_bucket;
mod level;
mod log;
mod months;
mod operation;
mod quota;
mod ratio;
mod sliding_log;
mod sliding_window;
mod state;
mod sub_windows;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
pub(crate) mod tests;
mod token_bucket;

pub use ban::Ban;
pub use concurrency::Concurrency;
pub use fixed_window::FixedWindow;
pub use kind::{AlgorithmKind, KIND_MEANINGS, KIND_NAMES, KINDS};
pub use leaky_bucket::LeakyBucket;
pub use log::Log;
pub use operation::{Op, Retry, Verdict};
pub use quota::{
    MAX_BUCKETS, MAX_LIMIT, MAX_LOG_LIMIT, MAX_WINDOW, MIN_WINDOW, MONTH, Quota, QuotaError,
    WindowText,
};
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use state::State;
pub use sub_windows::SubWindows;
pub use token_bucket::TokenBucket;

use std::cmp::Ordering;

use self::operation::Attempt;
use crate::time::{Span, Timestamp};

/// The method of counting. Each variant documents its formulas and its bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Two counters, the older one fading (the default).
    SlidingWindow(SlidingWindow),
    /// Sub-windows that are counted conservatively: never more than the limit in any
    /// window.
    SubWindows(SubWindows),
    /// All units that were admitted in the last window, with their times: exact.
    SlidingLog(SlidingLog),
    /// One counter that restarts at the edge of every window.
    FixedWindow(FixedWindow),
    /// A bucket that refills steadily (GCRA).
    TokenBucket(TokenBucket),
    /// A queue that sends requests on at even distances.
    LeakyBucket(LeakyBucket),
    /// Units in flight at the same time.
    Concurrency(Concurrency),
    /// No limit of its own: whether a client is banned because it exceeded one.
    Ban(Ban),
}

/// Calls the same method on each algorithm.
macro_rules! on {
    ($algorithm:expr, $it:ident => $call:expr) => {
        match $algorithm {
            Self::SlidingWindow($it) => $call,
            Self::SubWindows($it) => $call,
            Self::SlidingLog($it) => $call,
            Self::FixedWindow($it) => $call,
            Self::TokenBucket($it) => $call,
            Self::LeakyBucket($it) => $call,
            Self::Concurrency($it) => $call,
            Self::Ban($it) => $call,
        }
    };
}

impl Algorithm {
    /// How a limit is counted if nothing else is said: in a sliding window, or in months.
    pub fn usual(quota: Quota) -> Self {
        match quota.is_monthly() {
            true => Self::FixedWindow(FixedWindow::new(quota)),
            false => Self::SlidingWindow(SlidingWindow::new(quota)),
        }
    }

    /// Applies `op` to a key's state at `now`. Returns the next state, if it changes, and
    /// the answer. A new key has no state. A state of another algorithm counts as no state.
    pub fn apply(&self, state: Option<&State>, op: Op, now: Timestamp) -> (Option<State>, Verdict) {
        let (next, remaining, retry, delay) = match op {
            Op::Take(cost) => match self.take(state, cost, now) {
                Attempt { room, outcome: Ok(next), delay } => {
                    (Some(next), room - cost, Retry::Now, delay)
                }
                Attempt { room, outcome: Err(earliest), .. } => {
                    (None, room, Retry::at(earliest, now), Span::ZERO)
                }
            },
            Op::Count(cost) => self.count(state, cost, now),
            Op::Peek => match self.take(state, 1, now) {
                Attempt { room, outcome: Ok(_), delay } => (None, room, Retry::Now, delay),
                Attempt { room, outcome: Err(earliest), .. } => {
                    (None, room, Retry::at(earliest, now), Span::ZERO)
                }
            },
            Op::Give { cost, taken } => {
                let next = self.give(state, cost, taken, now);
                self.corrected(state, Some(next), now)
            }
            Op::Cancel { cost, taken } => {
                let next = self.cancel(state, cost, taken, now);
                self.corrected(state, Some(next), now)
            }
            Op::Settle { reserved, actual, taken } => {
                let next = self.settle(state, reserved, actual, taken, now);
                self.corrected(state, next, now)
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
                .map_or(Span::ZERO, |state| self.reset_after(state, now)),
            delay,
        };
        (next, verdict)
    }

    /// The verdict on a cost that is not taken. The remainder is that of the state.
    pub fn judge(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Verdict {
        let (_, verdict) = self.apply(state, Op::Take(cost), now);
        match verdict.admitted {
            true => {
                Verdict { admitted: true, retry: Retry::Now, ..self.apply(state, Op::Peek, now).1 }
            }
            false => verdict,
        }
    }

    /// An operation that is never refused, and the remainder after it.
    fn corrected(
        &self,
        state: Option<&State>,
        next: Option<State>,
        now: Timestamp,
    ) -> (Option<State>, u64, Retry, Span) {
        let room = self.take(next.as_ref().or(state), 0, now).room;
        (next, room, Retry::Now, Span::ZERO)
    }

    /// See [`Op::Count`].
    fn count(
        &self,
        state: Option<&State>,
        cost: u64,
        now: Timestamp,
    ) -> (Option<State>, u64, Retry, Span) {
        let Attempt { room, outcome, delay } = self.take(state, cost, now);
        if cost == 0 {
            return (None, room, self.debt(state, now), Span::ZERO);
        }
        // Units in flight cannot exceed their limit.
        let counted = match self {
            Self::Concurrency(_) => outcome.as_ref().ok().cloned(),
            _ => Some(self.charge(state, cost, now)),
        };
        if outcome.is_ok() {
            return (counted, room - cost, Retry::Now, delay);
        }
        let again = self.take(counted.as_ref().or(state), cost, now);
        let retry = again.outcome.map_or_else(|earliest| Retry::at(earliest, now), |_| Retry::Now);
        (counted, again.room, retry, Span::ZERO)
    }

    /// When no more is counted than fits. Queues do not tell it. A bucket of twice the capacity has room for one
    /// capacity then.
    fn debt(&self, state: Option<&State>, now: Timestamp) -> Retry {
        if matches!(self, Self::LeakyBucket(_) | Self::Concurrency(_) | Self::Ban(_)) {
            return Retry::Now;
        }
        let Ok(wide) = self.with_capacity(self.capacity().saturating_mul(2)) else {
            return Retry::Now;
        };
        let outcome = wide.take(state, self.capacity(), now).outcome;
        outcome.map_or_else(|earliest| Retry::at(earliest, now), |_| Retry::Now)
    }

    fn take(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Attempt {
        on!(self, it => it.take(state, cost, now))
    }

    fn give(&self, state: Option<&State>, cost: u64, taken: Timestamp, now: Timestamp) -> State {
        on!(self, it => it.give(state, cost, taken, now))
    }

    fn cancel(&self, state: Option<&State>, cost: u64, taken: Timestamp, now: Timestamp) -> State {
        match self {
            Self::TokenBucket(it) => it.cancel(state, cost, now),
            Self::LeakyBucket(it) => it.cancel(state, cost, now),
            // These algorithms know from the time of a take how much of it still counts.
            _ => self.give(state, cost, taken, now),
        }
    }

    fn settle(
        &self,
        state: Option<&State>,
        reserved: u64,
        actual: u64,
        taken: Timestamp,
        now: Timestamp,
    ) -> Option<State> {
        match (self, actual.cmp(&reserved)) {
            // Units stay in flight until they are given back, whatever they cost.
            (Self::Concurrency(_), _) | (_, Ordering::Equal) => None,
            (_, Ordering::Less) => Some(self.give(state, reserved - actual, taken, now)),
            (_, Ordering::Greater) => Some(self.charge(state, actual - reserved, now)),
        }
    }

    /// Counts units even if they exceed the limit, up to twice the capacity in total.
    fn charge(&self, state: Option<&State>, units: u64, now: Timestamp) -> State {
        on!(self, it => it.charge(state, units, now))
    }

    /// The time from which on the state is equivalent to a new one, so it may be deleted.
    /// The state of units in flight does not expire.
    pub fn expires_at(&self, state: &State) -> Timestamp {
        on!(self, it => it.expires_at(state))
    }

    /// The time at which units count that were taken at `now`, and whose take has left `state`. It is
    /// later than `now` if the state is of a later time: another take has come before, or the clock
    /// ran backwards. An operation that undoes the take must name this time.
    pub fn counted_at(&self, state: &State, now: Timestamp) -> Timestamp {
        let begins = match (self, state) {
            (Self::SlidingWindow(it), State::Sliding { window, .. }) => Some(it.start_of(*window)),
            (Self::SubWindows(it), State::Counts { newest, .. }) => Some(it.start_of(*newest)),
            (Self::SlidingLog(_), State::Log(log)) => log.newest(),
            (Self::FixedWindow(it), State::Fixed { window, .. }) => Some(it.start_of(*window)),
            (Self::TokenBucket(_), State::Bucket { as_of, .. })
            | (Self::LeakyBucket(_), State::Queue { as_of, .. }) => Some(*as_of),
            _ => None,
        };
        begins.map_or(now, |begins| begins.max(now))
    }

    /// The end of the window or sub-window that counts at `now`. Until then, the state does
    /// not depend on the time in it at which a unit was taken. None for algorithms that
    /// count by the time itself.
    pub fn edge(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::SlidingWindow(it) => Some(it.edge(now)),
            Self::SubWindows(it) => Some(it.edge(now)),
            Self::FixedWindow(it) => Some(it.edge(now)),
            _ => None,
        }
    }

    /// The longest wait that any state can cause at `now` for a cost which fits into a new one.
    /// None if there is no bound. A bucket has none: its level may come from a larger limit.
    pub fn longest_wait(&self, now: Timestamp) -> Option<Span> {
        match self {
            Self::FixedWindow(it) => Some(it.edge(now).since(now)),
            Self::SlidingWindow(it) => Some(it.edge(now).plus(self.window()).since(now)),
            Self::SubWindows(it) => {
                let all_us = it.length().as_micros() * u64::from(it.buckets() + 1);
                Some(it.edge(now).plus(Span::from_micros(all_us)).since(now))
            }
            Self::SlidingLog(it) => Some(it.window()),
            Self::TokenBucket(_) | Self::LeakyBucket(_) | Self::Concurrency(_) | Self::Ban(_) => {
                None
            }
        }
    }

    fn reset_after(&self, state: &State, now: Timestamp) -> Span {
        match self {
            Self::Concurrency(concurrency) => concurrency.reset_after(state),
            _ => self.expires_at(state).since(now),
        }
    }

    /// The same algorithm with another limit, for a plan or an override. The window, zone,
    /// buckets and delays are the same, and so the states are compatible. A burst is scaled
    /// with the limit and rounded up, so that it lasts equally long. A ban has no limit,
    /// and does not change.
    ///
    /// # Errors
    /// If the algorithm cannot count this limit.
    pub fn with_limit(&self, limit: u64) -> Result<Self, QuotaError> {
        match self {
            Self::Concurrency(_) => Concurrency::new(limit).map(Self::Concurrency),
            Self::Ban(it) => Ok(Self::Ban(it.clone())),
            _ => self.with_quota(Quota::new(limit, self.window())?),
        }
    }

    /// The same algorithm with another limit in another window. The states are not
    /// compatible. A burst is scaled as in [`with_limit`](Self::with_limit).
    ///
    /// # Errors
    /// If the algorithm cannot count this quota, or has no window.
    pub fn with_quota(&self, quota: Quota) -> Result<Self, QuotaError> {
        if quota.is_monthly() && !matches!(self, Self::FixedWindow(_)) {
            return Err(QuotaError::Month);
        }
        Ok(match self {
            Self::SlidingWindow(_) => Self::SlidingWindow(SlidingWindow::new(quota)),
            Self::SubWindows(it) => Self::SubWindows(SubWindows::new(quota, it.buckets())?),
            Self::SlidingLog(_) => Self::SlidingLog(SlidingLog::new(quota)?),
            Self::FixedWindow(it) => Self::FixedWindow(it.with_quota(quota)?),
            Self::TokenBucket(it) => Self::TokenBucket(it.with_quota(quota)?),
            Self::LeakyBucket(it) => Self::LeakyBucket(it.with_quota(quota)?),
            Self::Concurrency(_) | Self::Ban(_) => return Err(QuotaError::Timeless),
        })
    }

    /// The same counter with a capacity of this many units. The rate in the long run does
    /// not grow: a larger bucket refills no faster. So this limit and the own limit count
    /// alike, and the distance between them is constant.
    ///
    /// # Errors
    /// If the capacity is out of range.
    pub fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError> {
        match self {
            Self::TokenBucket(it) => it.with_burst(capacity).map(Self::TokenBucket),
            _ => self.with_limit(capacity),
        }
    }

    /// The quota's limit in units.
    pub const fn limit(&self) -> u64 {
        on!(self, it => it.limit())
    }

    /// The quota's window; zero for [`Concurrency`] and [`Ban`], which have none.
    pub const fn window(&self) -> Span {
        on!(self, it => it.window())
    }

    /// The length of the current window. It differs from [`window`](Self::window) for months of
    /// the calendar.
    pub fn length_at(&self, now: Timestamp) -> Span {
        let month = match self {
            Self::FixedWindow(it) => it.month_at(now),
            _ => None,
        };
        month.unwrap_or(self.window())
    }

    /// The limit as a configuration writes it: `100/1m`, `100/month`, or `20` without a window.
    pub fn written(&self) -> String {
        match self.window() {
            Span::ZERO => self.limit().to_string(),
            window => format!("{}/{}", self.limit(), WindowText(window)),
        }
    }

    /// The most units that a fresh key may consume at once.
    pub const fn capacity(&self) -> u64 {
        match self {
            Self::TokenBucket(bucket) => bucket.burst(),
            Self::LeakyBucket(bucket) => bucket.slots(),
            _ => self.limit(),
        }
    }

    /// Its name in metrics and logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SlidingWindow(_) => AlgorithmKind::SlidingWindow.name(),
            Self::SubWindows(_) => "sub_windows",
            Self::SlidingLog(_) => AlgorithmKind::SlidingLog.name(),
            Self::FixedWindow(_) => AlgorithmKind::FixedWindow.name(),
            Self::TokenBucket(_) => AlgorithmKind::TokenBucket.name(),
            Self::LeakyBucket(_) => AlgorithmKind::LeakyBucket.name(),
            Self::Concurrency(_) => AlgorithmKind::Concurrency.name(),
            Self::Ban(_) => "ban",
        }
    }
}

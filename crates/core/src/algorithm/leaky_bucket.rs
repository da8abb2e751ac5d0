//! A queue that sends requests on at even distances.
//!
//! The distance between slots is T = W/L. A request of cost n takes the next n free slots,
//! is delayed until the first of them, and then continues. The slots are counted as a
//! [`level`](super::level): with v slots that are taken and still in the future, the first
//! free slot is v·T away. At most Q = min(D/T, depth) slots precede the last unit, where D
//! is the longest delay, so a cost n is admitted iff v + n − 1 ≤ Q. A refused cost is
//! admitted as soon as v has fallen to Q + 1 − n.
//!
//! Bound: the units that continue in a time x, without the last request, are at most L·x/W,
//! to the microsecond, and no request is delayed longer than D. In the long run L/W.
//!
//! The variant that refuses requests instead of delaying them is
//! [`TokenBucket`](super::TokenBucket). J. Turner, "New directions in communications",
//! 1986, describes both.

use super::level::{self, Level};
use super::operation::Attempt;
use super::{MAX_LIMIT, MAX_WINDOW, Quota, QuotaError, State, ratio};
use crate::time::{Span, Timestamp};

/// The highest level. With as much again for debt it takes 71 bits, so a state fits in 128.
const MAX_CAPACITY: u128 = (1 << 70) - 1;

/// A queue that sends requests on at even distances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    quota: Quota,
    max_delay: Span,
    depth: Option<u64>,
    /// The highest level, in parts: (Q + 1)·W.
    capacity: u128,
    slots: u64,
}

impl LeakyBucket {
    /// Sends units on at this rate, each delayed by at most `max_delay`, while at most
    /// `depth` units wait at the same time. With a delay or depth of zero no request is
    /// delayed: requests before their slot are refused.
    ///
    /// # Errors
    /// If the delay is above [`MAX_WINDOW`], or more than [`MAX_LIMIT`] units
    /// could wait, or if the window is so long that counting them takes more than 70 bits.
    pub fn new(quota: Quota, max_delay: Span, depth: Option<u64>) -> Result<Self, QuotaError> {
        if max_delay > MAX_WINDOW {
            return Err(QuotaError::Delay);
        }
        let by_delay = ratio::product(max_delay.as_micros(), quota.limit());
        let by_depth = depth.map_or(u128::MAX, |depth| level::parts(depth, quota));
        let capacity = by_delay.min(by_depth) + level::parts(1, quota);
        let slots = ratio::floor(capacity, quota.window().as_micros());
        if capacity > MAX_CAPACITY || slots > MAX_LIMIT {
            return Err(QuotaError::Delay);
        }
        Ok(Self { quota, max_delay, depth, capacity, slots })
    }

    pub(super) fn with_quota(&self, quota: Quota) -> Result<Self, QuotaError> {
        Self::new(quota, self.max_delay, self.depth)
    }

    pub(super) const fn limit(&self) -> u64 {
        self.quota.limit()
    }

    pub(super) const fn window(&self) -> Span {
        self.quota.window()
    }

    /// The longest delay.
    pub const fn max_delay(&self) -> Span {
        self.max_delay
    }

    /// The largest number of waiting units, if a bound other than the delay is set.
    pub const fn depth(&self) -> Option<u64> {
        self.depth
    }

    /// The highest level, in parts of a unit. A unit has as many parts as the window has
    /// microseconds.
    pub const fn capacity_parts(&self) -> u128 {
        self.capacity
    }

    /// The number of slots of an empty queue: the one that is used at once, and those that
    /// wait.
    pub(super) const fn slots(&self) -> u64 {
        self.slots
    }

    pub(super) fn take(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Attempt {
        let level = self.standing(state, now);
        let room = level.room(self.capacity, self.quota);
        let taken = level::parts(cost, self.quota);
        // A cost of 0 takes no slot and is not delayed.
        let delay = if cost == 0 { Span::ZERO } else { level.time_to(0, self.quota) };
        let outcome = if cost == 0 {
            Ok(unchanged(state, now))
        } else if cost <= room {
            Ok(stored(level.raised(taken, self.capacity), state, now))
        } else {
            let highest = self.capacity.checked_sub(taken);
            Err(highest.map(|highest| level.falls_to(highest, self.quota)))
        };
        Attempt { room, outcome, delay }
    }

    /// Gives back the slots of the last take only. Later slots are assigned to delayed
    /// requests and must not be assigned twice.
    pub(super) fn give(
        &self,
        state: Option<&State>,
        cost: u64,
        taken: Timestamp,
        now: Timestamp,
    ) -> State {
        match state {
            Some(&State::Queue { as_of, level, shared: false }) if as_of == taken => {
                let given = level::parts(cost, self.quota);
                State::Queue { as_of, level: level.saturating_sub(given), shared: false }
            }
            _ => unchanged(state, now),
        }
    }

    /// Gives back the slots of a request that did not continue, as a token bucket
    /// [does](super::TokenBucket). Requests with later slots keep them, so the next request
    /// may get a slot that is already assigned. At most as many units more may continue at
    /// that time as were not used before it.
    pub(super) fn cancel(&self, state: Option<&State>, cost: u64, now: Timestamp) -> State {
        match state {
            Some(&State::Queue { as_of, level, shared }) => {
                let given = level::parts(cost, self.quota);
                State::Queue { as_of, level: level.saturating_sub(given), shared }
            }
            _ => unchanged(state, now),
        }
    }

    pub(super) fn charge(&self, state: Option<&State>, units: u64, now: Timestamp) -> State {
        let parts = level::parts(units, self.quota);
        stored(self.standing(state, now).raised(parts, 2 * self.capacity), state, now)
    }

    fn standing(&self, state: Option<&State>, now: Timestamp) -> Level {
        match state {
            Some(&State::Queue { as_of, level: parts, .. }) => {
                Level { as_of, parts }.at(now, self.quota)
            }
            _ => Level { as_of: now, parts: 0 },
        }
    }

    pub(super) fn expires_at(&self, state: &State) -> Timestamp {
        match *state {
            State::Queue { as_of, level: parts @ 1.., .. } => {
                Level { as_of, parts }.falls_to(0, self.quota)
            }
            _ => Timestamp::default(),
        }
    }
}

/// Slots were taken at `now`, after `before`.
fn stored(Level { as_of, parts }: Level, before: Option<&State>, now: Timestamp) -> State {
    let shared = matches!(before, Some(&State::Queue { as_of, level: 1.., .. }) if as_of >= now);
    State::Queue { as_of, level: parts, shared }
}

fn unchanged(state: Option<&State>, now: Timestamp) -> State {
    match state {
        Some(&State::Queue { as_of, level, shared }) => State::Queue { as_of, level, shared },
        _ => State::Queue { as_of: now, level: 0, shared: false },
    }
}

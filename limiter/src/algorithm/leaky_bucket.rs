//! A queue that lets requests go at even distances.
//!
//! Slots lie T = W/L apart. A request of cost n takes the next n slots that are
//! free, is held until the first of them, and then goes on. Counted as a
//! [`level`](super::level): with v slots taken and not gone by, the first free
//! one is v·T away. At most Q = min(D/T, depth) slots lie ahead of the last
//! unit, with D the longest delay, so a cost n is admitted iff v + n − 1 ≤ Q.
//! Refused, it is admitted as soon as v has fallen to Q + 1 − n.
//!
//! Bound: whatever goes on in a time x, without the last request, is at most
//! L·x/W units, to the microsecond; and nothing is held longer than D. In the
//! long run L/W.
//!
//! The bucket as a meter, which refuses instead of holding, is
//! [`TokenBucket`](super::TokenBucket) (J. Turner, "New directions in
//! communications", 1986, has both).

use super::level::{self, Level};
use super::operation::Attempt;
use super::{MAX_LIMIT, MAX_WINDOW, Quota, QuotaError, State, ratio};
use crate::time::{Span, Timestamp};

/// What a level may reach, with as much again for debt: 71 bits in all, so
/// that a state fits 128.
const MAX_CAPACITY: u128 = (1 << 70) - 1;

/// A queue that lets requests go at even distances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    quota: Quota,
    max_delay: Span,
    depth: Option<u64>,
    /// What the level may rise to, in parts: (Q + 1)·W.
    capacity: u128,
    slots: u64,
}

impl LeakyBucket {
    /// Lets units go at this rate, each held for `max_delay` at most, and at
    /// most `depth` units waiting at the same time. A delay or depth of zero
    /// holds nothing: what comes before its slot is refused.
    ///
    /// # Errors
    /// If the delay is above [`MAX_WINDOW`], or more than [`MAX_LIMIT`] units
    /// could wait, or in so long a window that they are counted in over 70 bits.
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

    /// The longest that anything is held.
    pub const fn max_delay(&self) -> Span {
        self.max_delay
    }

    /// How many units may wait, if that is bounded by more than the delay.
    pub const fn depth(&self) -> Option<u64> {
        self.depth
    }

    /// What the level may rise to, in as many parts of a unit as the window has
    /// microseconds.
    pub const fn capacity_parts(&self) -> u128 {
        self.capacity
    }

    /// How many slots an empty queue has to give: the one that goes at once,
    /// and those that wait.
    pub(super) const fn slots(&self) -> u64 {
        self.slots
    }

    pub(super) fn take(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Attempt {
        let level = self.standing(state, now);
        let room = level.room(self.capacity, self.quota);
        let taken = level::parts(cost, self.quota);
        // What costs nothing needs no slot, and waits for none.
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

    /// Gives back the slots of the last take, and of no other: slots behind
    /// them are promised to requests that are held, and must not be given twice.
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

    /// Gives back the slots of a request that did not go on, as a token bucket
    /// [does](super::TokenBucket). Requests behind them keep the slots that they
    /// were promised, so the next request may get one that is promised already:
    /// as many units more may go on at that time as were not used before it.
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

//! A bucket of B tokens that refills at L per window W.
//!
//! Counted from its other side, as a leak: a take of n pours n units in, L
//! units leak out in every W, and what would rise above B is refused. This is
//! the Generic Cell Rate Algorithm (ITU-T I.371, annex A, "continuous-state
//! leaky bucket"), whose theoretical arrival time is the time at which the
//! level reaches zero.
//!
//! The level is kept in W-ths of a unit: a take adds n·W, a microsecond leaks
//! L, and both are integers, so W/L may be any fraction and nothing drifts.
//! Keeping the arrival time instead was rejected: it means other units as soon
//! as the limit changes, and a raised limit could then block for longer.
//!
//! Bound: in any time x at most B + L·x/W. In the long run L/W.

use super::{Attempt, MAX_LIMIT, Quota, QuotaError, State, ratio};
use crate::time::{Span, Timestamp};

/// What a level may reach, with as much again for debt: 74 bits in all, so
/// that a state with its time fits 128.
const MAX_CAPACITY: u128 = (1 << 73) - 1;

/// A bucket that refills steadily.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    quota: Quota,
    burst: u64,
}

impl TokenBucket {
    /// Refills by this quota and holds `burst` tokens.
    ///
    /// # Errors
    /// If the burst is 0 or above [`MAX_LIMIT`], or the burst times the window
    /// in microseconds takes more than 73 bits.
    pub fn new(quota: Quota, burst: u64) -> Result<Self, QuotaError> {
        if burst == 0 || burst > MAX_LIMIT {
            return Err(QuotaError::Burst);
        }
        if ratio::product(burst, quota.window().as_micros()) > MAX_CAPACITY {
            return Err(QuotaError::BurstInWindow);
        }
        Ok(Self { quota, burst })
    }

    pub(super) const fn quota(&self) -> Quota {
        self.quota
    }

    /// How many tokens the bucket holds.
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    fn parts(&self, units: u64) -> u128 {
        ratio::product(units, self.quota.window().as_micros())
    }

    pub(super) fn take(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Attempt {
        let (as_of, level) = self.standing(state, now);
        let capacity = self.parts(self.burst);
        let room = ratio::floor(capacity.saturating_sub(level), self.quota.window().as_micros());
        let outcome = if cost <= room {
            Ok(State::Bucket { as_of, level: level + self.parts(cost) })
        } else {
            let highest = capacity.checked_sub(self.parts(cost));
            Err(highest.map(|highest| as_of.plus(self.time_to_leak(level - highest))))
        };
        Attempt { room, outcome }
    }

    /// Gives back what cannot have leaked out since. How much of it really has
    /// depends on what else was taken meanwhile, which nobody remembers; to
    /// give back all of it would pay for the leak a second time.
    pub(super) fn give(
        &self,
        state: Option<&State>,
        cost: u64,
        taken: Timestamp,
        now: Timestamp,
    ) -> State {
        let (as_of, level) = self.standing(state, now);
        let leaked = ratio::product(as_of.since(taken).as_micros(), self.quota.limit());
        let given = self.parts(cost).saturating_sub(leaked);
        State::Bucket { as_of, level: level.saturating_sub(given) }
    }

    /// The level, and the time at which it stands so. If the clock ran
    /// backwards, nothing has leaked yet.
    fn standing(&self, state: Option<&State>, now: Timestamp) -> (Timestamp, u128) {
        match state {
            Some(&State::Bucket { as_of, level: level @ 1.. }) => {
                let leaked = ratio::product(now.since(as_of).as_micros(), self.quota.limit());
                match level.saturating_sub(leaked) {
                    0 => (now, 0),
                    level => (now.max(as_of), level),
                }
            }
            _ => (now, 0),
        }
    }

    fn time_to_leak(&self, parts: u128) -> Span {
        Span::from_micros(ratio::ceil(parts, self.quota.limit()))
    }

    pub(super) fn expires_at(&self, state: &State) -> Timestamp {
        match *state {
            State::Bucket { as_of, level: level @ 1.. } => as_of.plus(self.time_to_leak(level)),
            _ => Timestamp::default(),
        }
    }
}

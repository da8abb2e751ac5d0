//! A bucket of B tokens that refills at L per window W.
//!
//! The implementation counts a leak: a take of n adds n units, L units leak in every W, and
//! a take that would raise the level above B is refused. This is the Generic Cell Rate
//! Algorithm (ITU-T I.371, annex A, "continuous-state leaky bucket"), whose theoretical
//! arrival time is the time at which the level reaches zero.
//!
//! The level is kept in W-ths of a unit, see [`level`](super::level). The alternative to
//! store the arrival time was rejected: its meaning in units depends on the limit, so a
//! raised limit could then block a client for longer.
//!
//! Bound: in any time x at most B + L·x/W. In the long run L/W.

use super::level::{self, Level};
use super::operation::Attempt;
use super::{MAX_LIMIT, Quota, QuotaError, State, ratio};
use crate::time::{Span, Timestamp};

/// The highest level. With as much again for debt it takes 74 bits, so a state with its
/// time fits in 128.
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

    /// The burst is scaled with the rate, so that it lasts equally long.
    pub(super) fn with_quota(&self, quota: Quota) -> Result<Self, QuotaError> {
        // Limits have 39 bits and windows 45: no product overflows.
        let ours = ratio::product(self.quota.limit(), quota.window().as_micros());
        let scaled = ratio::product(self.burst, quota.limit());
        let burst = (scaled * u128::from(self.window().as_micros())).div_ceil(ours);
        Self::new(quota, u64::try_from(burst).unwrap_or(u64::MAX))
    }

    pub(super) fn with_burst(&self, burst: u64) -> Result<Self, QuotaError> {
        Self::new(self.quota, burst)
    }

    pub(super) const fn limit(&self) -> u64 {
        self.quota.limit()
    }

    pub(super) const fn window(&self) -> Span {
        self.quota.window()
    }

    /// The capacity of the bucket in tokens.
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    fn capacity(&self) -> u128 {
        level::parts(self.burst, self.quota)
    }

    pub(super) fn take(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Attempt {
        let level = self.standing(state, now);
        let capacity = self.capacity();
        let room = level.room(capacity, self.quota);
        let poured = level::parts(cost, self.quota);
        let outcome = if cost <= room {
            Ok(stored(level.raised(poured, capacity)))
        } else {
            let highest = capacity.checked_sub(poured);
            Err(highest.map(|highest| level.falls_to(highest, self.quota)))
        };
        Attempt { room, outcome, delay: Span::ZERO }
    }

    /// Gives back only the units that cannot have leaked since. The amount that has
    /// actually leaked depends on other takes in the meantime, which are not stored. To
    /// give back all units would count the leak twice.
    pub(super) fn give(
        &self,
        state: Option<&State>,
        cost: u64,
        taken: Timestamp,
        now: Timestamp,
    ) -> State {
        let level = self.standing(state, now);
        let leaked = ratio::product(level.as_of.since(taken).as_micros(), self.quota.limit());
        let given = level::parts(cost, self.quota).saturating_sub(leaked);
        stored(Level { parts: level.parts.saturating_sub(given), ..level })
    }

    /// Gives back all units that were taken for a request that did not continue.
    ///
    /// Let A be the level, and I the level if the take had not happened. Their difference
    /// is `cost` at first, and falls only while I is zero and only A leaks. So A − `cost` ≤
    /// I at any time: no request finds less room than without the take. The units that
    /// leaked only from A are room that I would not have used, and they can be used once
    /// more. So the units that are admitted in a time x stay within B + L·x/W and the units
    /// that wait to be given back.
    ///
    /// The alternative to give back exactly A − I was rejected: it needs the lowest level
    /// since each such take. The alternative to give back only the units that cannot have
    /// leaked, as [`give`](Self::give) does, was rejected as well: each request that
    /// another limit refuses would drain the units that leak in a round trip from a bucket
    /// that is never empty.
    pub(super) fn cancel(&self, state: Option<&State>, cost: u64, now: Timestamp) -> State {
        let level = self.standing(state, now);
        let given = level::parts(cost, self.quota);
        stored(Level { parts: level.parts.saturating_sub(given), ..level })
    }

    pub(super) fn charge(&self, state: Option<&State>, units: u64, now: Timestamp) -> State {
        let poured = level::parts(units, self.quota);
        stored(self.standing(state, now).raised(poured, 2 * self.capacity()))
    }

    fn standing(&self, state: Option<&State>, now: Timestamp) -> Level {
        match state {
            Some(&State::Bucket { as_of, level: parts }) => {
                Level { as_of, parts }.at(now, self.quota)
            }
            _ => Level { as_of: now, parts: 0 },
        }
    }

    pub(super) fn expires_at(&self, state: &State) -> Timestamp {
        match *state {
            State::Bucket { as_of, level: parts @ 1.. } => {
                Level { as_of, parts }.falls_to(0, self.quota)
            }
            _ => Timestamp::default(),
        }
    }
}

const fn stored(Level { as_of, parts }: Level) -> State {
    State::Bucket { as_of, level: parts }
}

//! All units that were admitted in the last window, with their times: exact.
//!
//! The log holds the times and the numbers of admitted units. Units that are admitted at t
//! count until t + W. With S units that count, a cost n is admitted iff S + n ≤ L. A
//! refused cost is admitted at t' + W, where t' is the first time in the log until which at
//! least S + n − L units were admitted.
//!
//! Bound: at most L in every window of length W, always, and no unit is refused for which
//! an exact count has room. In the long run L/W. Memory and time are proportional to L, see
//! [`Log`](super::Log) for the bytes. So the limit is bounded: use it for logins, one-time
//! codes and payments.

use super::log::Tail;
use super::operation::Attempt;
use super::quota::MAX_LOG_LIMIT;
use super::{Quota, QuotaError, State};
use crate::time::{Span, Timestamp};

/// All units that were admitted in the last window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    quota: Quota,
}

impl SlidingLog {
    /// Counts this quota.
    ///
    /// # Errors
    /// If the limit is above [`MAX_LOG_LIMIT`].
    pub const fn new(quota: Quota) -> Result<Self, QuotaError> {
        if quota.limit() > MAX_LOG_LIMIT {
            return Err(QuotaError::LogLimit);
        }
        Ok(Self { quota })
    }

    pub(super) const fn limit(&self) -> u64 {
        self.quota.limit()
    }

    pub(super) const fn window(&self) -> Span {
        self.quota.window()
    }

    pub(super) fn take(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Attempt {
        let tail = self.standing(state, now);
        let room = self.limit().saturating_sub(tail.units);
        let outcome = if cost <= room {
            Ok(State::Log(tail.with(cost, now)))
        } else {
            Err(self.limit().checked_sub(cost).map(|spare| self.earliest(tail, spare)))
        };
        Attempt { room, outcome, delay: Span::ZERO }
    }

    /// The time at which at most `spare` units are left, because the oldest have expired.
    fn earliest(&self, tail: Tail<'_>, spare: u64) -> Timestamp {
        let mut left = tail.units;
        let freeing = tail.entries().find(|entry| {
            left = left.saturating_sub(entry.units);
            left <= spare
        });
        freeing.map_or(tail.newest, |entry| entry.at).plus(self.window())
    }

    pub(super) fn give(
        &self,
        state: Option<&State>,
        cost: u64,
        taken: Timestamp,
        now: Timestamp,
    ) -> State {
        State::Log(self.standing(state, now).without(cost, taken))
    }

    pub(super) fn charge(&self, state: Option<&State>, units: u64, now: Timestamp) -> State {
        let tail = self.standing(state, now);
        let units = units.min((2 * self.limit()).saturating_sub(tail.units));
        State::Log(tail.with(units, now))
    }

    /// The units that count at `now`. If the clock ran backwards, nothing has expired yet.
    fn standing<'s>(&self, state: Option<&'s State>, now: Timestamp) -> Tail<'s> {
        match state {
            Some(State::Log(log)) => log.since(self.window(), now),
            _ => Tail::empty(now),
        }
    }

    pub(super) fn expires_at(&self, state: &State) -> Timestamp {
        match state {
            State::Log(log) => {
                log.newest().map_or(Timestamp::default(), |newest| newest.plus(self.window()))
            }
            _ => Timestamp::default(),
        }
    }
}

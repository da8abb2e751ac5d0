//! Units in flight at the same time.
//!
//! With u units in flight, a cost n is admitted iff u + n ≤ L. It is in flight
//! until it is given back; time alone frees nothing. So this is the one
//! algorithm whose state never expires while it counts something: stores must
//! not forget it.
//!
//! When a refused request fits is not known here, because it depends on how
//! long others take. The wait is an estimate of [`ESTIMATE`]: the shortest that
//! a client can be told in whole seconds. The limiter tells the mean time for
//! which units were held instead, where it has measured that.
//!
//! Bound: at most L in flight at any time.

use super::operation::Attempt;
use super::{MAX_LIMIT, QuotaError, State};
use crate::time::{Span, Timestamp};

/// How long until units are given back, for want of a better guess.
pub(super) const ESTIMATE: Span = Span::SECOND;
/// From when on units in flight may be forgotten.
const NEVER: Timestamp = Timestamp::from_micros(u64::MAX);

/// Units in flight at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    limit: u64,
}

impl Concurrency {
    /// At most `limit` units in flight.
    ///
    /// # Errors
    /// If the limit is 0 or above [`MAX_LIMIT`].
    pub const fn new(limit: u64) -> Result<Self, QuotaError> {
        match limit {
            0 => Err(QuotaError::Zero),
            1..=MAX_LIMIT => Ok(Self { limit }),
            _ => Err(QuotaError::Limit),
        }
    }

    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) const fn window(&self) -> Span {
        Span::ZERO
    }

    pub(super) fn take(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Attempt {
        let units = in_flight(state);
        let room = self.limit.saturating_sub(units);
        let outcome = if cost <= room {
            Ok(State::InFlight { units: units + cost })
        } else {
            Err((cost <= self.limit).then(|| now.plus(ESTIMATE)))
        };
        Attempt { room, outcome, delay: Span::ZERO }
    }

    pub(super) fn give(
        &self,
        state: Option<&State>,
        cost: u64,
        _: Timestamp,
        _: Timestamp,
    ) -> State {
        State::InFlight { units: in_flight(state).saturating_sub(cost) }
    }

    /// Units in flight are given back one for one, so none are added to them.
    pub(super) fn charge(&self, state: Option<&State>, _: u64, _: Timestamp) -> State {
        State::InFlight { units: in_flight(state) }
    }

    pub(super) fn expires_at(&self, state: &State) -> Timestamp {
        if in_flight(Some(state)) > 0 { NEVER } else { Timestamp::default() }
    }

    pub(super) fn reset_after(&self, state: &State) -> Span {
        if in_flight(Some(state)) > 0 { ESTIMATE } else { Span::ZERO }
    }
}

const fn in_flight(state: Option<&State>) -> u64 {
    match state {
        Some(&State::InFlight { units }) => units,
        _ => 0,
    }
}

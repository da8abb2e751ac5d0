//! Units in flight at the same time.
//!
//! With u units in flight, a cost n is admitted iff u + n ≤ L. The cost is in flight until
//! it is given back; time alone frees nothing. This is the only algorithm whose state does
//! not expire while it counts units, so stores must not delete it.
//!
//! The algorithm does not know when a refused request can be admitted, because this depends
//! on the duration of other requests. It returns the estimate [`ESTIMATE`], which is the
//! shortest wait in whole seconds. If the limiter has measured the mean time for which
//! units were held, it returns this time instead.
//!
//! Bound: at most L in flight at any time.

use super::operation::Attempt;
use super::{MAX_LIMIT, QuotaError, State};
use crate::time::{Span, Timestamp};

/// The estimated time until units are given back.
pub(super) const ESTIMATE: Span = Span::SECOND;
/// The time after which units in flight may be forgotten.
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

    /// Units in flight are given back one for one, so a refund never adds units.
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

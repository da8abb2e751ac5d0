//! A ban: a client that was refused too often gets no request admitted for some time.
//!
//! The state counts bans, not requests. A take asks whether a ban is active: it is admitted
//! if none is, and consumes nothing. A charge, as [`Op::Settle`](super::Op::Settle) makes
//! it, imposes a ban, whatever its units. The first ban lasts D, each further one twice as
//! long as the previous one, and none longer than M. A charge during a ban changes nothing:
//! several requests that are refused at the same time lead to one ban.
//!
//! All bans are forgotten together when M has passed since the end of the last one. The
//! next ban then lasts D again.
//!
//! Bound: no ban lasts longer than M.

use super::operation::Attempt;
use super::{MAX_LIMIT, MAX_WINDOW, QuotaError, State};
use crate::time::{Span, Timestamp};

/// Bans, each twice as long as the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    first: Span,
    longest: Span,
}

impl Ban {
    /// Bans of which the first lasts `first`, and the longest `longest`.
    ///
    /// # Errors
    /// If the first ban has no length, or is longer than the longest, or the longest is
    /// longer than [`MAX_WINDOW`].
    pub fn new(first: Span, longest: Span) -> Result<Self, QuotaError> {
        if first.is_zero() || first > longest || longest > MAX_WINDOW {
            return Err(QuotaError::Ban);
        }
        Ok(Self { first, longest })
    }

    /// How long the first ban lasts.
    pub const fn first(&self) -> Span {
        self.first
    }

    /// The length of the longest ban.
    pub const fn longest(&self) -> Span {
        self.longest
    }

    /// Without a ban, the amount is not limited.
    pub(super) const fn limit(&self) -> u64 {
        MAX_LIMIT
    }

    /// No limit: a change of lengths does not change existing bans.
    pub(super) const fn window(&self) -> Span {
        Span::ZERO
    }

    pub(super) fn take(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Attempt {
        let (until, bans) = standing(state);
        let room = if now < until { 0 } else { self.limit() };
        let outcome = if cost <= room {
            Ok(State::Ban { until, bans })
        } else {
            Err((cost <= self.limit()).then_some(until))
        };
        Attempt { room, outcome, delay: Span::ZERO }
    }

    /// A take consumed nothing, so there is nothing to give back.
    pub(super) fn give(&self, state: Option<&State>, _: u64, _: Timestamp, _: Timestamp) -> State {
        let (until, bans) = standing(state);
        State::Ban { until, bans }
    }

    pub(super) fn charge(&self, state: Option<&State>, units: u64, now: Timestamp) -> State {
        let (until, bans) = standing(state);
        if units == 0 || now < until {
            return State::Ban { until, bans };
        }
        let remembered = if now < self.forgotten_at(until) { bans } else { 0 };
        State::Ban { until: now.plus(self.length(remembered)), bans: remembered.saturating_add(1) }
    }

    /// The length of a ban after this number of bans.
    fn length(&self, before: u8) -> Span {
        let factor = 1_u64.checked_shl(before.into());
        let us = factor.and_then(|factor| self.first.as_micros().checked_mul(factor));
        us.map_or(self.longest, |us| self.longest.min(Span::from_micros(us)))
    }

    const fn forgotten_at(&self, until: Timestamp) -> Timestamp {
        until.plus(self.longest)
    }

    pub(super) fn expires_at(&self, state: &State) -> Timestamp {
        match standing(Some(state)) {
            (_, 0) => Timestamp::default(),
            (until, _) => self.forgotten_at(until),
        }
    }
}

/// The end of the last ban, and the number of bans so far.
fn standing(state: Option<&State>) -> (Timestamp, u8) {
    match state {
        Some(&State::Ban { until, bans }) => (until, bans),
        _ => (Timestamp::default(), 0),
    }
}

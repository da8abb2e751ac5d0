//! Two counters, the older one fading: the default.
//!
//! Time is divided into windows of length W, aligned to the epoch; window k is (k − 1)·W <
//! t ≤ k·W. Let c be the units in the current window, p the units in the previous one, and
//! e the elapsed time of the current window. The estimate for the last W is c + p·(W −
//! e)/W, as if the units of the previous window had come evenly. A cost n is admitted iff
//! p·(W − e) + (c + n)·W ≤ L·W.
//!
//! Bound: in any time x ≤ W at most L + L·x/W, hence less than 2L in less than W. The
//! surplus is spread: L at once, then L/W. In the long run L/W for a client that sends each
//! request as soon as it is admissible. A client that sends requests at other times can
//! lose up to one unit a window, because only whole units are admitted.
//!
//! A window contains its end, and not its beginning. The last unit of a full window may
//! come exactly at its end. If it were counted in the next window, every window would lose
//! one unit, and with a limit of 1 every second window would be lost.

use super::operation::Attempt;
use super::{Quota, State, ratio};
use crate::time::{Span, Timestamp};

/// Two counters, the older one fading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    quota: Quota,
}

/// The counters at one time.
struct Standing {
    window: u64,
    /// The time until the window ends, W − e.
    left_us: u64,
    current: u64,
    previous: u64,
}

impl SlidingWindow {
    /// Counts this quota.
    pub const fn new(quota: Quota) -> Self {
        Self { quota }
    }

    pub(super) const fn limit(&self) -> u64 {
        self.quota.limit()
    }

    pub(super) const fn window(&self) -> Span {
        self.quota.window()
    }

    const fn length_us(&self) -> u64 {
        self.quota.window().as_micros()
    }

    pub(super) fn take(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Attempt {
        let at = self.standing(state, now);
        let room = self.quota.limit().saturating_sub(self.counted(&at));
        let outcome = if cost <= room {
            Ok(State::Sliding {
                window: at.window,
                current: at.current + cost,
                previous: at.previous,
            })
        } else {
            Err(self.quota.limit().checked_sub(cost).map(|spare| self.earliest(&at, spare)))
        };
        Attempt { room, outcome, delay: Span::ZERO }
    }

    /// The units of the last W, as the counters estimate them, rounded up.
    fn counted(&self, at: &Standing) -> u64 {
        let fading = ratio::ceil(ratio::product(at.previous, at.left_us), self.length_us());
        at.current.saturating_add(fading)
    }

    /// The time at which the estimate has fallen to `spare`.
    fn earliest(&self, at: &Standing, spare: u64) -> Timestamp {
        // Units of the current window fade only after it has ended. If they alone are too
        // many, the wait includes the time until they fade.
        let (window, fading, spare) = match spare.checked_sub(at.current) {
            Some(spare) => (at.window, at.previous, spare),
            None => (at.window.saturating_add(1), at.current, spare),
        };
        let left_us = ratio::floor(ratio::product(spare, self.length_us()), fading);
        self.end_of(window).minus(Span::from_micros(left_us))
    }

    /// The number that states use for the window at `time`.
    pub const fn window_at(&self, time: Timestamp) -> u64 {
        time.as_micros().div_ceil(self.length_us())
    }

    const fn end_of(&self, window: u64) -> Timestamp {
        Timestamp::from_micros(window.saturating_mul(self.length_us()))
    }

    /// The first time of a window, which does not contain the end of the window before.
    pub(super) const fn start_of(&self, window: u64) -> Timestamp {
        match window.checked_sub(1) {
            Some(before) => self.end_of(before).plus(Span::from_micros(1)),
            None => self.end_of(window),
        }
    }

    pub(super) const fn edge(&self, now: Timestamp) -> Timestamp {
        self.end_of(self.window_at(now))
    }

    pub(super) fn give(
        &self,
        state: Option<&State>,
        cost: u64,
        taken: Timestamp,
        now: Timestamp,
    ) -> State {
        let Standing { window, mut current, mut previous, .. } = self.standing(state, now);
        match window.checked_sub(self.window_at(taken)) {
            Some(0) => current = current.saturating_sub(cost),
            Some(1) => previous = previous.saturating_sub(cost),
            _ => {}
        }
        State::Sliding { window, current, previous }
    }

    pub(super) fn charge(&self, state: Option<&State>, units: u64, now: Timestamp) -> State {
        let at = self.standing(state, now);
        let units = units.min((2 * self.quota.limit()).saturating_sub(self.counted(&at)));
        State::Sliding {
            window: at.window,
            current: at.current.saturating_add(units),
            previous: at.previous,
        }
    }

    fn standing(&self, state: Option<&State>, now: Timestamp) -> Standing {
        let window = self.window_at(now);
        let left_us = self.end_of(window).since(now).as_micros();
        let fresh = Standing { window, left_us, current: 0, previous: 0 };
        let (stored, current, previous) = match state {
            Some(state @ &State::Sliding { window, current, previous })
                if self.expires_at(state) > now =>
            {
                (window, current, previous)
            }
            _ => return fresh,
        };
        match window.checked_sub(stored) {
            // The clock ran backwards: nothing has faded yet.
            None => Standing { window: stored, left_us: self.length_us(), current, previous },
            Some(0) => Standing { window, left_us, current, previous },
            Some(_) => Standing { window, left_us, current: 0, previous: current },
        }
    }

    pub(super) fn expires_at(&self, state: &State) -> Timestamp {
        match *state {
            State::Sliding { window, current: 1.., .. } => self.end_of(window.saturating_add(1)),
            State::Sliding { window, previous: 1.., .. } => self.end_of(window),
            _ => Timestamp::default(),
        }
    }
}

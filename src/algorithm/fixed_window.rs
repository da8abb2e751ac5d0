//! One counter that starts again at every window's edge.
//!
//! Windows of length W are aligned to the epoch. With c units in the present
//! window, a cost n is admitted iff c + n ≤ L.
//!
//! Bound: L in every aligned window, but up to 2L at once around an edge. In
//! the long run L/W. For quotas that people expect to start again on the hour.

use super::{Attempt, Quota, State};
use crate::time::Timestamp;

/// One counter that starts again at every window's edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    quota: Quota,
}

impl FixedWindow {
    /// Counts this quota.
    pub const fn new(quota: Quota) -> Self {
        Self { quota }
    }

    pub(super) const fn quota(&self) -> Quota {
        self.quota
    }

    const fn length_us(&self) -> u64 {
        self.quota.window().as_micros()
    }

    pub(super) fn take(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Attempt {
        let (window, current) = self.standing(state, now);
        let room = self.quota.limit().saturating_sub(current);
        let outcome = if cost <= room {
            Ok(State::Fixed { window, current: current + cost })
        } else {
            Err((cost <= self.quota.limit()).then(|| self.end_of(window)))
        };
        Attempt { room, outcome }
    }

    pub(super) fn give(
        &self,
        state: Option<&State>,
        cost: u64,
        taken: Timestamp,
        now: Timestamp,
    ) -> State {
        let (window, current) = self.standing(state, now);
        let given = if taken.as_micros() / self.length_us() == window { cost } else { 0 };
        State::Fixed { window, current: current.saturating_sub(given) }
    }

    /// The window that counts at `now`, and the units in it. If the clock ran
    /// backwards, that is still the stored one.
    fn standing(&self, state: Option<&State>, now: Timestamp) -> (u64, u64) {
        let present = now.as_micros() / self.length_us();
        match state {
            Some(&State::Fixed { window, current: current @ 1.. }) if window >= present => {
                (window, current)
            }
            _ => (present, 0),
        }
    }

    fn end_of(&self, window: u64) -> Timestamp {
        Timestamp::from_micros(window.saturating_add(1).saturating_mul(self.length_us()))
    }

    pub(super) fn expires_at(&self, state: &State) -> Timestamp {
        match *state {
            State::Fixed { window, current: 1.. } => self.end_of(window),
            _ => Timestamp::default(),
        }
    }
}

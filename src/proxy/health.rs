//! Whether an endpoint may have requests, and how many. Pure: time comes in as
//! microseconds since the upstream was made.
//!
//! Two judges have a say. Checks ask the endpoint itself and take it out, or put
//! it back, after several in a row. Requests that fail one after another eject it
//! for a time, longer each time that this happens soon again.

use std::time::Duration;

use super::settings::{CheckSettings, EjectSettings};
use crate::time::Span;

/// How often the time of an ejection doubles, at most.
const MAX_DOUBLINGS: u32 = 3;
/// The share of its weight with which an endpoint comes back, in percent.
const FIRST_PERCENT: u64 = 10;
/// In so many steps the weight grows.
const STEPS: u64 = 20;

/// What is known of one endpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// Whether the checks have taken it out.
    is_down: bool,
    /// Checks in a row that speak for a change.
    streak: u32,
    /// When its last ejection ends, or ended.
    ejected_until_us: u64,
    /// How long that one was.
    ejected_for_us: u64,
    /// How often it was doubled.
    doublings: u32,
    /// Since when it is back, after it was out or new; 0: it never was.
    back_since_us: u64,
}

/// What has become of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Checks have taken it out.
    Down,
    /// Checks have put it back.
    Up,
    /// It is out for so long.
    Ejected(Duration),
}

impl Standing {
    /// An endpoint that has just appeared among others.
    pub(super) fn new_at(now_us: u64) -> Self {
        Self { back_since_us: now_us, ..Self::default() }
    }

    /// A check has ended.
    pub(super) fn checked(
        &mut self,
        is_good: bool,
        settings: &CheckSettings,
        now_us: u64,
    ) -> Option<Change> {
        if is_good != self.is_down {
            self.streak = 0;
            return None;
        }
        self.streak += 1;
        let needed = if self.is_down { settings.rise } else { settings.fall };
        if self.streak < needed {
            return None;
        }
        self.streak = 0;
        self.is_down = !is_good;
        if self.is_down {
            return Some(Change::Down);
        }
        self.back_since_us = now_us;
        Some(Change::Up)
    }

    /// Requests have failed one after another; nothing if it is ejected already.
    pub(super) fn eject(&mut self, settings: &EjectSettings, now_us: u64) -> Option<Change> {
        if self.is_ejected(now_us) {
            return None;
        }
        // Who has been well for as long as they were out begins anew.
        let was_well_us = now_us.saturating_sub(self.ejected_until_us);
        let is_soon = self.ejected_for_us > 0 && was_well_us < self.ejected_for_us;
        self.doublings = if is_soon { (self.doublings + 1).min(MAX_DOUBLINGS) } else { 0 };
        self.ejected_for_us =
            Span::from(settings.period).as_micros().saturating_mul(1 << self.doublings);
        self.ejected_until_us = now_us.saturating_add(self.ejected_for_us);
        Some(Change::Ejected(Duration::from_micros(self.ejected_for_us)))
    }

    /// Whether it is ejected now.
    pub(super) fn is_ejected(&self, now_us: u64) -> bool {
        now_us < self.ejected_until_us
    }

    /// Whether checks have taken it out.
    pub(super) fn is_down(&self) -> bool {
        self.is_down
    }

    /// From when on it may have requests: 0 for always, the last moment for not
    /// until something changes.
    pub(super) fn in_service_from_us(&self) -> u64 {
        if self.is_down { u64::MAX } else { self.ejected_until_us.max(self.back_since_us) }
    }
}

/// Whether one more may be ejected of `members`, of which `ejected` are.
pub(super) fn may_eject(ejected: usize, members: usize, max_percent: u8) -> bool {
    (ejected + 1).saturating_mul(100) <= members.saturating_mul(usize::from(max_percent))
}

/// The share of its weight that an endpoint has now, in percent, and when that
/// changes by itself.
pub(super) fn share_percent(from_us: u64, now_us: u64, slow_start: Duration) -> (u32, Option<u64>) {
    let slow_start_us = Span::from(slow_start).as_micros();
    if from_us == u64::MAX {
        return (0, None);
    }
    if now_us < from_us {
        return (0, Some(from_us));
    }
    let back_us = now_us - from_us;
    if from_us == 0 || back_us >= slow_start_us {
        return (100, None);
    }
    let grown = u128::from(back_us) * 100 / u128::from(slow_start_us);
    let percent = u64::try_from(grown).unwrap_or(100).max(FIRST_PERCENT);
    let next_us = now_us.saturating_add((slow_start_us / STEPS).max(1));
    (u32::try_from(percent).unwrap_or(100), Some(next_us))
}

#[cfg(test)]
mod tests;

//! Whether an endpoint may get requests, and which share of them. Pure: time is an
//! argument, in microseconds since the upstream was made.
//!
//! Two things decide. Active checks take an endpoint out of service after several
//! failures in a row, and put it back after several successes. Requests that fail in a
//! row eject it for a period, which doubles if the next ejection follows soon.

use std::time::Duration;

use tollgate_core::time::Span;

use super::settings::{CheckSettings, EjectSettings, UpstreamSettings};

/// How often the period of an ejection may double.
const MAX_DOUBLINGS: u32 = 3;
/// The share of its weight with which an endpoint starts, in percent.
const FIRST_PERCENT: u64 = 10;
/// Number of steps in which the weight grows.
const STEPS: u64 = 20;

/// The health of one endpoint.
#[derive(Clone, Debug, Default)]
pub struct HealthState {
    /// Whether checks have taken it out of service.
    is_down: bool,
    /// Checks in a row with a result that contradicts `is_down`.
    streak: u32,
    /// When its last ejection ends or ended.
    ejected_until_us: u64,
    /// The period of that ejection.
    ejected_for_us: u64,
    /// How often that period was doubled.
    doublings: u32,
    /// Since when it is back in service, or new; 0 if it is neither.
    back_since_us: u64,
}

/// A change of an endpoint's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthChange {
    /// Checks have taken it out of service.
    Down,
    /// Checks have put it back in service.
    Up,
    /// It is ejected for this period.
    Ejected(Duration),
}

/// Which judgements of an endpoint's health a change of settings leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptHealth {
    /// Those of active checks.
    pub of_checks: bool,
    /// Ejections, which requests cause.
    pub of_requests: bool,
}

impl KeptHealth {
    /// Which judgements still hold. What was learned by connections of another kind or by another check
    /// may be what the change mends.
    pub fn between(old: &UpstreamSettings, new: &UpstreamSettings) -> Self {
        let connects_alike = old.tls == new.tls && old.connect_timeout == new.connect_timeout;
        let asks_alike = match (&old.check, &new.check) {
            (Some(old), Some(new)) => old.path == new.path && old.timeout == new.timeout,
            _ => false,
        };
        Self {
            of_checks: connects_alike && asks_alike,
            of_requests: connects_alike && old.eject.is_some() && new.eject.is_some(),
        }
    }
}

impl HealthState {
    /// What is left of it after a change of settings.
    pub fn kept(&self, kept: KeptHealth) -> Self {
        let mut health = self.clone();
        if !kept.of_checks {
            health.is_down = false;
            health.streak = 0;
        }
        if !kept.of_requests {
            health.ejected_until_us = 0;
            health.ejected_for_us = 0;
            health.doublings = 0;
        }
        health
    }

    /// An endpoint that was added to others.
    pub fn new_at(now_us: u64) -> Self {
        Self { back_since_us: now_us, ..Self::default() }
    }

    /// Records the result of a check.
    pub fn check(
        &mut self,
        is_healthy: bool,
        settings: &CheckSettings,
        now_us: u64,
    ) -> Option<HealthChange> {
        if is_healthy != self.is_down {
            self.streak = 0;
            return None;
        }
        self.streak += 1;
        let needed = if self.is_down { settings.rise } else { settings.fall };
        if self.streak < needed {
            return None;
        }
        self.streak = 0;
        self.is_down = !is_healthy;
        if self.is_down {
            return Some(HealthChange::Down);
        }
        self.back_since_us = now_us;
        Some(HealthChange::Up)
    }

    /// Ejects it after requests have failed in a row; none if it is already ejected.
    pub fn eject(&mut self, settings: &EjectSettings, now_us: u64) -> Option<HealthChange> {
        if self.is_ejected(now_us) {
            return None;
        }
        // The period doubles unless the endpoint was in service for as long as it was
        // ejected.
        let in_service_us = now_us.saturating_sub(self.ejected_until_us);
        let is_soon = self.ejected_for_us > 0 && in_service_us < self.ejected_for_us;
        self.doublings = if is_soon { (self.doublings + 1).min(MAX_DOUBLINGS) } else { 0 };
        self.ejected_for_us =
            Span::from(settings.period).as_micros().saturating_mul(1 << self.doublings);
        self.ejected_until_us = now_us.saturating_add(self.ejected_for_us);
        Some(HealthChange::Ejected(Duration::from_micros(self.ejected_for_us)))
    }

    /// Whether it is ejected now.
    pub fn is_ejected(&self, now_us: u64) -> bool {
        now_us < self.ejected_until_us
    }

    /// Whether checks have taken it out of service.
    pub fn is_down(&self) -> bool {
        self.is_down
    }

    /// The time from which on it may get requests: 0 for always, [`u64::MAX`] for not
    /// before the next change.
    pub fn in_service_from_us(&self) -> u64 {
        if self.is_down { u64::MAX } else { self.ejected_until_us.max(self.back_since_us) }
    }
}

/// Whether one more of `endpoints` may be ejected when `ejected` of them already are.
pub fn may_eject(ejected: usize, endpoints: usize, max_percent: u8) -> bool {
    (ejected + 1).saturating_mul(100) <= endpoints.saturating_mul(usize::from(max_percent))
}

/// The share of its weight that an endpoint has now, in percent, and the time at which
/// that share changes next, if time alone changes it.
pub fn share_percent(from_us: u64, now_us: u64, slow_start: Duration) -> (u32, Option<u64>) {
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

//! A level that falls steadily. The token bucket and the queue use it.
//!
//! A unit has as many parts as the window W has microseconds, and in every microsecond as
//! many parts leak as the limit L has units. Both are integers, so W/L may be any fraction
//! and no error accumulates.

use super::{Quota, ratio};
use crate::time::{Span, Timestamp};

/// A height, and the time of its measurement.
#[derive(Clone, Copy)]
pub(super) struct Level {
    pub(super) as_of: Timestamp,
    pub(super) parts: u128,
}

/// Converts units to parts.
pub(super) fn parts(units: u64, quota: Quota) -> u128 {
    ratio::product(units, quota.window().as_micros())
}

impl Level {
    /// The height at `now`. If the clock ran backwards, nothing has leaked yet.
    pub(super) fn at(self, now: Timestamp, quota: Quota) -> Self {
        let leaked = ratio::product(now.since(self.as_of).as_micros(), quota.limit());
        match self.parts.saturating_sub(leaked) {
            0 => Self { as_of: now, parts: 0 },
            parts => Self { as_of: now.max(self.as_of), parts },
        }
    }

    /// The number of whole units that fit below `capacity`.
    pub(super) fn room(self, capacity: u128, quota: Quota) -> u64 {
        ratio::floor(capacity.saturating_sub(self.parts), quota.window().as_micros())
    }

    /// The time until the height is `parts`.
    pub(super) fn time_to(self, parts: u128, quota: Quota) -> Span {
        Span::from_micros(ratio::ceil(self.parts.saturating_sub(parts), quota.limit()))
    }

    /// The point in time at which the height is `parts`.
    pub(super) fn falls_to(self, parts: u128, quota: Quota) -> Timestamp {
        self.as_of.plus(self.time_to(parts, quota))
    }

    /// The level with `parts` added, but not raised above `most`.
    pub(super) fn raised(self, parts: u128, most: u128) -> Self {
        let raised = self.parts.saturating_add(parts).min(most);
        Self { parts: self.parts.max(raised), ..self }
    }
}

//! A clock that runs evenly and follows the wall clock slowly. Pure.
//!
//! The system's wall clock may jump: an operator sets it, NTP corrects it, or a virtual
//! machine or a laptop was suspended. Counters store times. If the wall clock is an hour
//! ahead for a moment, the units that are counted in this moment would count for an
//! additional hour. So decisions use this clock instead. It counts the microseconds of a
//! monotonic clock, and compares itself with the wall clock at intervals:
//!
//! - It corrects a difference at a tenth of the speed: while the clock follows, one of its
//!   seconds lasts 0.9 to 1.1 seconds. So a jump that is reverted changes the clock by a
//!   tenth of the jump's duration.
//! - If the wall clock is ahead for [`HOLD`], the clock makes one step forward, by the
//!   smallest difference in this time.
//! - If the wall clock is behind, the clock runs slower until they agree. It does not go
//!   back, because counted units would count for longer. If it is more than [`SLOWEST`]
//!   behind for [`HOLD`], the clock does step back, and everything that was counted under
//!   the wrong time must be forgotten.
//!
//! So the clock never goes back by less than [`SLOWEST`], and in the long run it agrees
//! with the wall clock.

use super::{Span, Timestamp};

/// The time for which the wall clock must differ before the clock steps. It is longer than
/// the polling interval of most NTP clients.
pub const HOLD: Span = Span::from_secs(60);
/// The largest difference that is corrected by running slower, which takes ten times as
/// long.
pub const SLOWEST: Span = Span::from_secs(600);
/// A smaller difference is corrected within a second and does not count as lasting.
const TOLERANCE: Span = Span::from_millis(100);
/// The relative change of speed while the clock follows.
const SLEW: u64 = 10;

/// The state of the clock after its last comparison with the wall clock.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    course: Course,
    differs: Option<Difference>,
    /// The number of steps back.
    #[cfg(test)]
    steps_back: u64,
}

/// The course of the clock until the next comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Course {
    /// The monotonic time at the beginning of the course.
    pub(crate) from: Span,
    /// The time of the clock at the beginning of the course.
    pub(crate) at: Timestamp,
    /// The lead of the wall clock at the beginning of the course, in microseconds.
    pub(crate) ahead_us: i64,
}

/// A lasting difference.
#[derive(Clone, Copy, Debug)]
struct Difference {
    since: Span,
    is_ahead: bool,
    /// Its smallest absolute value.
    least: Span,
}

impl Course {
    /// The time of the clock at this monotonic time.
    pub(crate) fn at(&self, monotonic: Span) -> Timestamp {
        let passed_us = monotonic.as_micros().saturating_sub(self.from.as_micros());
        let follows = Span::from_micros((passed_us / SLEW).min(self.ahead_us.unsigned_abs()));
        let even = self.at.plus(Span::from_micros(passed_us));
        if self.ahead_us < 0 { even.minus(follows) } else { even.plus(follows) }
    }

    /// The time of the wall clock at this monotonic time, if it has not jumped since the beginning
    /// of the course.
    pub(crate) fn wall(&self, monotonic: Span) -> Timestamp {
        let passed_us = monotonic.as_micros().saturating_sub(self.from.as_micros());
        let even = self.at.plus(Span::from_micros(passed_us));
        let ahead = Span::from_micros(self.ahead_us.unsigned_abs());
        if self.ahead_us < 0 { even.minus(ahead) } else { even.plus(ahead) }
    }
}

impl Follower {
    /// A clock with the time of the wall clock.
    pub(crate) const fn new(monotonic: Span, wall: Timestamp) -> Self {
        let course = Course { from: monotonic, at: wall, ahead_us: 0 };
        Self {
            course,
            differs: None,
            #[cfg(test)]
            steps_back: 0,
        }
    }

    /// The course of the clock until the next comparison.
    pub(crate) const fn course(&self) -> Course {
        self.course
    }

    #[cfg(test)]
    pub(crate) const fn steps_back(&self) -> u64 {
        self.steps_back
    }

    /// Compares the clock with the wall clock, and begins a new course.
    pub(crate) fn look(&mut self, monotonic: Span, wall: Timestamp) {
        let mut at = self.course.at(monotonic);
        let is_ahead = wall > at;
        let gap = if is_ahead { wall.since(at) } else { at.since(wall) };
        let differs = (gap > TOLERANCE).then(|| match self.differs {
            Some(it) if it.is_ahead == is_ahead => Difference { least: it.least.min(gap), ..it },
            _ => Difference { since: monotonic, is_ahead, least: gap },
        });
        self.differs = differs;
        let held = differs.filter(|Difference { since, .. }| {
            monotonic.as_micros().saturating_sub(since.as_micros()) >= HOLD.as_micros()
        });
        if let Some(Difference { least, .. }) = held {
            self.differs = None;
            if is_ahead {
                at = at.plus(least);
            } else if least > SLOWEST {
                at = at.minus(least);
                #[cfg(test)]
                {
                    self.steps_back += 1;
                }
            }
        }
        let ahead = i128::from(wall.as_micros()) - i128::from(at.as_micros());
        let ahead_us = i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX });
        self.course = Course { from: monotonic, at, ahead_us };
    }
}

#[cfg(test)]
mod tests;

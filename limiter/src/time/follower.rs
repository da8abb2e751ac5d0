//! A clock that runs evenly and follows the wall clock slowly. Pure.
//!
//! The system's wall clock may jump: an operator sets it, NTP corrects it, a
//! virtual machine or a laptop was suspended. Counters remember times. If the
//! wall clock is an hour ahead for a moment, what is counted in this moment
//! would hold for an hour more. So decisions go by this clock instead. It counts
//! the microseconds of a monotonic clock and compares itself with the wall clock
//! now and then:
//!
//! - A difference is made up for at a tenth of the speed: while the clock
//!   follows, a second of it lasts 0.9 to 1.1 seconds. So a jump that is taken
//!   back moves it by a tenth of the time for which the jump lasted.
//! - Where the wall clock is ahead for [`HOLD`], the clock makes one step
//!   forward, by the least that it was ahead in this time.
//! - Where the wall clock is behind, the clock goes slower until they meet. It
//!   does not go back, because what was counted would hold for longer. If it is
//!   more than [`SLOWEST`] behind for [`HOLD`], the clock does step back; then
//!   what was counted under the wrong time must be forgotten.
//!
//! So it never goes back by less than [`SLOWEST`], and in the long run it is the
//! wall clock.

use super::{Span, Timestamp};

/// How long the wall clock must differ before a step is made. Longer than the
/// pause between two looks of most NTP clients at their servers.
pub const HOLD: Span = Span::from_secs(60);
/// The most that the clock makes up for by going slower, which takes ten times
/// as long.
pub const SLOWEST: Span = Span::from_secs(600);
/// A smaller difference is made up for within a second and does not count as lasting.
const TOLERANCE: Span = Span::from_millis(100);
/// The part of the speed that is given up, or added, to follow.
const SLEW: u64 = 10;

/// The clock, as of its last look at the wall clock.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    course: Course,
    differs: Option<Difference>,
    /// How often it has gone back.
    #[cfg(test)]
    steps_back: u64,
}

/// How the clock runs until the next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Course {
    /// The monotonic time at its beginning.
    pub(crate) from: Span,
    /// What the clock showed then.
    pub(crate) at: Timestamp,
    /// How far the wall clock was ahead then, in microseconds.
    pub(crate) ahead_us: i64,
}

/// A difference that lasts.
#[derive(Clone, Copy, Debug)]
struct Difference {
    since: Span,
    is_ahead: bool,
    /// The least that it was.
    least: Span,
}

impl Course {
    /// What the clock shows at this monotonic time.
    pub(crate) fn at(&self, monotonic: Span) -> Timestamp {
        let passed_us = monotonic.as_micros().saturating_sub(self.from.as_micros());
        let follows = Span::from_micros((passed_us / SLEW).min(self.ahead_us.unsigned_abs()));
        let even = self.at.plus(Span::from_micros(passed_us));
        if self.ahead_us < 0 { even.minus(follows) } else { even.plus(follows) }
    }
}

impl Follower {
    /// A clock that shows what the wall clock shows.
    pub(crate) const fn new(monotonic: Span, wall: Timestamp) -> Self {
        let course = Course { from: monotonic, at: wall, ahead_us: 0 };
        Self {
            course,
            differs: None,
            #[cfg(test)]
            steps_back: 0,
        }
    }

    /// How the clock runs until the next look.
    pub(crate) const fn course(&self) -> Course {
        self.course
    }

    #[cfg(test)]
    pub(crate) const fn steps_back(&self) -> u64 {
        self.steps_back
    }

    /// Compares the clock with the wall clock, and goes on from here.
    pub(crate) fn look(&mut self, monotonic: Span, wall: Timestamp) {
        let mut at = self.course.at(monotonic);
        let is_ahead = wall > at;
        let gap = if is_ahead { wall.since(at) } else { at.since(wall) };
        let differs = (gap > TOLERANCE).then(|| match self.differs {
            Some(it) if it.is_ahead == is_ahead => Difference { least: it.least.min(gap), ..it },
            _ => Difference { since: monotonic, is_ahead, least: gap },
        });
        self.differs = differs;
        if let Some(Difference { since, least, .. }) = differs
            && monotonic.as_micros().saturating_sub(since.as_micros()) >= HOLD.as_micros()
        {
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

//! The clocks of decisions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::process;
use super::system::{monotonic, wall};
use super::{Moment, Span, Timestamp};

/// The source of the present time for decisions.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The clock of this process. It runs evenly, and follows the system's real-time clock
    /// slowly. It goes back only if the system's clock is more than
    /// [`SLOWEST`](super::SLOWEST) behind it for [`HOLD`](super::HOLD).
    #[default]
    System,
    /// A clock that advances only by [`Clock::advance`]. Clones share it.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// A manual clock that shows `start`.
    pub fn manual(start: Timestamp) -> Self {
        Self::Manual(Arc::new(AtomicU64::new(start.as_micros())))
    }

    /// The current time. It is read once per request, when the request arrives.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => process::now(),
            Self::Manual(us) => Timestamp::from_micros(us.load(Ordering::Relaxed)),
        }
    }

    /// The current moment.
    pub fn moment(&self) -> Moment {
        match self {
            Self::System => process::moment(),
            Self::Manual(_) => {
                Moment { now: self.now(), wall: self.wall(), monotonic: monotonic() }
            }
        }
    }

    /// The time of the wall clock, which may jump. A manual clock is its own wall clock.
    pub fn wall(&self) -> Timestamp {
        match self {
            Self::System => wall(),
            Self::Manual(_) => self.now(),
        }
    }

    /// Advances a manual clock. Has no effect on the system's clock.
    pub fn advance(&self, span: Span) {
        if let Self::Manual(us) = self {
            us.fetch_add(span.as_micros(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_same_on_all_clocks() {
        let clock = Clock::manual(Timestamp::from_micros(7));
        let Moment { now, wall, .. } = clock.moment();
        assert_eq!((now, wall), (clock.now(), clock.wall()));
        let before = (Clock::System.now(), monotonic());
        let Moment { now, wall, monotonic: at } = Clock::System.moment();
        assert!((before.0..=Clock::System.now()).contains(&now));
        assert!((before.1..=monotonic()).contains(&at));
        // No more than the system's clock may jump meanwhile.
        let is_near = |other: Timestamp| wall.since(other).max(other.since(wall)) < Span::SECOND;
        assert!(is_near(Clock::System.wall()), "{wall} is not {}", Clock::System.wall());
    }

    #[test]
    fn clones_of_a_manual_clock_move_together() {
        let clock = Clock::manual(Timestamp::from_micros(1));
        let twin = clock.clone();
        clock.advance(Span::SECOND);
        assert_eq!(twin.now(), Timestamp::from_micros(1_000_001));
    }
}

//! The clocks that decisions go by.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::process;
use super::system::wall;
use super::{Span, Timestamp};

/// Where the present comes from, for decisions.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The clock of this process: it runs evenly, and follows the system's
    /// real-time clock slowly. It goes back only where the system's clock is more
    /// than [`SLOWEST`](super::SLOWEST) behind it for [`HOLD`](super::HOLD).
    #[default]
    System,
    /// A clock that only moves when told to; clones share it.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// A manual clock that shows `start`.
    pub fn manual(start: Timestamp) -> Self {
        Self::Manual(Arc::new(AtomicU64::new(start.as_micros())))
    }

    /// The present. Read once a request, at the edge.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => process::now(),
            Self::Manual(us) => Timestamp::from_micros(us.load(Ordering::Relaxed)),
        }
    }

    /// What the wall clock shows, which may jump. A manual clock is its own.
    pub fn wall(&self) -> Timestamp {
        match self {
            Self::System => wall(),
            Self::Manual(_) => self.now(),
        }
    }

    /// Moves a manual clock forward; the system's clock moves by itself.
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
    fn clones_of_a_manual_clock_move_together() {
        let clock = Clock::manual(Timestamp::from_micros(1));
        let twin = clock.clone();
        clock.advance(Span::SECOND);
        assert_eq!(twin.now(), Timestamp::from_micros(1_000_001));
    }
}

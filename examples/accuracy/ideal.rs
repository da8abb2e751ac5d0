//! The ideal sliding window, by its definition: a list of everything admitted,
//! from which what is a window old falls out. Slow, and plainly right.

use std::collections::VecDeque;

use tollgate::time::Timestamp;

use crate::{LIMIT, WINDOW};

/// What was admitted in the last window.
#[derive(Default)]
pub(crate) struct Ideal {
    admitted: VecDeque<Timestamp>,
}

impl Ideal {
    /// Whether one more is within the limit.
    pub(crate) fn has_room(&mut self, now: Timestamp) -> bool {
        while self.admitted.front().is_some_and(|first| first.plus(WINDOW) <= now) {
            self.admitted.pop_front();
        }
        self.count() < LIMIT
    }

    /// One more was admitted.
    pub(crate) fn admit(&mut self, now: Timestamp) {
        self.admitted.push_back(now);
    }

    /// How many it holds.
    pub(crate) fn count(&self) -> u64 {
        u64::try_from(self.admitted.len()).expect("a count of what is in memory")
    }
}

//! The ideal sliding window, by its definition: a list of all admitted requests.
//! Requests older than a window leave the list. It is slow, and obviously correct.

use std::collections::VecDeque;

use tollgate_core::time::Timestamp;

use crate::{LIMIT, WINDOW};

/// The requests that were admitted in the last window.
#[derive(Default)]
pub(crate) struct Ideal {
    admitted: VecDeque<Timestamp>,
}

impl Ideal {
    /// Whether one more request is within the limit.
    pub(crate) fn has_room(&mut self, now: Timestamp) -> bool {
        while self.admitted.front().is_some_and(|first| first.plus(WINDOW) <= now) {
            self.admitted.pop_front();
        }
        self.count() < LIMIT
    }

    /// Adds an admitted request.
    pub(crate) fn admit(&mut self, now: Timestamp) {
        self.admitted.push_back(now);
    }

    /// The number of requests in the list.
    pub(crate) fn count(&self) -> u64 {
        u64::try_from(self.admitted.len()).expect("a count of what is in memory")
    }
}

//! Where a limiter for all threads counts.

use std::sync::Arc;

use super::lane::Lane;
use crate::decision::{Ending, Judge, Lease};
use crate::store::MemoryStore;
use crate::time::Clock;

/// Where a limiter for all threads counts, and by which clock.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) clock: Clock,
    pub(super) place: Place,
}

#[derive(Debug)]
pub(super) enum Place {
    Memory(Arc<MemoryStore>),
    Lanes(Box<[Lane]>),
}

impl Counters {
    /// Settles what a request owes: on the lane that has judged it, because only that
    /// lane knows what the request has in flight.
    pub(super) fn end(&self, lease: Lease, ending: &Ending<'_>) {
        if lease.is_empty() {
            return;
        }
        let now = self.clock.now();
        match &self.place {
            Place::Memory(memory) => Judge::in_memory(memory).end(&lease, ending, now),
            Place::Lanes(lanes) => lane_of(lease.spread(), lanes).end(lease, ending, now),
        }
    }
}

/// The lane of requests whose claims have this spread.
pub(super) fn lane_of(spread: u128, lanes: &[Lane]) -> &Lane {
    let count = u128::try_from(lanes.len()).expect("a usize has 64 bits at most");
    let index = usize::try_from(spread % count).expect("it is below a usize");
    &lanes[index]
}

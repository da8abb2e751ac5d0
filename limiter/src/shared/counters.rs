//! The counters of a limiter for all threads.

use std::sync::Arc;

use super::lane::Lane;
use crate::decision::{Ending, Judge, Lease};
use crate::store::MemoryStore;
use crate::time::Clock;

/// The store of a limiter for all threads, and its clock.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) clock: Clock,
    pub(super) storage: Storage,
}

#[derive(Debug)]
pub(super) enum Storage {
    Memory(Arc<MemoryStore>),
    Lanes(Box<[Lane]>),
}

impl Counters {
    /// Settles a request on the lane that has judged it, because only that lane knows the
    /// request's units in flight.
    pub(super) fn end(&self, lease: Lease, ending: &Ending<'_>) {
        if lease.is_empty() {
            return;
        }
        let now = self.clock.now();
        match &self.storage {
            Storage::Memory(memory) => Judge::in_memory(memory).end(&lease, ending, now),
            Storage::Lanes(lanes) => lane_of(lease.spread(), lanes).end(lease, ending, now),
        }
    }
}

/// The lane for requests whose claims have this spread.
pub(super) fn lane_of(spread: u128, lanes: &[Lane]) -> &Lane {
    let count = u128::try_from(lanes.len()).expect("a usize has at most 64 bits");
    let index = usize::try_from(spread % count).expect("an index below the count is a usize");
    &lanes[index]
}

//! The number of keys that have not expired, counted a part of the store at a time.
//!
//! Keys expire without an event, so only reading the slots tells how many are left. A store
//! of a million keys is too large to be read at once. Each step reads a part of bounded size
//! and replaces the number that the part had before. The sum is exact for a store that does
//! not change, after one round of steps. In another one, the number of a part is as old as one
//! round at most.

use super::MemoryStore;
use crate::time::Timestamp;

/// The groups that are read under one lock: their expiries are 16 KiB.
const GROUPS_PER_PART: usize = 256;
/// The groups after which a step ends: 65,536 slots.
pub(super) const GROUPS_PER_STEP: usize = 4096;

/// The number of live keys of one [`MemoryStore`].
#[derive(Debug, Default)]
pub struct KeyCount {
    /// The last number of each part, in the order of the shards.
    parts: Vec<u32>,
    /// The part that is read next.
    next: usize,
    sum: usize,
}

impl KeyCount {
    /// Reads the next part of the store, of at most 69,632 slots. Call it at intervals,
    /// always for the same store. A round takes one call for each 57,000 keys for which the
    /// store has room. Returns how many slots it has read.
    pub fn step(&mut self, store: &MemoryStore, now: Timestamp) -> usize {
        let parts_per_shard = store.groups.div_ceil(GROUPS_PER_PART);
        self.parts.resize(store.shards.len() * parts_per_shard, 0);
        let mut groups = 0;
        for _ in 0..self.parts.len() {
            let (shard, part) = (self.next / parts_per_shard, self.next % parts_per_shard);
            let first = part * GROUPS_PER_PART;
            let part = first..store.groups.min(first + GROUPS_PER_PART);
            groups += part.len();
            let live = store.shards[shard].lock().live_in(part, now);
            let known = &mut self.parts[self.next];
            self.sum = self.sum + live - usize::try_from(*known).unwrap_or(0);
            *known = u32::try_from(live).expect("a part has 4,096 slots");
            self.next = (self.next + 1) % self.parts.len();
            if groups >= GROUPS_PER_STEP {
                break;
            }
        }
        groups * super::WAYS
    }

    /// The number of keys whose state has not expired, with a tolerance of one second, at the
    /// time of their step. Units in flight are counted at once.
    pub fn live(&self, store: &MemoryStore) -> usize {
        self.sum + store.shards.iter().map(|shard| shard.lock().held()).sum::<usize>()
    }
}

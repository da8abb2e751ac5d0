//! The number of keys that have not expired, counted a part of the store at a time.
//!
//! Keys expire without an event, so only reading the slots tells how many are left. A store
//! of a million keys is too large to be read at once. Each step reads a part of bounded size
//! and replaces the number that the part had before. The sum is exact for a store that does
//! not change, after one round of steps. In another one, the number of a part is as old as one
//! round at most.

use std::ops::Range;

use super::shard::WAYS;

/// The groups that are read under one lock: their expiries are 16 KiB.
const GROUPS_PER_PART: usize = 256;
/// The groups after which a step ends: 65,536 slots.
pub(super) const GROUPS_PER_STEP: usize = 4096;

/// The number of live keys of one [`MemoryStore`](super::MemoryStore), see
/// [`count_keys`](super::MemoryStore::count_keys).
#[derive(Debug, Default)]
pub struct KeyCount {
    /// The last number of each part, in the order of the shards.
    parts: Vec<u32>,
    /// The part that is read next.
    next: usize,
    sum: usize,
}

impl KeyCount {
    /// Reads the next part of a store with so many shards, each with so many groups. `live`
    /// counts the live keys in groups of a shard. Returns how many slots were read.
    pub(super) fn step(
        &mut self,
        shards: usize,
        groups: usize,
        mut live: impl FnMut(usize, Range<usize>) -> usize,
    ) -> usize {
        let parts_per_shard = groups.div_ceil(GROUPS_PER_PART);
        self.parts.resize(shards * parts_per_shard, 0);
        let mut read = 0;
        for _ in 0..self.parts.len() {
            let shard = self.next / parts_per_shard;
            let part = self.next % parts_per_shard;
            let first = part * GROUPS_PER_PART;
            let part = first..groups.min(first + GROUPS_PER_PART);
            read += part.len();
            let live = live(shard, part);
            let known = &mut self.parts[self.next];
            self.sum = self.sum + live - usize::try_from(*known).unwrap_or(0);
            *known = u32::try_from(live).expect("a part has 4,096 slots");
            self.next = (self.next + 1) % self.parts.len();
            if read >= GROUPS_PER_STEP {
                break;
            }
        }
        read * WAYS
    }

    /// The sum of all parts.
    pub(super) const fn sum(&self) -> usize {
        self.sum
    }
}

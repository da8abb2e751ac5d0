//! One shard: a set-associative table of fixed size.
//!
//! A key belongs to two groups of sixteen slots. It is stored in the group with more free
//! slots (Y. Azar, A. Broder, A. Karlin, E. Upfal, "Balanced allocations"). No state is ever
//! moved, and the table can be filled to nine tenths. A slot whose state has expired is free,
//! so no sweep is needed.
//!
//! A large table has near groups too: few enough that their pages stay in the caches of the
//! processor. A key also belongs to one of them, and is stored there if it has a free slot. So
//! some thousand keys do not spread over a table for a million. A lookup reads at most 48 slots.
//!
//! If all of these slots are in use, the state with the least debt is forgotten: its client gets the
//! smallest part of its limit a second time (see [`weight`](super::weight)). In a flood of new
//! keys that are used once, these keys replace each other. They do not replace keys in debt,
//! whatever the windows of both are. Forgotten states are counted.
//!
//! Units in flight must never be forgotten, because otherwise more than their limit would be
//! in flight. They are stored in a map beside the table, from which no other key removes them.
//! It stores as many keys as the table has slots. If it is full, a key without units in flight
//! is refused.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use super::packed::Packed;
use super::place::Place;
use super::promises::Promises;
use super::slab::Slab;
use super::weight::{WHOLE, Weight};
use crate::algorithm::State;
use crate::time::Timestamp;

/// The number of slots in a group.
pub(super) const WAYS: usize = 16;
/// The size of a key and state, a weight, a tag and an expiry.
#[cfg(test)]
pub(super) const SLOT_BYTES: usize = 32 + 1 + 1 + 4;

/// A state to store in a slot.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) state: State,
    pub(super) expires_at: Timestamp,
    /// How much of the limit is used.
    pub(super) weight: Weight,
}

/// A slot of a shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    group: usize,
    way: usize,
}

/// Tags, weights, expiries and entries of sixteen slots.
///
/// A weight is stored as its code. An expiry is in seconds since the epoch, rounded up; 0 is
/// an empty slot. An entry is a key and a packed state. The group is a tuple of plain numbers
/// and not a structure, because the system allocates such tuples as zero pages, which take no
/// memory before they are used.
type Group = ([u8; WAYS], [u8; WAYS], [u32; WAYS], [(u128, u128); WAYS]);

/// A table of fixed size.
#[derive(Debug)]
pub(super) struct Shard {
    groups: Box<[Group]>,
    large: Slab,
    pub(super) promises: Promises,
    /// Units in flight by key.
    held: HashMap<u128, u64>,
    forgiven_states: u64,
    /// The debts of forgotten states. [`WHOLE`] is one limit.
    forgiven_debt: u128,
}

/// The states that were forgotten because no slot was free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgiven {
    /// The number of states that had not ended.
    pub states: u64,
    /// The units that they counted, in thousandths of a limit. 1000 is one client that has its
    /// whole limit a second time, or two clients that have half of it. Each state is measured
    /// with an error of at most a quarter.
    pub milli_limits: u64,
}

impl Shard {
    /// `shards` is the number of shards of the store.
    pub(super) fn new(groups: usize, shards: usize) -> Self {
        let empty = ([0; WAYS], [0; WAYS], [0; WAYS], [(0, 0); WAYS]);
        Self {
            groups: vec![empty; groups].into_boxed_slice(),
            large: Slab::default(),
            promises: Promises::new(shards),
            held: HashMap::new(),
            forgiven_states: 0,
            forgiven_debt: 0,
        }
    }

    /// The state of a key whose slot is `slot`. It may have expired, which the algorithm
    /// detects.
    pub(super) fn state(&self, place: &Place, slot: Option<Slot>) -> Option<Cow<'_, State>> {
        let Some(Slot { group, way }) = slot else {
            let units = *self.held.get(&place.key)?;
            return Some(Cow::Owned(State::InFlight { units }));
        };
        match Packed::from_bits(self.groups[group].3[way].1) {
            Packed::Small(state) => Some(Cow::Owned(state)),
            Packed::Large(index) => self.large.get(index).map(Cow::Borrowed),
        }
    }

    /// The slot of a key. It is valid until another key is stored.
    pub(super) fn find(&self, place: &Place) -> Option<Slot> {
        let near = place.near.and_then(|group| self.find_in(place, [group]));
        near.or_else(|| self.find_in(place, place.groups))
    }

    fn find_in<const N: usize>(&self, place: &Place, groups: [usize; N]) -> Option<Slot> {
        // All groups are requested before one is read, so that their cache misses overlap.
        let candidates = groups.map(|group| equal_bytes(self.groups[group].0, place.tag));
        groups.into_iter().zip(candidates).find_map(|(group, mut candidates)| {
            let (_, _, expiries_s, entries) = &self.groups[group];
            while candidates != 0 {
                let way = usize::try_from(candidates.trailing_zeros() / 8).ok()?;
                if entries[way].0 == place.key && expiries_s[way] != 0 {
                    return Some(Slot { group, way });
                }
                candidates &= candidates - 1;
            }
            None
        })
    }

    /// Whether units in flight of this key can be stored.
    pub(super) fn can_hold(&self, place: &Place) -> bool {
        self.held.len() < self.groups.len() * WAYS || self.held.contains_key(&place.key)
    }

    /// Stores the state of a key whose slot is `slot`. Forgets the key if the state has
    /// expired or is empty.
    pub(super) fn put(
        &mut self,
        place: &Place,
        slot: Option<Slot>,
        record: Record,
        now: Timestamp,
    ) {
        if let State::InFlight { units } = record.state {
            match units {
                0 => self.held.remove(&place.key),
                _ => self.held.insert(place.key, units),
            };
            return;
        }
        if record.expires_at <= now {
            if let Some(slot) = slot {
                self.release(slot);
            }
            return;
        }
        let slot = slot.unwrap_or_else(|| self.choose(place, seconds(now)));
        self.release(slot);
        let packed = Packed::Small(record.state);
        let bits = packed.bits().or_else(|| match packed {
            Packed::Small(state) => Packed::Large(self.large.insert(state)).bits(),
            Packed::Large(_) => None,
        });
        let end_s = record.expires_at.as_micros().div_ceil(1_000_000);
        let Slot { group, way } = slot;
        let (tags, weights, expiries_s, entries) = &mut self.groups[group];
        tags[way] = place.tag;
        weights[way] = record.weight.code();
        expiries_s[way] = u32::try_from(end_s).unwrap_or(u32::MAX);
        entries[way] = (place.key, bits.expect("an index always has a form"));
    }

    /// Forgets the key whose slot is `slot`.
    pub(super) fn forget(&mut self, place: &Place, slot: Option<Slot>) {
        self.held.remove(&place.key);
        if let Some(sample) = place.sample() {
            self.promises.changed(place, sample);
        }
        if let Some(slot) = slot {
            self.release(slot);
        }
    }

    /// Forgets all states except for units in flight.
    pub(super) fn begin_anew(&mut self) {
        self.groups.iter_mut().for_each(|(_, _, expiries_s, _)| *expiries_s = [0; WAYS]);
        self.large = Slab::default();
        self.promises.all_changed();
    }

    /// A free slot of the near group, or of the group with more free slots, or the slot with
    /// the least debt.
    fn choose(&mut self, place: &Place, now_s: u32) -> Slot {
        let is_free = |expiry_s: &u32| *expiry_s <= now_s;
        let expiries_s = |group: usize| self.groups[group].2.iter();
        if let Some(group) = place.near {
            if let Some(way) = expiries_s(group).position(is_free) {
                return Slot { group, way };
            }
        }
        let free = |group: usize| expiries_s(group).filter(|&e| is_free(e)).count();
        let [first, second] = place.groups;
        let group = if free(second) > free(first) { second } else { first };
        if let Some(way) = expiries_s(group).position(is_free) {
            return Slot { group, way };
        }
        let ways = |group| (0..WAYS).map(move |way| Slot { group, way });
        let debt = |&Slot { group, way }: &Slot| {
            let (_, weights, expiries_s, _) = &self.groups[group];
            Weight::from_code(weights[way]).debt(expiries_s[way].saturating_sub(now_s))
        };
        let all = place.near.into_iter().chain(place.groups).flat_map(ways);
        let least = all.min_by_key(debt).expect("a group has slots");
        self.forgiven_states += 1;
        self.forgiven_debt += u128::from(debt(&least));
        least
    }

    fn release(&mut self, Slot { group, way }: Slot) {
        let (_, _, expiries_s, entries) = &mut self.groups[group];
        if std::mem::take(&mut expiries_s[way]) == 0 {
            return;
        }
        if let Packed::Large(index) = Packed::from_bits(entries[way].1) {
            self.large.remove(index);
        }
    }

    /// See [`Forgiven`].
    pub(super) fn forgiven(&self) -> Forgiven {
        let milli_limits = self.forgiven_debt * 1000 / u128::from(WHOLE);
        let milli_limits = u64::try_from(milli_limits).unwrap_or(u64::MAX);
        Forgiven { states: self.forgiven_states, milli_limits }
    }

    /// The number of states in these groups that have not expired, with a tolerance of one
    /// second.
    pub(super) fn live_in(&self, groups: Range<usize>, now: Timestamp) -> usize {
        let now_s = seconds(now);
        let expiries_s = self.groups[groups].iter().flat_map(|(_, _, expiries_s, _)| expiries_s);
        expiries_s.filter(|&&expiry_s| expiry_s > now_s).count()
    }

    /// The number of keys with units in flight.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// See [`Slab::len`].
    #[cfg(test)]
    pub(super) fn large(&self) -> (usize, usize) {
        self.large.len()
    }
}

/// The time in seconds, rounded down, so that no state counts as expired too early.
fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// The highest bit of each byte that equals `wanted`, for all bytes at once. A byte above an
/// equal one may be marked wrongly. This does no harm, because the keys are compared, too.
fn equal_bytes(bytes: [u8; WAYS], wanted: u8) -> u128 {
    let differing = u128::from_le_bytes(bytes) ^ u128::from_le_bytes([wanted; WAYS]);
    let ones = u128::from_le_bytes([0x01; WAYS]);
    let tops = u128::from_le_bytes([0x80; WAYS]);
    differing.wrapping_sub(ones) & !differing & tops
}

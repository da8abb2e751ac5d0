//! One shard: a set-associative table of fixed size.
//!
//! A key belongs in either of two groups of sixteen slots, and is put in the
//! emptier one (Y. Azar, A. Broder, A. Karlin, E. Upfal, "Balanced
//! allocations"). So a lookup looks at 32 slots at most, nothing is ever moved,
//! and the table can be filled to nine tenths. A slot whose state has expired
//! is free: nothing needs to sweep.
//!
//! When all 32 slots are taken, the state that is worth least is forgotten: the
//! one with the least time left, weighted by the share of its limit that is
//! used. A flood of new keys, each used once, so pushes itself out, and not
//! those that are in debt. What was forgotten is counted.

use std::borrow::Cow;

use super::packed::Packed;
use super::slab::Slab;
use crate::algorithm::State;
use crate::time::Timestamp;

/// Slots in a group.
pub(super) const WAYS: usize = 16;
/// Key and state, share, tag and expiry.
#[cfg(test)]
pub(super) const SLOT_BYTES: usize = 32 + 1 + 1 + 4;

/// Where a key may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) shard: usize,
    pub(super) groups: [usize; 2],
    /// Eight bits of the key, to skip most slots with another one.
    pub(super) tag: u8,
    pub(super) key: u128,
}

/// What a slot is to remember.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) state: State,
    pub(super) expires_at: Timestamp,
    /// How much of the limit is used, from 0 to 255.
    pub(super) share: u8,
}

#[derive(Clone, Copy)]
struct Slot {
    group: usize,
    way: usize,
}

/// A table of fixed size. Its arrays are of plain numbers, so that the system
/// hands them out as zero pages and none is touched before it is used.
#[derive(Debug)]
pub(super) struct Shard {
    tags: Box<[[u8; WAYS]]>,
    /// Seconds since the epoch, rounded up; zero: never used, or emptied.
    expiries_s: Box<[[u32; WAYS]]>,
    shares: Box<[[u8; WAYS]]>,
    /// Keys and packed states.
    entries: Box<[[(u128, u128); WAYS]]>,
    large: Slab,
    forgiven: u64,
}

impl Shard {
    pub(super) fn new(groups: usize) -> Self {
        Self {
            tags: vec![[0; WAYS]; groups].into_boxed_slice(),
            expiries_s: vec![[0; WAYS]; groups].into_boxed_slice(),
            shares: vec![[0; WAYS]; groups].into_boxed_slice(),
            entries: vec![[(0, 0); WAYS]; groups].into_boxed_slice(),
            large: Slab::default(),
            forgiven: 0,
        }
    }

    /// The state kept for a key. It may have expired; the algorithm sees that.
    pub(super) fn state(&self, place: &Place) -> Option<Cow<'_, State>> {
        let Slot { group, way } = self.find(place)?;
        match Packed::from_bits(self.entries[group][way].1) {
            Packed::Small(state) => Some(Cow::Owned(state)),
            Packed::Large(index) => self.large.get(index).map(Cow::Borrowed),
        }
    }

    fn find(&self, place: &Place) -> Option<Slot> {
        place.groups.into_iter().find_map(|group| {
            let mut candidates = equal_bytes(self.tags[group], place.tag);
            while candidates != 0 {
                let way = usize::try_from(candidates.trailing_zeros() / 8).ok()?;
                if self.entries[group][way].0 == place.key && self.expiries_s[group][way] != 0 {
                    return Some(Slot { group, way });
                }
                candidates &= candidates - 1;
            }
            None
        })
    }

    /// Remembers a state, or forgets the key if there is nothing to remember.
    pub(super) fn put(&mut self, place: &Place, record: Record, now: Timestamp) {
        let found = self.find(place);
        if record.expires_at <= now {
            if let Some(slot) = found {
                self.release(slot);
            }
            return;
        }
        let slot = found.unwrap_or_else(|| self.choose(place, seconds(now)));
        self.release(slot);
        let packed = Packed::Small(record.state);
        let bits = packed.bits().or_else(|| match packed {
            Packed::Small(state) => Packed::Large(self.large.insert(state)).bits(),
            Packed::Large(_) => None,
        });
        let Slot { group, way } = slot;
        self.tags[group][way] = place.tag;
        self.shares[group][way] = record.share;
        let end_s = record.expires_at.as_micros().div_ceil(1_000_000);
        self.expiries_s[group][way] = u32::try_from(end_s).unwrap_or(u32::MAX);
        self.entries[group][way] = (place.key, bits.expect("an index always has a form"));
    }

    /// A free slot of the emptier group, or the one whose state is worth least.
    fn choose(&mut self, place: &Place, now_s: u32) -> Slot {
        let is_free = |expiry_s: &u32| *expiry_s <= now_s;
        let free = |group: usize| self.expiries_s[group].iter().filter(|&e| is_free(e)).count();
        let [first, second] = place.groups;
        let group = if free(second) > free(first) { second } else { first };
        if let Some(way) = self.expiries_s[group].iter().position(is_free) {
            return Slot { group, way };
        }
        self.forgiven += 1;
        let slots = [first, second]
            .into_iter()
            .flat_map(|group| (0..WAYS).map(move |way| Slot { group, way }));
        slots
            .min_by_key(|&Slot { group, way }| {
                let left_s = u64::from(self.expiries_s[group][way].saturating_sub(now_s));
                left_s * (1 + u64::from(self.shares[group][way]))
            })
            .expect("a group has slots")
    }

    fn release(&mut self, Slot { group, way }: Slot) {
        if self.expiries_s[group][way] == 0 {
            return;
        }
        if let Packed::Large(index) = Packed::from_bits(self.entries[group][way].1) {
            self.large.remove(index);
        }
        self.expiries_s[group][way] = 0;
    }

    /// States that had not expired and were forgotten for want of room.
    pub(super) fn forgiven(&self) -> u64 {
        self.forgiven
    }

    /// States that have not expired, give or take a second.
    pub(super) fn live(&self, now: Timestamp) -> usize {
        let now_s = seconds(now);
        self.expiries_s.iter().flatten().filter(|&&expiry_s| expiry_s > now_s).count()
    }

    /// See [`Slab::len`].
    #[cfg(test)]
    pub(super) fn large(&self) -> (usize, usize) {
        self.large.len()
    }
}

/// Rounded down, so that no state counts as expired before it is.
fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// The highest bit of every byte that equals `wanted`, all bytes at once. A
/// byte above an equal one may be marked wrongly; the key is compared anyway.
fn equal_bytes(bytes: [u8; WAYS], wanted: u8) -> u128 {
    let differing = u128::from_le_bytes(bytes) ^ u128::from_le_bytes([wanted; WAYS]);
    let ones = u128::from_le_bytes([0x01; WAYS]);
    let tops = u128::from_le_bytes([0x80; WAYS]);
    differing.wrapping_sub(ones) & !differing & tops
}

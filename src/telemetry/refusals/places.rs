//! Which of the last refusals a new one replaces. The time that this takes does not depend on
//! their number.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use smallvec::SmallVec;
use tollgate_core::digest::{DigestHasher, Principal};
use tollgate_core::time::{Span, Timestamp};

/// The most refusals of a ring.
pub const MAX_KEPT: usize = 256;
/// The most of them of one key, so that one client does not push out those of all others.
pub const MAX_OF_KEY: usize = 8;
/// A refusal is not replaced for this long. So during a flood most refusals cost next to nothing,
/// and the list does not change faster than it can be read.
pub const LASTS: Span = Span::from_millis(100);

/// The places of one key, the oldest refusal first.
type OfKey = SmallVec<[usize; MAX_OF_KEY]>;

/// What is known of the refusal in one place.
#[derive(Clone, Copy, Debug)]
struct Slot {
    key: Principal,
    sequence: u64,
    time: Timestamp,
}

/// The places of the refusals of a ring.
#[derive(Debug, Default)]
pub struct Places {
    slots: Vec<Slot>,
    of_keys: HashMap<Principal, OfKey, BuildHasherDefault<DigestHasher>>,
    /// Sequences and places, the oldest first. An entry is stale if the place has another
    /// sequence now.
    order: VecDeque<(u64, usize)>,
}

impl Places {
    /// Whether a refusal of this key at this time is kept: there is room, or the refusal that it
    /// would replace has lasted for [`LASTS`].
    pub fn admits(&mut self, key: Principal, time: Timestamp) -> bool {
        let oldest = self.oldest();
        let is_young = |place: usize| {
            let before = self.slots[place].time;
            time >= before && time.since(before) < LASTS
        };
        // If the oldest one of all is young, so is the oldest one of the key.
        !oldest.is_some_and(is_young) && !self.oldest_of(key).is_some_and(is_young)
    }

    /// Takes a place for a refusal of this key: the place of the oldest one of the key, or of
    /// all, if there are too many. Else it is a new place, which is the last one.
    pub fn take(&mut self, key: Principal, sequence: u64, time: Timestamp) -> usize {
        let place = match self.oldest_of(key).or_else(|| self.oldest()) {
            Some(place) => {
                self.leave(place);
                place
            }
            None => self.slots.len(),
        };
        let slot = Slot { key, sequence, time };
        match self.slots.get_mut(place) {
            Some(old) => *old = slot,
            None => self.slots.push(slot),
        }
        self.of_keys.entry(key).or_default().push(place);
        self.order.push_back((sequence, place));
        if self.order.len() > 2 * MAX_KEPT {
            self.order.retain(|&(sequence, place)| self.slots[place].sequence == sequence);
        }
        place
    }

    /// The place of the oldest refusal of a key that has too many.
    fn oldest_of(&self, key: Principal) -> Option<usize> {
        let of_key = self.of_keys.get(&key)?;
        of_key.first().copied().filter(|_| of_key.len() >= MAX_OF_KEY)
    }

    /// The place of the oldest refusal of all if there are too many.
    fn oldest(&mut self) -> Option<usize> {
        if self.slots.len() < MAX_KEPT {
            return None;
        }
        loop {
            let front = self.order.front();
            let &(sequence, place) = front.expect("each place has a current entry");
            if self.slots[place].sequence == sequence {
                return Some(place);
            }
            self.order.pop_front();
        }
    }

    /// Removes a place from those of its key.
    fn leave(&mut self, place: usize) {
        if let Entry::Occupied(mut of_key) = self.of_keys.entry(self.slots[place].key) {
            of_key.get_mut().retain(|it| *it != place);
            if of_key.get().is_empty() {
                of_key.remove();
            }
        }
    }

    /// The sequence of each place.
    pub fn sequences(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().map(|slot| slot.sequence)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The place that is taken according to the description, found by looking at all.
    fn expected(slots: &[(u64, u64)], key: u64) -> usize {
        let oldest = |is: &dyn Fn(u64) -> bool| {
            let all = slots.iter().enumerate().filter(|(_, (key, _))| is(*key));
            all.min_by_key(|(_, (_, sequence))| *sequence).map(|(place, _)| place)
        };
        let of_key = slots.iter().filter(|(it, _)| *it == key).count();
        match () {
            () if of_key >= MAX_OF_KEY => oldest(&|it| it == key).expect("there are some"),
            () if slots.len() >= MAX_KEPT => oldest(&|_| true).expect("there are some"),
            () => slots.len(),
        }
    }

    proptest! {
        #[test]
        fn the_oldest_refusal_is_replaced(
            many in 1..400_u64,
            draws in prop::collection::vec(any::<u64>(), 1..2000),
        ) {
            let mut places = Places::default();
            let mut slots = Vec::new();
            for (sequence, draw) in (0..).zip(draws) {
                // Half of the refusals are of few keys.
                let key = if draw % 2 == 0 { draw % 5 } else { draw % many };
                let time = Timestamp::from_micros(sequence);
                let place = places.take(Principal::from_bits(key.into()), sequence, time);
                prop_assert_eq!(place, expected(&slots, key));
                slots.resize(slots.len().max(place + 1), (0, 0));
                slots[place] = (key, sequence);
            }
            prop_assert!(places.order.len() <= 2 * MAX_KEPT);
            prop_assert!(places.of_keys.len() <= MAX_KEPT);
            prop_assert!(places.sequences().eq(slots.iter().map(|(_, sequence)| *sequence)));
        }

        #[test]
        fn a_young_refusal_is_not_replaced(
            many in 1..400_u64,
            draws in prop::collection::vec((any::<u64>(), 0..2_000_u64), 1..2000),
        ) {
            let mut places = Places::default();
            let mut slots = Vec::new();
            let mut times = Vec::new();
            let mut now = Timestamp::from_micros(1 << 40);
            for (sequence, (draw, passed_us)) in (0..).zip(draws) {
                now = now.plus(Span::from_micros(passed_us));
                let key = if draw % 2 == 0 { draw % 5 } else { draw % many };
                let place = expected(&slots, key);
                let replaced: Option<&Timestamp> = times.get(place);
                let is_kept = replaced.is_none_or(|time| now.since(*time) >= LASTS);
                let principal = Principal::from_bits(key.into());
                prop_assert_eq!(places.admits(principal, now), is_kept);
                if is_kept {
                    prop_assert_eq!(places.take(principal, sequence, now), place);
                    slots.resize(slots.len().max(place + 1), (0, 0));
                    times.resize(slots.len(), now);
                    (slots[place], times[place]) = ((key, sequence), now);
                }
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_back_stops_nothing() {
        let mut places = Places::default();
        let key = Principal::from_bits(7);
        let time = Timestamp::from_micros(1 << 40);
        for sequence in 0..8 {
            places.take(key, sequence, time);
        }
        assert!(!places.admits(key, time.plus(Span::from_millis(99))));
        assert!(places.admits(key, time.plus(LASTS)));
        assert!(places.admits(key, time.minus(Span::SECOND)));
    }
}

//! Which of the last refusals a new one replaces. The time that this takes does not depend on
//! their number.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use smallvec::SmallVec;
use tollgate_limiter::digest::Principal;

use crate::telemetry::digest_hasher::DigestHasher;

/// The most refusals of a ring.
pub(super) const MAX_KEPT: usize = 256;
/// The most of them of one key, so that one client does not push out those of all others.
pub(super) const MAX_OF_KEY: usize = 8;

/// The places of one key, the oldest refusal first.
type OfKey = SmallVec<[usize; MAX_OF_KEY]>;

/// The keys and sequences of the refusals of a ring, by their places.
#[derive(Debug, Default)]
pub(super) struct Places {
    slots: Vec<(Principal, u64)>,
    of_keys: HashMap<Principal, OfKey, BuildHasherDefault<DigestHasher>>,
    /// Sequences and places, the oldest first. An entry is stale if the place has another
    /// sequence now.
    order: VecDeque<(u64, usize)>,
}

impl Places {
    /// Takes a place for a refusal of this key: the place of the oldest one of the key, or of
    /// all, if there are too many. Else it is a new place, which is the last one.
    pub(super) fn take(&mut self, key: Principal, sequence: u64) -> usize {
        let place = self.place_for(key);
        match self.slots.get_mut(place) {
            Some(slot) => *slot = (key, sequence),
            None => self.slots.push((key, sequence)),
        }
        self.of_keys.entry(key).or_default().push(place);
        self.order.push_back((sequence, place));
        if self.order.len() > 2 * MAX_KEPT {
            self.order.retain(|&(sequence, place)| self.slots[place].1 == sequence);
        }
        place
    }

    fn place_for(&mut self, key: Principal) -> usize {
        if let Some(of_key) = self.of_keys.get_mut(&key)
            && of_key.len() >= MAX_OF_KEY
        {
            return of_key.remove(0);
        }
        if self.slots.len() < MAX_KEPT {
            return self.slots.len();
        }
        let is_current = |&(sequence, place): &(u64, usize)| self.slots[place].1 == sequence;
        let mut oldest = std::iter::from_fn(|| self.order.pop_front());
        let (_, place) = oldest.find(is_current).expect("each place has a current entry");
        // The oldest of all is the oldest of its key.
        if let Entry::Occupied(mut of_key) = self.of_keys.entry(self.slots[place].0) {
            of_key.get_mut().remove(0);
            if of_key.get().is_empty() {
                of_key.remove();
            }
        }
        place
    }

    /// The sequence of each place.
    pub(super) fn sequences(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().map(|(_, sequence)| *sequence)
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
            let (mut places, mut slots) = (Places::default(), Vec::new());
            for (sequence, draw) in (0..).zip(draws) {
                // Half of the refusals are of few keys.
                let key = if draw % 2 == 0 { draw % 5 } else { draw % many };
                let place = places.take(Principal::from_bits(key.into()), sequence);
                prop_assert_eq!(place, expected(&slots, key));
                slots.resize(slots.len().max(place + 1), (0, 0));
                slots[place] = (key, sequence);
            }
            prop_assert!(places.order.len() <= 2 * MAX_KEPT);
            prop_assert!(places.of_keys.len() <= MAX_KEPT);
            prop_assert!(places.sequences().eq(slots.iter().map(|(_, sequence)| *sequence)));
        }
    }
}

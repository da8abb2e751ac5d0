//! What this node holds in flight, and keeps alive in the store.
//!
//! Units in flight are leased: the store forgets those of a node that has not
//! been heard of for 15 s, so that a crashed node's share comes back. A node
//! that lives says every 5 s how much it still holds, which also mends what a
//! store that was emptied has lost.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem;

use smallvec::SmallVec;

use crate::algorithm::Algorithm;
use crate::digest::Key;
use crate::store::Charge;
use crate::time::{Span, Timestamp};

/// How often a lease is renewed: of three times in a lease's length, two may fail.
const RENEWAL: Span = Span::from_secs(5);

/// What one worker holds in flight. It is bounded by the requests that it has
/// under way.
#[derive(Debug, Default)]
pub(super) struct Held {
    counters: HashMap<Key, Holding>,
    renewed: Timestamp,
    /// Whether any of the counters is in doubt.
    doubts: bool,
}

/// Units under one key.
#[derive(Debug)]
struct Holding {
    algorithm: Algorithm,
    /// In flight.
    units: u64,
    /// The store was asked for them and has not answered: it may count them.
    asked: u64,
    /// The last renewal was put off because of them.
    is_late: bool,
    /// The store may count units that are not held: an answer did not come.
    is_doubtful: bool,
}

/// What the store is told to count for this worker, in place of what it does.
#[derive(Debug)]
pub(super) struct Renewal {
    pub(super) key: Key,
    pub(super) algorithm: Algorithm,
    pub(super) units: u64,
}

/// Charges that the store was asked for, until this is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct Awaited<'h> {
    held: &'h RefCell<Held>,
    charges: SmallVec<[(Key, u64); 1]>,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let mut held = self.held.borrow_mut();
        for (key, units) in &self.charges {
            held.change(*key, |holding| holding.asked = holding.asked.saturating_sub(*units));
        }
    }
}

impl Held {
    /// The store is asked for these charges.
    pub(super) fn ask<'h, 'a: 'c, 'c>(
        held: &'h RefCell<Self>,
        charges: impl Iterator<Item = &'c Charge<'a>>,
    ) -> Awaited<'h> {
        let in_flight = charges.filter(|it| is_in_flight(it));
        let asked = in_flight.map(|charge| {
            held.borrow_mut().holding(charge).asked += charge.cost;
            (charge.key, charge.cost)
        });
        Awaited { held, charges: asked.collect() }
    }

    /// The store has admitted this charge.
    pub(super) fn take(&mut self, charge: &Charge<'_>) {
        if is_in_flight(charge) {
            self.holding(charge).units += charge.cost;
        }
    }

    /// The store may have counted units under this key of which it did not tell:
    /// soon it is told how many are held.
    pub(super) fn doubt(&mut self, key: Key, algorithm: &Algorithm) {
        self.entry(key, algorithm).is_doubtful = true;
        self.doubts = true;
    }

    /// So many units are given back.
    pub(super) fn give(&mut self, key: Key, units: u64) {
        self.change(key, |holding| holding.units = holding.units.saturating_sub(units));
    }

    /// All that is held, which from now on is not.
    pub(super) fn release(&mut self) -> Vec<Renewal> {
        let all = mem::take(&mut self.counters).into_iter();
        all.map(|(key, it)| Renewal { key, algorithm: it.algorithm, units: 0 }).collect()
    }

    /// What the store is told if it is time to, and at once where it is in doubt.
    /// A renewal says how many units there are, so it would take away those that
    /// are being asked for. It is put off while there are any; the next time it
    /// counts them as held.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Renewal> {
        let is_time = now.since(self.renewed) >= RENEWAL;
        if !is_time && !self.doubts {
            return Vec::new();
        }
        if is_time {
            self.renewed = now;
        }
        let mut renewals = Vec::new();
        self.counters.retain(|key, it| {
            if !is_time && !it.is_doubtful {
                return true;
            }
            it.is_late = it.asked > 0 && !it.is_late;
            if !it.is_late && (it.units > 0 || it.is_doubtful) {
                it.is_doubtful = false;
                let (algorithm, units) = (it.algorithm.clone(), it.units + it.asked);
                renewals.push(Renewal { key: *key, algorithm, units });
            }
            !it.is_empty()
        });
        self.doubts = self.counters.values().any(|it| it.is_doubtful);
        renewals
    }

    fn holding(&mut self, charge: &Charge<'_>) -> &mut Holding {
        self.entry(charge.key, charge.algorithm)
    }

    fn entry(&mut self, key: Key, algorithm: &Algorithm) -> &mut Holding {
        let holding = self.counters.entry(key).or_insert_with(|| Holding {
            algorithm: algorithm.clone(),
            units: 0,
            asked: 0,
            is_late: false,
            is_doubtful: false,
        });
        // Its limit may be another one by now.
        if holding.algorithm != *algorithm {
            holding.algorithm = algorithm.clone();
        }
        holding
    }

    fn change(&mut self, key: Key, change: impl FnOnce(&mut Holding)) {
        if let Entry::Occupied(mut entry) = self.counters.entry(key) {
            change(entry.get_mut());
            if entry.get().is_empty() {
                entry.remove();
            }
        }
    }
}

impl Holding {
    fn is_empty(&self) -> bool {
        self.units == 0 && self.asked == 0 && !self.is_doubtful
    }
}

/// Whether the charge holds units until its request has ended.
pub(super) fn is_in_flight(charge: &Charge<'_>) -> bool {
    matches!(charge.algorithm, Algorithm::Concurrency(_)) && charge.cost > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Concurrency;
    use crate::digest::{Counter, Principal};
    use crate::terms::Terms;

    const KEY: Key = Key { principal: Principal::from_bits(1), counter: Counter::from_bits(2) };

    fn algorithm() -> Algorithm {
        Algorithm::Concurrency(Concurrency::new(9).unwrap())
    }

    fn charge(algorithm: &Algorithm) -> Charge<'_> {
        Charge { key: KEY, algorithm, cost: 2, binding: true, terms: Terms::default() }
    }

    fn due(held: &RefCell<Held>, secs: u64) -> Vec<u64> {
        let at = Timestamp::default().plus(Span::from_secs(100 + secs));
        held.borrow_mut().due(at).into_iter().map(|renewal| renewal.units).collect()
    }

    #[test]
    fn what_is_held_is_renewed_every_five_seconds_until_it_is_given_back() {
        let (algorithm, held) = (algorithm(), RefCell::<Held>::default());
        held.borrow_mut().take(&charge(&algorithm));
        held.borrow_mut().take(&charge(&algorithm));
        assert_eq!(due(&held, 0), [4]);
        assert!(due(&held, 4).is_empty());
        held.borrow_mut().give(KEY, 3);
        assert_eq!(due(&held, 5), [1]);
        held.borrow_mut().give(KEY, 3);
        assert!(due(&held, 10).is_empty());
        assert!(held.borrow().counters.is_empty());
    }

    #[test]
    fn a_renewal_takes_nothing_away_that_is_being_asked_for() {
        let (algorithm, held) = (algorithm(), RefCell::<Held>::default());
        held.borrow_mut().take(&charge(&algorithm));
        let awaited = Held::ask(&held, [charge(&algorithm)].iter());
        assert!(due(&held, 0).is_empty(), "it is put off");
        assert_eq!(due(&held, 5), [4], "not for ever: what is asked for may be counted");
        held.borrow_mut().take(&charge(&algorithm));
        drop(awaited);
        assert_eq!(due(&held, 10), [4]);
        drop(Held::ask(&held, [charge(&algorithm)].iter()));
        assert_eq!(due(&held, 15), [4], "who was refused, or went away, holds nothing");
    }

    #[test]
    fn where_an_answer_did_not_come_the_store_is_told_at_once_what_is_held() {
        let (algorithm, held) = (algorithm(), RefCell::<Held>::default());
        assert!(due(&held, 0).is_empty());
        held.borrow_mut().doubt(KEY, &algorithm);
        assert_eq!(due(&held, 1), [0]);
        assert!(due(&held, 2).is_empty(), "once");
        assert!(held.borrow().counters.is_empty());
        held.borrow_mut().take(&charge(&algorithm));
        held.borrow_mut().doubt(KEY, &algorithm);
        let awaited = Held::ask(&held, [charge(&algorithm)].iter());
        assert!(due(&held, 3).is_empty(), "what is asked for is not taken away");
        drop(awaited);
        assert_eq!(due(&held, 4), [2]);
    }

    #[test]
    fn what_is_released_is_held_no_more() {
        let (algorithm, held) = (algorithm(), RefCell::<Held>::default());
        held.borrow_mut().take(&charge(&algorithm));
        let released = held.borrow_mut().release();
        assert_eq!(released.iter().map(|it| (it.key, it.units)).collect::<Vec<_>>(), [(KEY, 0)]);
        assert!(due(&held, 0).is_empty());
    }
}

//! What this node holds in flight, and keeps alive in the store.
//!
//! Units in flight are leased: the store forgets those of a node that has not
//! been heard of for 15 s, so that a crashed node's share comes back. A node
//! that lives says every 5 s how much it still holds, which also mends what a
//! store that was emptied has lost.

use std::collections::HashMap;

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
}

/// Units in flight under one key.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) algorithm: Algorithm,
    pub(super) units: u64,
}

impl Held {
    /// The store has admitted this charge.
    pub(super) fn take(&mut self, charge: &Charge<'_>) {
        if matches!(charge.algorithm, Algorithm::Concurrency(_)) && charge.cost > 0 {
            let fresh = || Holding { algorithm: charge.algorithm.clone(), units: 0 };
            let held = self.counters.entry(charge.key).or_insert_with(fresh);
            held.units += charge.cost;
            if held.algorithm != *charge.algorithm {
                held.algorithm = charge.algorithm.clone();
            }
        }
    }

    /// So many units are given back.
    pub(super) fn give(&mut self, key: Key, units: u64) {
        if let Some(held) = self.counters.get_mut(&key) {
            held.units = held.units.saturating_sub(units);
            if held.units == 0 {
                self.counters.remove(&key);
            }
        }
    }

    /// All that is held, if it is time to say so.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<impl Iterator<Item = (Key, &Holding)>> {
        if now.since(self.renewed) < RENEWAL {
            return None;
        }
        self.renewed = now;
        Some(self.counters.iter().map(|(key, held)| (*key, held)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Concurrency;
    use crate::digest::{Counter, Principal};
    use crate::terms::Terms;

    #[test]
    fn what_is_held_is_renewed_every_five_seconds_until_it_is_given_back() {
        let algorithm = Algorithm::Concurrency(Concurrency::new(9).unwrap());
        let key = Key { principal: Principal::from_bits(1), counter: Counter::from_bits(2) };
        let charge =
            Charge { key, algorithm: &algorithm, cost: 2, binding: true, terms: Terms::default() };
        let at = |secs: u64| Timestamp::default().plus(Span::from_secs(100 + secs));
        let due = |held: &mut Held, secs| {
            held.due(at(secs)).map(|it| it.map(|(_, holding)| holding.units).collect::<Vec<_>>())
        };
        let mut held = Held::default();
        held.take(&charge);
        held.take(&charge);
        assert_eq!(due(&mut held, 0), Some(vec![4]));
        assert_eq!(due(&mut held, 4), None);
        held.give(key, 3);
        assert_eq!(due(&mut held, 5), Some(vec![1]));
        held.give(key, 3);
        assert_eq!(due(&mut held, 10), Some(vec![]));
    }
}

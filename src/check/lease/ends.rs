//! The times at which the leases of a worker may end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate_core::time::Timestamp;

use super::HeldLeases;

/// Leases by the time at which they may end.
///
/// A lease that is given back before its time stays here. It is removed when most of the leases
/// here are not held any more, so there are at most twice as many as are held, and [`SPARE`].
#[derive(Debug, Default)]
pub struct Ends {
    order: BinaryHeap<Reverse<(Timestamp, u64)>>,
}

/// Leases that have a place although none is held.
const SPARE: usize = 64;

impl Ends {
    /// Adds the lease with the number `id`, which may end at `end`.
    pub fn add(&mut self, end: Timestamp, id: u64, held: &HeldLeases) {
        if self.order.len() >= 2 * held.len() + SPARE {
            self.order.retain(|Reverse((_, id))| held.contains(*id));
        }
        self.order.push(Reverse((end, id)));
    }

    /// Takes out the first lease that may have ended at `now`.
    pub fn next_until(&mut self, now: Timestamp) -> Option<u64> {
        let &Reverse((end, id)) = self.order.peek()?;
        if end > now {
            return None;
        }
        self.order.pop();
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::decision::Lease;

    use super::*;
    use crate::check::lease::GivenBack;

    const fn at(us: u64) -> Timestamp {
        Timestamp::from_micros(us)
    }

    #[test]
    fn leases_come_in_the_order_of_their_ends() {
        let held = HeldLeases::default();
        let mut ends = Ends::default();
        for (end, id) in [(30, 3), (10, 1), (20, 2)] {
            ends.add(at(end), id, &held);
        }
        assert_eq!(ends.next_until(at(9)), None);
        assert_eq!(ends.next_until(at(20)), Some(1));
        assert_eq!(ends.next_until(at(20)), Some(2));
        assert_eq!(ends.next_until(at(20)), None);
    }

    #[test]
    fn leases_that_were_given_back_take_no_room() {
        let held = HeldLeases::default();
        let mut ends = Ends::default();
        let hold = |ends: &mut Ends| {
            let mut places = held.reserve(1, 100_000).expect("there is room");
            let id = places.pop().expect("it is one").hold(0, Lease::default(), at(9));
            ends.add(at(9), id, &held);
            id
        };
        let kept: Vec<u64> = (0..100).map(|_| hold(&mut ends)).collect();
        for _ in 0..10_000 {
            let id = hold(&mut ends);
            assert!(matches!(held.give_back(id, 0), GivenBack::Now(_)));
            assert!(ends.order.len() <= 2 * 101 + SPARE, "{}", ends.order.len());
        }
        let mut found: Vec<u64> = std::iter::from_fn(|| ends.next_until(at(9))).collect();
        found.retain(|id| held.contains(*id));
        found.sort_unstable();
        let mut kept = kept;
        kept.sort_unstable();
        assert_eq!(found, kept);
    }
}

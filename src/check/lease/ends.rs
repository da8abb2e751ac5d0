//! The times at which the leases of a worker may end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate_core::time::Timestamp;

use super::{HeldLeases, Look};

/// Leases by the time at which they may end.
///
/// A lease that is given back before its time stays here, and so does a time that was replaced by an
/// earlier one. They are removed when most of them have no effect any more, so there are at most
/// twice as many as leases that are held, and [`SPARE`].
#[derive(Debug, Default)]
pub struct Ends {
    order: BinaryHeap<Reverse<Look>>,
}

/// Leases that have a place although none is held.
const SPARE: usize = 64;

impl Ends {
    /// Adds a planned look.
    pub fn add(&mut self, look: Look, held: &HeldLeases) {
        if self.order.len() >= 2 * held.len() + SPARE {
            self.order.retain(|Reverse(look)| held.is_planned(*look));
        }
        self.order.push(Reverse(look));
    }

    /// Takes out the first look that is due at `now`.
    pub fn next_until(&mut self, now: Timestamp) -> Option<Look> {
        let &Reverse(look) = self.order.peek()?;
        if look.at > now {
            return None;
        }
        self.order.pop();
        Some(look)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::decision::Lease;

    use super::*;
    use crate::check::lease::{GivenBack, Renewed};

    const fn at(us: u64) -> Timestamp {
        Timestamp::from_micros(us)
    }

    #[test]
    fn leases_come_in_the_order_of_their_ends() {
        let held = HeldLeases::default();
        let mut ends = Ends::default();
        let look = |end, id| Look { at: at(end), id };
        for (end, id) in [(30, 3), (10, 1), (20, 2)] {
            ends.add(look(end, id), &held);
        }
        assert_eq!(ends.next_until(at(9)), None);
        assert_eq!(ends.next_until(at(20)), Some(look(10, 1)));
        assert_eq!(ends.next_until(at(20)), Some(look(20, 2)));
        assert_eq!(ends.next_until(at(20)), None);
    }

    #[test]
    fn leases_that_were_given_back_take_no_room() {
        let held = HeldLeases::default();
        let mut ends = Ends::default();
        let hold = |ends: &mut Ends| {
            let mut places = held.reserve(1, 100_000).expect("there is room");
            let id = places.pop().expect("it is one").hold(0, Lease::default(), 1, at(9));
            ends.add(Look { at: at(9), id }, &held);
            id
        };
        let kept: Vec<u64> = (0..100).map(|_| hold(&mut ends)).collect();
        for _ in 0..10_000 {
            let id = hold(&mut ends);
            assert!(matches!(held.give_back(id, 0), GivenBack::Now(_)));
            assert!(ends.order.len() <= 2 * 101 + SPARE, "{}", ends.order.len());
        }
        let found = std::iter::from_fn(|| ends.next_until(at(9)));
        let mut found: Vec<u64> =
            found.filter(|look| held.is_planned(*look)).map(|look| look.id).collect();
        found.sort_unstable();
        let mut kept = kept;
        kept.sort_unstable();
        assert_eq!(found, kept);
    }

    #[test]
    fn times_that_were_replaced_by_earlier_ones_take_no_room() {
        let held = HeldLeases::default();
        let mut ends = Ends::default();
        let mut places = held.reserve(1, 1).expect("there is room");
        let id = places.pop().expect("it is one").hold(0, Lease::default(), 0, at(1 << 40));
        ends.add(Look { at: at(1 << 40), id }, &held);
        for n in 0..10_000_u64 {
            let renew = |us| held.renew(id).expect("it is held").replace(&[0], 0, at(us));
            let earlier = n * 1_000_000;
            let Renewed::Earlier(look) = renew(earlier) else { panic!("it ends earlier") };
            ends.add(look, &held);
            assert_eq!(renew(1 << 40), Renewed::Planned);
            let look = ends.next_until(at(earlier)).expect("it is due");
            let later = held.expire(look, at(earlier)).expect("it is held");
            ends.add(later, &held);
            assert!(ends.order.len() <= 2 + SPARE, "{}", ends.order.len());
        }
    }
}

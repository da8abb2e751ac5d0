//! Whether an upstream has room for requests beyond the limits.

use crate::policy::Elastic;
use crate::time::Span;

/// The state of a request's upstream. An unknown value counts as no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headroom {
    /// The recent time to a response.
    pub latency: Option<Span>,
    /// The requests in flight, in percent of the maximum.
    pub in_flight_percent: Option<u8>,
    /// Whether the time to a response grows.
    pub slowing: bool,
}

impl Headroom {
    /// The room at both upstreams: each has at least so much.
    pub fn and(self, other: Self) -> Self {
        Self {
            latency: largest(self.latency, other.latency),
            in_flight_percent: largest(self.in_flight_percent, other.in_flight_percent),
            slowing: self.slowing || other.slowing,
        }
    }

    /// Whether the upstream has room by the conditions of `elastic`.
    pub(crate) fn suffices(&self, elastic: &Elastic) -> bool {
        let Elastic { latency_below, in_flight_below_percent, .. } = elastic;
        !self.slowing
            && is_below(self.latency, *latency_below)
            && is_below(self.in_flight_percent, *in_flight_below_percent)
    }
}

fn largest<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.zip(other).map(|(one, other)| one.max(other))
}

fn is_below<T: Ord>(value: Option<T>, bound: Option<T>) -> bool {
    bound.is_none_or(|bound| value.is_some_and(|value| value < bound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::tests::policy;

    #[test]
    fn there_is_room_while_all_required_values_are_known_and_below_their_bounds() {
        let elastic = |latency_ms: Option<u64>, in_flight_below_percent| Elastic {
            beyond: policy("p", 1, Span::SECOND).algorithm,
            latency_below: latency_ms.map(Span::from_millis),
            in_flight_below_percent,
        };
        let room = Headroom {
            latency: Some(Span::from_millis(200)),
            in_flight_percent: Some(50),
            slowing: false,
        };
        assert!(room.suffices(&elastic(Some(201), Some(51))));
        assert!(room.suffices(&elastic(Some(201), None)));
        assert!(!room.suffices(&elastic(Some(200), Some(51))));
        assert!(!room.suffices(&elastic(Some(201), Some(50))));
        assert!(!Headroom { slowing: true, ..room }.suffices(&elastic(Some(201), Some(51))));
        assert!(!Headroom::default().suffices(&elastic(Some(201), None)));
        assert!(!Headroom::default().suffices(&elastic(None, Some(51))));
    }

    #[test]
    fn the_room_at_two_upstreams_is_that_of_the_fuller_one() {
        let room = |latency_ms: u64, in_flight_percent| Headroom {
            latency: Some(Span::from_millis(latency_ms)),
            in_flight_percent: Some(in_flight_percent),
            slowing: false,
        };
        assert_eq!(room(20, 50).and(room(30, 40)), room(30, 50));
        let slowing = Headroom { slowing: true, ..room(30, 50) };
        assert_eq!(room(20, 50).and(Headroom { slowing: true, ..room(30, 40) }), slowing);
        assert_eq!(room(20, 50).and(Headroom::default()), Headroom::default());
    }
}

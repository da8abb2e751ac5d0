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
    /// Whether the upstream has room by the conditions of `elastic`.
    pub(crate) fn suffices(&self, elastic: &Elastic) -> bool {
        let Elastic { latency_below, in_flight_below_percent, .. } = elastic;
        !self.slowing
            && is_below(self.latency, *latency_below)
            && is_below(self.in_flight_percent, *in_flight_below_percent)
    }
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
}

//! Units in flight: never more than the limit, and none is lost.

use super::*;

fn in_flight(limit: u64) -> Algorithm {
    Algorithm::Concurrency(Concurrency::new(limit).unwrap())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_take_passes_if_it_and_what_is_in_flight_are_within_the_limit(
        limit in 1..=12_u64,
        steps in prop::collection::vec((gaps(), 0..=5_u64, any::<bool>()), 1..60),
    ) {
        let algorithm = in_flight(limit);
        let mut counter = Counter::new(&algorithm);
        let mut now = Timestamp::default();
        let mut held = Vec::new();
        for (gap_us, cost, finish) in steps {
            now = now.plus(Span::from_micros(gap_us));
            if finish && !held.is_empty() {
                let (taken, cost) = held.remove(0);
                counter.apply(Op::Settle { reserved: cost, actual: cost + 3, taken }, now);
                counter.apply(Op::Give { cost, taken }, now);
            }
            let units: u64 = held.iter().map(|(_, cost)| cost).sum();
            let verdict = counter.apply(Op::Take(cost), now);
            prop_assert_eq!(verdict.admitted, units + cost <= limit);
            let taken = if verdict.admitted { cost } else { 0 };
            prop_assert_eq!(verdict.remaining, limit - units - taken);
            if verdict.admitted {
                held.push((now, cost));
            }
        }
    }

    #[test]
    fn what_is_in_flight_never_expires_and_nothing_in_flight_is_a_fresh_key(
        limit in 1..=12_u64,
        units in 0..=12_u64,
        later_us in any::<u64>(),
    ) {
        let algorithm = in_flight(limit);
        let state = State::InFlight { units };
        let later = Timestamp::from_micros(later_us.min(u64::MAX - 1));
        prop_assert_eq!(algorithm.expires_at(&state) > later, units > 0);
        let fresh = algorithm.apply(None, Op::Take(1), later);
        prop_assert_eq!(algorithm.apply(Some(&state), Op::Take(1), later) == fresh, units == 0);
    }
}

#[test]
fn a_refused_take_waits_a_second_and_an_impossible_one_never_fits() {
    let algorithm = in_flight(2);
    let mut counter = Counter::new(&algorithm);
    let now = Timestamp::from_micros(3);
    assert_eq!(counter.apply(Op::Take(2), now).reset_after, Span::SECOND);
    assert_eq!(counter.ask(Op::Take(1), now).1.retry, Retry::After(Span::SECOND));
    assert_eq!(counter.ask(Op::Take(3), now).1.retry, Retry::Never);
    assert_eq!(counter.apply(Op::Give { cost: 2, taken: now }, now).reset_after, Span::ZERO);
}

//! What is settled afterwards: more is charged even beyond the limit, less is
//! given back.

use super::*;

/// The longest that a key waits on which twice its capacity has been counted.
fn wait_of_twice_the_capacity(algorithm: &Algorithm, now: Timestamp) -> Span {
    let settle = Op::Settle { reserved: 0, actual: u64::MAX, taken: now };
    let mut counter = Counter::new(algorithm);
    counter.apply(settle, now);
    match counter.ask(Op::Take(algorithm.capacity()), now).1.retry {
        Retry::After(wait) => wait,
        other => panic!("a key deep in debt is refused, not {other:?}"),
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_costs_what_was_reserved_changes_nothing(
        algorithm in algorithms(),
        schedule in schedules(),
        cost in numbers(),
    ) {
        let (counter, now) = Counter::after(&algorithm, &schedule);
        let settle = Op::Settle { reserved: cost, actual: cost, taken: now };
        let (next, verdict) = counter.ask(settle, now);
        prop_assert_eq!(next, None);
        prop_assert_eq!(verdict.remaining, counter.ask(Op::Peek, now).1.remaining);
    }

    #[test]
    fn what_costs_less_than_reserved_gives_the_rest_back(
        algorithm in algorithms(),
        schedule in schedules(),
        (actual, unused, later_us) in (0..4_u64, 1..4_u64, 0..3000_u64),
    ) {
        let (counter, taken) = Counter::after(&algorithm, &schedule);
        let now = taken.plus(Span::from_micros(later_us));
        let settle = Op::Settle { reserved: actual + unused, actual, taken };
        prop_assert_eq!(counter.ask(settle, now), counter.ask(Op::Give { cost: unused, taken }, now));
    }

    /// As if all of it had been taken at once, where that fits.
    #[test]
    fn what_costs_more_than_reserved_is_charged(
        algorithm in algorithms(),
        schedule in schedules(),
        (reserved, more) in (1..4_u64, 1..4_u64),
    ) {
        let (mut counter, now) = Counter::after(&algorithm, &schedule);
        if !counter.ask(Op::Take(reserved + more), now).1.admitted {
            return Ok(());
        }
        let remaining = counter.ask(Op::Take(reserved + more), now).1.remaining;
        counter.apply(Op::Take(reserved), now);
        let settle = Op::Settle { reserved, actual: reserved + more, taken: now };
        prop_assert_eq!(counter.apply(settle, now).remaining, remaining);
    }

    #[test]
    fn in_debt_nothing_remains_and_the_wait_is_exact_and_bounded(
        algorithm in algorithms(),
        schedule in schedules(),
        actual in prop_oneof![1..40_u64, any::<u64>()],
        cost in 1..=12_u64,
        later_us in 0..2000_u64,
    ) {
        let (mut counter, end) = Counter::after(&algorithm, &schedule);
        let now = end.plus(Span::from_micros(later_us));
        let before = counter.ask(Op::Peek, now).1.remaining;
        let settled = counter.apply(Op::Settle { reserved: 0, actual, taken: end }, now);
        prop_assert!(settled.admitted && settled.retry == Retry::Now);
        prop_assert!(settled.remaining <= before.saturating_sub(actual));
        match counter.ask(Op::Take(cost), now).1.retry {
            Retry::Now => prop_assert!(cost <= settled.remaining),
            Retry::Never => prop_assert!(cost > algorithm.capacity()),
            Retry::After(wait) => {
                let earliest = now.plus(wait);
                prop_assert!(counter.ask(Op::Take(cost), earliest).1.admitted);
                let before = earliest.minus(Span::from_micros(1));
                prop_assert!(!counter.ask(Op::Take(cost), before).1.admitted);
                prop_assert!(wait <= wait_of_twice_the_capacity(&algorithm, now));
            }
        }
    }

    #[test]
    fn however_often_it_is_charged_a_key_waits_no_longer_than_for_twice_the_limit(
        algorithm in algorithms(),
        charges in prop::collection::vec((gaps(), 1..40_u64), 1..30),
    ) {
        let mut counter = Counter::new(&algorithm);
        let mut now = Timestamp::from_micros(1_795_246_126_000_000);
        for (gap_us, actual) in charges {
            now = now.plus(Span::from_micros(gap_us));
            counter.apply(Op::Settle { reserved: 0, actual, taken: now }, now);
            let wait = match counter.ask(Op::Take(1), now).1.retry {
                Retry::After(wait) => wait,
                _ => Span::ZERO,
            };
            prop_assert!(wait <= wait_of_twice_the_capacity(&algorithm, now));
        }
    }
}

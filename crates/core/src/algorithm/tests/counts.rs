//! Counts: units that are counted whether they fit or not.

use super::*;

proptest! {
    #![proptest_config(cases())]

    /// They are charged like a settlement, and told like a take.
    #[test]
    fn a_count_is_a_charge_that_says_whether_it_fitted(
        algorithm in algorithms(),
        schedule in schedules(),
        debt in 0..20_u64,
        cost in prop_oneof![1..20_u64, any::<u64>()],
        later_us in 0..2000_u64,
    ) {
        let (mut counter, end) = Counter::after(&algorithm, &schedule);
        let now = end.plus(Span::from_micros(later_us));
        counter.apply(Op::Settle { reserved: 0, actual: debt, taken: now }, now);
        let taken = counter.ask(Op::Take(cost), now).1;
        let settle = Op::Settle { reserved: 0, actual: cost, taken: now };
        let (charged, settled) = counter.ask(settle, now);
        let (counted, told) = counter.ask(Op::Count(cost), now);
        prop_assert_eq!(&counted, &charged);
        prop_assert_eq!((told.admitted, told.remaining), (taken.admitted, settled.remaining));
        if taken.admitted {
            prop_assert_eq!(told.retry, Retry::Now);
            prop_assert_eq!(told.delay, taken.delay);
        } else {
            counter.state = counted;
            prop_assert_eq!(told.retry, counter.ask(Op::Take(cost), now).1.retry);
        }
    }

    #[test]
    fn a_count_of_nothing_tells_of_a_debt_and_its_wait_is_exact(
        algorithm in algorithms(),
        schedule in schedules(),
        charged in 0..40_u64,
        later_us in 0..2000_u64,
    ) {
        let (mut counter, end) = Counter::after(&algorithm, &schedule);
        let now = end.plus(Span::from_micros(later_us));
        let room = counter.ask(Op::Peek, now).1.remaining;
        counter.apply(Op::Settle { reserved: 0, actual: charged, taken: now }, now);
        let (next, told) = counter.ask(Op::Count(0), now);
        prop_assert_eq!(next, None);
        if charged <= room {
            prop_assert!(told.admitted);
        }
        if charged > room && !matches!(algorithm, Algorithm::LeakyBucket(_)) {
            prop_assert!(!told.admitted && told.remaining == 0, "{:?}", told);
        }
        if let Retry::After(wait) = told.retry {
            let earliest = now.plus(wait);
            prop_assert!(counter.ask(Op::Count(0), earliest).1.admitted);
            let before = earliest.minus(Span::from_micros(1));
            prop_assert!(!counter.ask(Op::Count(0), before).1.admitted);
        }
    }
}

/// What an AI gateway does: it asks with 0 whether a client may begin, and reports at the end.
#[test]
fn a_report_beyond_the_limit_refuses_the_next_question() {
    let quota = Quota::new(10, Span::from_secs(60)).unwrap();
    let algorithm = Algorithm::FixedWindow(FixedWindow::new(quota));
    let mut counter = Counter::new(&algorithm);
    let now = Timestamp::from_micros(120_000_000);
    assert!(counter.apply(Op::Count(0), now).admitted);
    assert!(counter.apply(Op::Count(10), now).admitted);
    assert!(counter.apply(Op::Count(0), now).admitted, "the limit is reached, and not exceeded");
    assert!(!counter.apply(Op::Count(5), now).admitted);
    let told = counter.apply(Op::Count(0), now);
    assert_eq!((told.admitted, told.remaining), (false, 0));
    assert_eq!(told.retry, Retry::After(Span::from_secs(60)));
}

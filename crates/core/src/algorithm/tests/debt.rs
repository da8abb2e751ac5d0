//! Settlements: a higher cost is charged even beyond the limit, and a lower one is given
//! back.

use super::*;

/// At most twice the capacity is counted. The units that are left of three times the
/// capacity, or the level of a queue, show it.
fn assert_bounded(counter: &Counter<'_>, now: Timestamp) {
    if let Algorithm::LeakyBucket(bucket) = counter.algorithm {
        let Some(State::Queue { level, .. }) = counter.state else { return };
        assert!(level <= u128::from(2 * queue::capacity(bucket)));
        return;
    }
    let tripled = counter.algorithm.with_limit(3 * counter.algorithm.limit()).unwrap();
    let left = tripled.apply(counter.state.as_ref(), Op::Peek, now).1.remaining;
    assert!(left >= tripled.capacity() - 2 * counter.algorithm.capacity(), "{left} left");
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
    fn no_wait_is_longer_than_the_longest_one(
        algorithm in algorithms(),
        schedule in schedules(),
        (debt, share, later_us) in (0..200_u64, 0..=100_u64, 0..3000_u64),
    ) {
        let (mut counter, now) = Counter::after(&algorithm, &schedule);
        counter.apply(Op::Settle { reserved: 0, actual: debt, taken: now }, now);
        let later = now.plus(Span::from_micros(later_us));
        let cost = (algorithm.capacity() * share / 100).max(1);
        if let Some(longest) = algorithm.longest_wait(later) {
            let wait = counter.ask(Op::Take(cost), later).1.retry;
            prop_assert!(wait <= Retry::After(longest), "{wait:?} is longer than {longest}");
        }
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

    /// The result is the same as if all units had been taken at once, if they fit.
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
    fn in_debt_nothing_remains_and_the_wait_is_exact_and_the_debt_bounded(
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
            }
        }
        assert_bounded(&counter, now);
    }

    #[test]
    fn however_often_it_is_charged_at_most_twice_the_capacity_is_counted(
        algorithm in algorithms(),
        charges in prop::collection::vec((gaps(), 1..40_u64), 1..30),
    ) {
        let mut counter = Counter::new(&algorithm);
        let mut now = Timestamp::from_micros(1_795_246_126_000_000);
        for (gap_us, actual) in charges {
            now = now.plus(Span::from_micros(gap_us));
            counter.apply(Op::Settle { reserved: 0, actual, taken: now }, now);
            assert_bounded(&counter, now);
        }
    }
}

#[test]
fn a_debt_is_paid_off_in_twice_the_window_at_most() {
    let minute = Quota::new(100, Span::from_secs(60)).unwrap();
    let now = Timestamp::from_micros(60_000_000);
    let wait = |algorithm: Algorithm| {
        let mut counter = Counter::new(&algorithm);
        counter.apply(Op::Settle { reserved: 1, actual: u64::MAX, taken: now }, now);
        counter.ask(Op::Take(1), now).1.retry
    };
    let after_ms = |ms| Retry::After(Span::from_millis(ms));
    let bucket = TokenBucket::new(minute, 100).unwrap();
    assert_eq!(wait(Algorithm::TokenBucket(bucket)), after_ms(60_600));
    let queue = LeakyBucket::new(minute, Span::from_secs(60), None).unwrap();
    // There is one slot more than a minute has: the one that is used at once.
    assert_eq!(wait(Algorithm::LeakyBucket(queue)), after_ms(61_200));
    assert_eq!(wait(Algorithm::SlidingWindow(SlidingWindow::new(minute))), after_ms(30_300));
    assert_eq!(wait(Algorithm::SlidingLog(SlidingLog::new(minute).unwrap())), after_ms(60_000));
}

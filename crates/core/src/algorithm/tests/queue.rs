//! A queue: delayed requests continue at even distances.

use super::*;

/// The highest level of a queue in parts, by its documentation.
pub(super) fn capacity(bucket: &LeakyBucket) -> u64 {
    let window_us = bucket.window().as_micros();
    let by_depth = bucket.depth().map_or(u64::MAX, |depth| depth * window_us);
    (bucket.max_delay().as_micros() * bucket.limit()).min(by_depth) + window_us
}

fn queues() -> impl Strategy<Value = Algorithm> {
    let any_queue = (1..=12_u64, 1000..=1500_u64, 0..2500_u64, prop::option::of(0..8_u64))
        .prop_map(|(limit, window_us, delay_us, depth)| {
            let quota = Quota::new(limit, Span::from_micros(window_us)).unwrap();
            LeakyBucket::new(quota, Span::from_micros(delay_us), depth).unwrap()
        });
    any_queue.prop_map(Algorithm::LeakyBucket)
}

fn queue(limit: u64, max_delay: Span, depth: Option<u64>) -> Algorithm {
    let quota = Quota::new(limit, Span::SECOND).unwrap();
    Algorithm::LeakyBucket(LeakyBucket::new(quota, max_delay, depth).unwrap())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_goes_on_goes_on_at_even_distances(
        algorithm in queues(),
        schedule in schedules(),
        given in prop::collection::vec(any::<bool>(), 60),
    ) {
        let Algorithm::LeakyBucket(bucket) = &algorithm else { unreachable!() };
        let mut counter = Counter::new(&algorithm);
        let mut gone: Vec<(Timestamp, u64)> = Vec::new();
        for (&(now, cost), given) in schedule.iter().zip(given) {
            let Verdict { admitted: true, delay, .. } = counter.apply(Op::Take(cost), now) else {
                continue;
            };
            prop_assert!(delay <= bucket.max_delay());
            if given {
                counter.apply(Op::Give { cost, taken: now }, now);
            } else {
                gone.push((now.plus(delay), cost));
            }
        }
        prop_assert!(gone.is_sorted());
        for (first, &(from, _)) in gone.iter().enumerate() {
            let mut before_last = 0;
            for &(to, cost) in &gone[first..] {
                // A time is rounded up to the microsecond, and so may be later by less than one.
                let most = (to.since(from).as_micros() + 1) * algorithm.limit();
                prop_assert!(before_last * algorithm.window().as_micros() <= most);
                before_last += cost;
            }
        }
    }

    #[test]
    fn no_more_wait_at_the_same_time_than_the_depth_says(
        limit in 1..=12_u64,
        depth in 0..6_u64,
        schedule in schedules(),
    ) {
        let algorithm = queue(limit, Span::from_secs(100), Some(depth));
        let mut counter = Counter::new(&algorithm);
        let mut gone = Vec::new();
        for (now, _) in schedule {
            let verdict = counter.apply(Op::Take(1), now);
            gone.extend(verdict.admitted.then(|| now.plus(verdict.delay)));
            let waiting = gone.iter().filter(|&&time| time > now).count();
            prop_assert!(waiting as u64 <= depth);
            // The queue refuses only because no slot is left.
            prop_assert_eq!(verdict.admitted || waiting as u64 == depth, true);
        }
    }
}

#[test]
fn a_queue_keeps_even_distances_without_drift() {
    // 1/7 s is not a whole number of microseconds.
    let algorithm = queue(7, Span::from_secs(100), None);
    let mut counter = Counter::new(&algorithm);
    let start = Timestamp::from_micros(5);
    for slot in 0..700_u64 {
        let verdict = counter.apply(Op::Take(1), start);
        assert_eq!(verdict.delay.as_micros(), (slot * 1_000_000).div_ceil(7), "slot {slot}");
    }
}

#[test]
fn a_cost_takes_as_many_slots_and_continues_at_the_first() {
    let algorithm = queue(10, Span::SECOND, None);
    let mut counter = Counter::new(&algorithm);
    let now = Timestamp::from_micros(0);
    assert_eq!(counter.ask(Op::Peek, now).1.remaining, 11);
    let first = counter.apply(Op::Take(4), now);
    assert_eq!((first.delay, first.remaining), (Span::ZERO, 7));
    let second = counter.apply(Op::Take(4), now);
    assert_eq!((second.delay, second.remaining), (Span::from_millis(400), 3));
    let refused = counter.apply(Op::Take(4), now);
    assert_eq!((refused.delay, refused.remaining), (Span::ZERO, 3));
    assert_eq!(refused.retry, Retry::After(Span::from_millis(100)));
    assert_eq!(counter.ask(Op::Take(12), now).1.retry, Retry::Never);
}

#[test]
fn a_slot_before_an_assigned_one_is_not_assigned_twice() {
    let algorithm = queue(10, Span::SECOND, None);
    for between_us in [0, 1] {
        let mut counter = Counter::new(&algorithm);
        let first = Timestamp::from_micros(7);
        let second = first.plus(Span::from_micros(between_us));
        counter.apply(Op::Take(1), first);
        let promised = counter.apply(Op::Take(1), second).delay;
        counter.apply(Op::Give { cost: 1, taken: first }, second);
        assert!(counter.apply(Op::Take(1), second).delay > promised);
    }
}

#[test]
fn a_queue_without_a_delay_is_a_bucket_of_one() {
    let algorithm = queue(10, Span::ZERO, None);
    let mut counter = Counter::new(&algorithm);
    assert!(counter.apply(Op::Take(1), Timestamp::default()).admitted);
    let refused = counter.apply(Op::Take(1), Timestamp::default());
    assert_eq!(refused.retry, Retry::After(Span::from_millis(100)));
}

//! The formulas of the literature, written down naively over the whole
//! history, must say what the algorithms say; and no input may overflow.

use proptest::prelude::*;

use super::*;

/// Whether a cost fits, by the definition, from all takes that were admitted.
fn fits(algorithm: &Algorithm, history: &[(Timestamp, u64)], cost: u64, now: Timestamp) -> bool {
    let (limit, window_us) = (algorithm.limit(), algorithm.window().as_micros());
    let now_us = now.as_micros();
    let units_in = |length_us: u64, back: u64| -> u64 {
        let counted = history
            .iter()
            .filter(|(taken, _)| taken.as_micros() / length_us + back == now_us / length_us);
        counted.map(|(_, cost)| cost).sum()
    };
    match algorithm {
        Algorithm::SlidingWindow(_) => {
            // A window owns its end.
            let window = |time: Timestamp| time.as_micros().div_ceil(window_us);
            let units = |back| {
                let counted = history.iter().filter(|(at, _)| window(*at) + back == window(now));
                counted.map(|(_, cost)| cost).sum::<u64>()
            };
            let (current, previous) = (units(0), units(1));
            let left_us = window(now) * window_us - now_us;
            previous * left_us + (current + cost) * window_us <= limit * window_us
        }
        Algorithm::SubWindows(windows) => {
            let buckets = u64::from(windows.buckets());
            let length_us = window_us.div_ceil(buckets);
            (0..=buckets).map(|back| units_in(length_us, back)).sum::<u64>() + cost <= limit
        }
        Algorithm::FixedWindow(_) => units_in(window_us, 0) + cost <= limit,
        Algorithm::TokenBucket(bucket) => {
            // The theoretical arrival time, in L-ths of a microsecond.
            let at = |time: Timestamp| u128::from(time.as_micros()) * u128::from(limit);
            let arrival = history.iter().fold(0, |arrival: u128, &(taken, cost)| {
                arrival.max(at(taken)) + u128::from(cost * window_us)
            });
            let ahead = arrival.max(at(now)) - at(now);
            ahead + u128::from(cost * window_us) <= u128::from(bucket.burst() * window_us)
        }
    }
}

fn states() -> impl Strategy<Value = Option<State>> {
    let counts = prop::collection::vec(any::<u32>(), 0..9);
    prop_oneof![
        Just(None),
        any::<[u64; 3]>().prop_map(|[window, current, previous]| {
            Some(State::Sliding { window, current, previous })
        }),
        any::<[u64; 2]>().prop_map(|[window, current]| Some(State::Fixed { window, current })),
        (any::<u64>(), any::<u128>()).prop_map(|(as_of_us, level)| {
            Some(State::Bucket { as_of: Timestamp::from_micros(as_of_us), level })
        }),
        (any::<u64>(), counts).prop_map(|(newest, counts)| {
            Some(State::Counts { newest, counts: counts.into_boxed_slice() })
        }),
    ]
}

/// Any number, the largest ones more often than chance has them.
fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..10_u64, u64::MAX - 10..=u64::MAX]
}

fn operations() -> impl Strategy<Value = Op> {
    prop_oneof![
        numbers().prop_map(Op::Take),
        (numbers(), numbers())
            .prop_map(|(cost, us)| Op::Give { cost, taken: Timestamp::from_micros(us) }),
        Just(Op::Peek),
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_is_admitted_is_what_the_definition_admits(
        algorithm in algorithms(),
        schedule in schedules(),
    ) {
        let mut counter = Counter::new(&algorithm);
        let mut history = Vec::new();
        for (now, cost) in schedule {
            let expected = fits(&algorithm, &history, cost, now);
            prop_assert_eq!(counter.apply(Op::Take(cost), now).admitted, expected);
            if expected {
                history.push((now, cost));
            }
        }
    }

    #[test]
    fn no_input_overflows(
        kind in 0..4_u32,
        limit in prop_oneof![1..=u64::from(u32::MAX), Just(MAX_LIMIT)],
        window_us in prop_oneof![
            MIN_WINDOW.as_micros()..=MAX_WINDOW.as_micros(),
            Just(MIN_WINDOW.as_micros()),
            Just(MAX_WINDOW.as_micros()),
        ],
        state in states(),
        op in operations(),
        now_us in numbers(),
    ) {
        let limit = if kind == 1 { limit.min(u64::from(u32::MAX)) } else { limit };
        let quota = Quota::new(limit, Span::from_micros(window_us)).unwrap();
        let algorithm = algorithm(kind, quota, limit.min(1 << 27), 8);
        let now = Timestamp::from_micros(now_us);
        let (next, verdict) = algorithm.apply(state.as_ref(), op, now);
        prop_assert!(verdict.remaining <= algorithm.capacity());
        if let Some(next) = next {
            algorithm.apply(Some(&next), Op::Take(1), now);
        }
    }
}

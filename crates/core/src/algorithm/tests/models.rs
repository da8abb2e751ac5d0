//! The algorithms agree with the formulas of the literature, computed naively over the
//! whole history, and no input overflows.

use proptest::prelude::*;

use super::*;
use crate::algorithm::log;

/// Whether a cost fits, by the definition, from all takes that were admitted.
fn fits(algorithm: &Algorithm, history: &[(Timestamp, u64)], cost: u64, now: Timestamp) -> bool {
    let limit = algorithm.limit();
    let window_us = algorithm.window().as_micros();
    let now_us = now.as_micros();
    let units_in = |length_us: u64, back: u64| -> u64 {
        let counted = history
            .iter()
            .filter(|(taken, _)| taken.as_micros() / length_us + back == now_us / length_us);
        counted.map(|(_, cost)| cost).sum()
    };
    match algorithm {
        Algorithm::SlidingWindow(_) => {
            // A window contains its end.
            let window = |time: Timestamp| time.as_micros().div_ceil(window_us);
            let units = |back| {
                let counted = history.iter().filter(|(at, _)| window(*at) + back == window(now));
                counted.map(|(_, cost)| cost).sum::<u64>()
            };
            let current = units(0);
            let previous = units(1);
            let left_us = window(now) * window_us - now_us;
            previous * left_us + (current + cost) * window_us <= limit * window_us
        }
        Algorithm::SubWindows(windows) => {
            let buckets = u64::from(windows.buckets());
            let length_us = window_us.div_ceil(buckets);
            (0..=buckets).map(|back| units_in(length_us, back)).sum::<u64>() + cost <= limit
        }
        Algorithm::SlidingLog(_) => {
            let counted = history.iter().filter(|(at, _)| at.as_micros() + window_us > now_us);
            counted.map(|(_, cost)| cost).sum::<u64>() + cost <= limit
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
        Algorithm::LeakyBucket(bucket) => {
            // The first free slot, in L-ths of a microsecond.
            let at = |time: Timestamp| u128::from(time.as_micros()) * u128::from(limit);
            let free = history.iter().fold(0, |free: u128, &(taken, cost)| {
                free.max(at(taken)) + u128::from(cost * window_us)
            });
            // The slot of the last unit is no later than the delay and the depth allow.
            let last = free.max(at(now)) + u128::from((cost - 1) * window_us);
            let depth = bucket.depth().map_or(u64::MAX, |depth| depth * window_us);
            let latest = (bucket.max_delay().as_micros() * limit).min(depth);
            last - at(now) <= u128::from(latest)
        }
        Algorithm::Concurrency(_) => units_in(u64::MAX, 0) + cost <= limit,
        Algorithm::Ban(_) => cost <= limit,
    }
}

/// Logs have only the form that a log creates.
fn logs() -> impl Strategy<Value = Log> {
    prop::collection::vec((numbers(), numbers()), 0..5).prop_map(|mut entries| {
        entries.sort_unstable();
        let empty = log::Tail::empty(Timestamp::default()).with(0, Timestamp::default());
        entries.into_iter().fold(empty, |log, (us, units)| {
            let now = Timestamp::from_micros(us);
            log.since(Span::from_micros(u64::MAX), now).with(units, now)
        })
    })
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
        logs().prop_map(|log| Some(State::Log(log))),
        (any::<u64>(), any::<u128>(), any::<bool>()).prop_map(|(as_of_us, level, shared)| {
            Some(State::Queue { as_of: Timestamp::from_micros(as_of_us), level, shared })
        }),
        any::<u64>().prop_map(|units| Some(State::InFlight { units })),
    ]
}

fn operations() -> impl Strategy<Value = Op> {
    prop_oneof![
        numbers().prop_map(Op::Take),
        (numbers(), numbers())
            .prop_map(|(cost, us)| Op::Give { cost, taken: Timestamp::from_micros(us) }),
        (numbers(), numbers(), numbers()).prop_map(|(reserved, actual, us)| Op::Settle {
            reserved,
            actual,
            taken: Timestamp::from_micros(us),
        }),
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
        kind in 0..=KINDS,
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
        let quota = |most| Quota::new(limit.min(most), Span::from_micros(window_us)).unwrap();
        let algorithm = match kind {
            1 => algorithm(kind, quota(u64::from(u32::MAX)), 1, 8, Span::ZERO),
            3 => algorithm(kind, quota(MAX_LOG_LIMIT), 1, 1, Span::ZERO),
            KINDS => Algorithm::Concurrency(Concurrency::new(limit).unwrap()),
            _ => algorithm(kind, quota(MAX_LIMIT), limit.min(1 << 24), 1, Span::SECOND),
        };
        let now = Timestamp::from_micros(now_us);
        let (next, verdict) = algorithm.apply(state.as_ref(), op, now);
        prop_assert!(verdict.remaining <= algorithm.capacity());
        if let Some(next) = next {
            algorithm.apply(Some(&next), Op::Take(1), now);
        }
    }
}

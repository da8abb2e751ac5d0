//! Refunds of requests that another limit refuses, compared with an ideal in which these
//! requests never came.

use super::*;

/// A schedule of other requests, and of requests that another limit refuses. Each of the
/// latter is given back this number of steps later.
fn steps() -> impl Strategy<Value = Vec<(u64, u64, Option<usize>)>> {
    let refused = prop_oneof![2 => Just(None), 1 => (0..6_usize).prop_map(Some)];
    prop::collection::vec((gaps(), 1..=4_u64, refused), 1..60)
}

/// A counter, and the same counter without the requests that another limit refuses.
struct Both<'a> {
    real: Counter<'a>,
    ideal: Counter<'a>,
    /// The times of the refunds, their units, and the times of their takes.
    waiting: Vec<(usize, u64, Timestamp)>,
    /// The most units that were waiting to be given back at any time.
    most_under_way: u64,
    kept: Vec<(Timestamp, u64)>,
}

impl<'a> Both<'a> {
    fn new(algorithm: &'a Algorithm) -> Self {
        let real = Counter::new(algorithm);
        let ideal = Counter::new(algorithm);
        Self { real, ideal, waiting: Vec::new(), most_under_way: 0, kept: Vec::new() }
    }

    fn step(&mut self, step: usize, now: Timestamp, cost: u64, refused: Option<usize>) {
        if self.real.apply(Op::Take(cost), now).admitted {
            match refused {
                Some(steps) => self.waiting.push((step + steps, cost, now)),
                None => {
                    self.kept.push((now, cost));
                    // The ideal counts the request even if it has no room for it.
                    let actual = cost;
                    self.ideal.apply(Op::Settle { reserved: 0, actual, taken: now }, now);
                }
            }
        }
        let under_way = self.waiting.iter().map(|(_, cost, _)| cost).sum();
        self.most_under_way = self.most_under_way.max(under_way);
        self.give_back(step, now);
    }

    fn give_back(&mut self, step: usize, now: Timestamp) {
        let (due, waiting) = self.waiting.iter().partition(|(due, ..)| *due <= step);
        self.waiting = waiting;
        let due: Vec<(usize, u64, Timestamp)> = due;
        for (_, cost, taken) in due {
            let before = self.real.ask(Op::Peek, now).1.remaining;
            let after = self.real.apply(Op::Cancel { cost, taken }, now).remaining;
            assert!((before..=before + cost).contains(&after), "{before} + {cost} is not {after}");
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_is_refused_elsewhere_leaves_others_no_less_than_if_it_had_not_come(
        algorithm in algorithms(),
        steps in steps(),
        probes in prop::collection::vec(0..4000_u64, 4),
    ) {
        let mut both = Both::new(&algorithm);
        let mut now = Timestamp::from_micros(1_795_246_126_000_000);
        for (step, &(gap_us, cost, refused)) in steps.iter().enumerate() {
            now = now.plus(Span::from_micros(gap_us));
            both.step(step, now, cost, refused);
        }
        both.give_back(usize::MAX, now);
        for later_us in probes {
            let now = now.plus(Span::from_micros(later_us));
            let (_, real) = both.real.ask(Op::Take(1), now);
            let (_, ideal) = both.ideal.ask(Op::Take(1), now);
            prop_assert!(real.remaining >= ideal.remaining, "{real:?}, not {ideal:?}");
            prop_assert!(real.retry <= ideal.retry);
            prop_assert!(!ideal.admitted || real.delay <= ideal.delay);
            if !matches!(algorithm, Algorithm::TokenBucket(_) | Algorithm::LeakyBucket(_)) {
                prop_assert_eq!(real, ideal, "windows and logs know the exact units that were taken");
            }
        }
    }

    /// Workers read the clock before they reach a counter. So a take may come after one of a later
    /// time. Its units once stayed counted if they were given back by the time that its worker read.
    #[test]
    fn a_take_that_comes_late_is_undone_by_the_time_at_which_it_counts(
        algorithm in algorithms(),
        schedule in schedules(),
        late_us in 0..4000_u64,
        cost in 1..=4_u64,
    ) {
        let (mut counter, end) = Counter::after(&algorithm, &schedule);
        let before = counter.ask(Op::Peek, end).1.remaining;
        let now = end.minus(Span::from_micros(late_us));
        if counter.apply(Op::Take(cost), now).admitted {
            let taken = algorithm.counted_at(counter.state.as_ref().unwrap(), now);
            prop_assert!((now..=end).contains(&taken));
            match algorithm {
                Algorithm::TokenBucket(_) | Algorithm::LeakyBucket(_) => {
                    let after = counter.apply(Op::Cancel { cost, taken }, end).remaining;
                    prop_assert!(after >= before);
                }
                _ => {
                    let after = counter.apply(Op::Give { cost, taken }, end).remaining;
                    prop_assert_eq!(after, before);
                }
            }
        }
    }

    /// At most the units that wait to be given back are admitted beyond the bound.
    #[test]
    fn what_is_refused_elsewhere_lets_no_more_through_than_was_under_way(
        algorithm in algorithms(),
        steps in steps(),
    ) {
        let mut both = Both::new(&algorithm);
        let mut now = Timestamp::from_micros(1_795_246_126_000_000);
        for (step, (gap_us, cost, refused)) in steps.into_iter().enumerate() {
            now = now.plus(Span::from_micros(gap_us));
            both.step(step, now, cost, refused);
        }
        let slack = match algorithm {
            Algorithm::TokenBucket(_) | Algorithm::LeakyBucket(_) => both.most_under_way,
            _ => 0,
        };
        assert_within_bound_and(&algorithm, &both.kept, slack);
    }
}

/// A shared bucket that is nearly empty, and a client on 32 connections. Another limit
/// refuses each of the client's requests a millisecond later.
#[test]
fn a_client_that_another_limit_refuses_drains_no_bucket() {
    let quota = Quota::new(1000, Span::SECOND).unwrap();
    let algorithm = Algorithm::TokenBucket(TokenBucket::new(quota, 1000).unwrap());
    let mut counter = Counter::new(&algorithm);
    let mut now = Timestamp::from_micros(1_795_246_126_000_000);
    counter.apply(Op::Take(500), now);
    for _ in 0..1000 {
        // Other clients take the refilled units.
        counter.apply(Op::Take(1), now);
        let takes = (0..32).filter(|_| counter.apply(Op::Take(1), now).admitted).count();
        let taken = now;
        now = now.plus(Span::MILLISECOND);
        for _ in 0..takes {
            counter.apply(Op::Cancel { cost: 1, taken }, now);
        }
    }
    assert_eq!(counter.ask(Op::Peek, now).1.remaining, 500);
}

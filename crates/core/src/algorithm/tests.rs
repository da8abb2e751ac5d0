//! The guarantees of every algorithm, over random quotas, schedules, costs and clocks.

mod bans;
mod calendar;
mod concurrency;
mod counts;
mod debt;
mod generators;
mod log;
mod models;
mod months;
mod queue;
mod refunds;
mod scenarios;

use proptest::prelude::*;

use self::generators::{gaps, numbers, schedules};
use super::testing::{KINDS, algorithm, algorithms, cases};
use super::*;

/// One key under one algorithm.
struct Counter<'a> {
    algorithm: &'a Algorithm,
    state: Option<State>,
}

impl<'a> Counter<'a> {
    fn new(algorithm: &'a Algorithm) -> Self {
        Self { algorithm, state: None }
    }

    /// The key after a whole schedule, and the end of the schedule.
    fn after(algorithm: &'a Algorithm, schedule: &[(Timestamp, u64)]) -> (Self, Timestamp) {
        let mut counter = Self::new(algorithm);
        for &(now, cost) in schedule {
            counter.apply(Op::Take(cost), now);
        }
        (counter, schedule.last().map_or(Timestamp::default(), |&(now, _)| now))
    }

    fn apply(&mut self, op: Op, now: Timestamp) -> Verdict {
        let (next, verdict) = self.ask(op, now);
        self.state = next.or(self.state.take());
        verdict
    }

    fn ask(&self, op: Op, now: Timestamp) -> (Option<State>, Verdict) {
        self.algorithm.apply(self.state.as_ref(), op, now)
    }
}

/// The same algorithm with a limit and a burst that are `more` higher.
fn raised(algorithm: &Algorithm, more: u64) -> Algorithm {
    match algorithm {
        Algorithm::TokenBucket(bucket) => {
            let quota = Quota::new(algorithm.limit() + more, algorithm.window()).unwrap();
            Algorithm::TokenBucket(TokenBucket::new(quota, bucket.burst() + more).unwrap())
        }
        _ => algorithm.with_limit(algorithm.limit() + more).unwrap(),
    }
}

/// The documented bound: the most units in any time of `span_us`, in parts of a unit. A
/// unit has as many parts as the window has microseconds.
fn bound(algorithm: &Algorithm, span_us: u64) -> Option<u64> {
    let limit = algorithm.limit();
    let window_us = algorithm.window().as_micros();
    let paced = limit * span_us;
    match algorithm {
        Algorithm::SlidingWindow(_) => (span_us <= window_us).then_some(limit * window_us + paced),
        Algorithm::SubWindows(_) => (span_us < window_us).then_some(limit * window_us),
        Algorithm::SlidingLog(_) => (span_us < window_us).then_some(limit * window_us),
        Algorithm::FixedWindow(_) => (span_us < window_us).then_some(2 * limit * window_us),
        Algorithm::TokenBucket(bucket) => Some(bucket.burst() * window_us + paced),
        Algorithm::LeakyBucket(bucket) => Some(queue::capacity(bucket) + paced),
        Algorithm::Concurrency(_) | Algorithm::Ban(_) => None,
    }
}

fn assert_within_bound(algorithm: &Algorithm, admitted: &[(Timestamp, u64)]) {
    assert_within_bound_and(algorithm, admitted, 0);
}

/// Asserts that at most the bound and these units were admitted.
fn assert_within_bound_and(algorithm: &Algorithm, admitted: &[(Timestamp, u64)], more: u64) {
    for (first, &(from, _)) in admitted.iter().enumerate() {
        let mut units = 0;
        for &(to, cost) in &admitted[first..] {
            units += cost;
            let span_us = to.since(from).as_micros();
            if let Some(most) = bound(algorithm, span_us) {
                let parts = units.saturating_sub(more) * algorithm.window().as_micros();
                assert!(parts <= most, "{units} units in {span_us} us");
            }
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn never_more_than_the_bound_in_any_window(
        algorithm in algorithms(),
        schedule in schedules(),
    ) {
        let mut counter = Counter::new(&algorithm);
        let admitted: Vec<_> = schedule
            .into_iter()
            .filter(|&(now, cost)| counter.apply(Op::Take(cost), now).admitted)
            .collect();
        assert_within_bound(&algorithm, &admitted);
    }

    /// The time until which units may be taken in advance without a difference to taking
    /// them later.
    #[test]
    fn until_the_edge_it_makes_no_difference_when_a_unit_is_taken(
        algorithm in algorithms(),
        schedule in schedules(),
        cost in 1..=4_u64,
        later in any::<prop::sample::Index>(),
    ) {
        let (counter, now) = Counter::after(&algorithm, &schedule);
        let Some(edge) = algorithm.edge(now) else { return Ok(()) };
        let left_us = usize::try_from(edge.since(now).as_micros()).unwrap();
        prop_assert!(edge >= now && left_us <= 1500);
        let later = later.index(left_us.max(1));
        let later = now.plus(Span::from_micros(u64::try_from(later).unwrap()));
        let (next, at_once) = counter.ask(Op::Take(cost), now);
        if at_once.admitted {
            prop_assert_eq!(next, counter.ask(Op::Take(cost), later).0);
        }
    }

    /// Units that are given back later count until then, so the remaining units stay within
    /// the bound.
    #[test]
    fn giving_back_never_lets_more_through_than_the_bound(
        algorithm in algorithms(),
        schedule in schedules(),
        given in prop::collection::vec(any::<bool>(), 60),
        delay in 0..8_usize,
    ) {
        let mut counter = Counter::new(&algorithm);
        let mut kept = Vec::new();
        let mut waiting = Vec::new();
        for (step, &(now, cost)) in schedule.iter().enumerate() {
            if counter.apply(Op::Take(cost), now).admitted {
                if given[step] { waiting.push((step, now, cost)) } else { kept.push((now, cost)) }
            }
            if let Some(&(since, taken, cost)) = waiting.first() {
                if step >= since + delay {
                    waiting.remove(0);
                    counter.apply(Op::Give { cost, taken }, now);
                }
            }
        }
        assert_within_bound(&algorithm, &kept);
    }

    /// The times as a clock shows them that only moves forward, whatever the real one does.
    #[test]
    fn a_clock_that_jumps_both_ways_lets_no_more_through(
        algorithm in algorithms(),
        schedule in schedules(),
        jumps in prop::collection::vec(prop_oneof![3 => Just(0), 1 => 0..4000_u64], 60),
    ) {
        let mut counter = Counter::new(&algorithm);
        let mut latest = Timestamp::default();
        let mut admitted = Vec::new();
        for (&(now, cost), back_us) in schedule.iter().zip(jumps) {
            let now = now.minus(Span::from_micros(back_us));
            if counter.apply(Op::Take(cost), now).admitted {
                latest = latest.max(now);
                admitted.push((latest, cost));
            }
        }
        assert_within_bound(&algorithm, &admitted);
    }

    #[test]
    fn an_earlier_clock_admits_no_more_than_a_later_one(
        algorithm in algorithms(),
        schedule in schedules(),
        (back, ahead) in (0..4000_u64, 0..2000_u64),
    ) {
        let (counter, end) = Counter::after(&algorithm, &schedule);
        let later = end.plus(Span::from_micros(ahead));
        let earlier = later.minus(Span::from_micros(back));
        let remaining = |now| counter.ask(Op::Peek, now).1.remaining;
        prop_assert!(remaining(earlier) <= remaining(later));
    }

    #[test]
    fn a_refused_take_passes_at_its_earliest_time_and_not_a_microsecond_sooner(
        algorithm in algorithms(),
        schedule in schedules(),
        cost in 1..=14_u64,
        back_us in prop_oneof![Just(0), 0..3000_u64],
    ) {
        let (counter, end) = Counter::after(&algorithm, &schedule);
        let now = end.minus(Span::from_micros(back_us));
        match counter.ask(Op::Take(cost), now).1.retry {
            Retry::Now => prop_assert!(cost <= algorithm.capacity()),
            Retry::Never => prop_assert!(cost > algorithm.capacity()),
            Retry::After(wait) => {
                let earliest = now.plus(wait);
                prop_assert!(cost <= algorithm.capacity() && earliest > now);
                let before = earliest.minus(Span::from_micros(1));
                prop_assert!(!counter.ask(Op::Take(cost), before).1.admitted);
                prop_assert!(counter.ask(Op::Take(cost), earliest).1.admitted);
            }
        }
    }

    #[test]
    fn as_many_units_pass_as_remain_and_not_one_more(
        algorithm in algorithms(),
        schedule in schedules(),
    ) {
        let (mut counter, now) = Counter::after(&algorithm, &schedule);
        let peeked = counter.ask(Op::Peek, now).1;
        prop_assert_eq!(peeked.admitted, peeked.remaining > 0);
        for left in (0..peeked.remaining).rev() {
            let verdict = counter.apply(Op::Take(1), now);
            prop_assert!(verdict.admitted);
            prop_assert_eq!(verdict.remaining, left);
        }
        prop_assert!(!counter.apply(Op::Take(1), now).admitted);
    }

    #[test]
    fn only_what_is_admitted_changes_the_state(
        algorithm in algorithms(),
        schedule in schedules(),
        cost in 1..=14_u64,
    ) {
        let (counter, now) = Counter::after(&algorithm, &schedule);
        let (next, verdict) = counter.ask(Op::Take(cost), now);
        prop_assert_eq!(next.is_some(), verdict.admitted);
        prop_assert!(counter.ask(Op::Peek, now).0.is_none());
    }

    #[test]
    fn giving_back_at_once_undoes_a_take(
        algorithm in algorithms(),
        schedule in schedules(),
        cost in 1..=4_u64,
        probes in prop::collection::vec(0..4000_u64, 8),
    ) {
        let (before, end) = Counter::after(&algorithm, &schedule);
        let (mut counter, _) = Counter::after(&algorithm, &schedule);
        // Of two takes in the same microsecond a queue gives neither back.
        let now = end.plus(Span::from_micros(1));
        if counter.apply(Op::Take(cost), now).admitted {
            let verdict = counter.apply(Op::Give { cost, taken: now }, now);
            prop_assert_eq!(verdict.remaining, before.ask(Op::Peek, now).1.remaining);
        }
        for later_us in probes {
            let later = now.plus(Span::from_micros(1 + later_us));
            prop_assert_eq!(counter.ask(Op::Take(2), later), before.ask(Op::Take(2), later));
        }
    }

    /// The counter never falls below zero, whatever `Give` claims to have been taken.
    #[test]
    fn giving_back_never_makes_more_room_than_a_fresh_key_has(
        algorithm in algorithms(),
        schedule in schedules(),
        cost in prop_oneof![1..20_u64, any::<u64>()],
        (taken, later) in (0..4000_u64, 0..4000_u64),
    ) {
        let (mut counter, end) = Counter::after(&algorithm, &schedule);
        let taken = end.minus(Span::from_micros(taken));
        let now = end.plus(Span::from_micros(later));
        let before = counter.ask(Op::Peek, now).1.remaining;
        let verdict = counter.apply(Op::Give { cost, taken }, now);
        prop_assert!((before..=algorithm.capacity()).contains(&verdict.remaining));
    }

    #[test]
    fn an_expired_state_equals_none_and_one_about_to_expire_does_not(
        algorithm in algorithms(),
        schedule in schedules(),
        cost in 1..=14_u64,
        later_us in prop_oneof![Just(0), 0..5000_u64],
    ) {
        let (counter, _) = Counter::after(&algorithm, &schedule);
        let Some(state) = &counter.state else { return Ok(()) };
        let end = algorithm.expires_at(state);
        let now = end.plus(Span::from_micros(later_us));
        let fresh = Counter::new(&algorithm);
        prop_assert_eq!(counter.ask(Op::Take(cost), now), fresh.ask(Op::Take(cost), now));
        let before = end.minus(Span::from_micros(1));
        let verdict = counter.ask(Op::Peek, before).1;
        prop_assert_eq!(verdict.reset_after, Span::from_micros(1));
        // A queue may have as many slots, but all of them later.
        prop_assert!(verdict.remaining < algorithm.capacity() || verdict.delay > Span::ZERO);
    }

    #[test]
    fn a_raised_limit_helps_at_once_and_a_lowered_one_resets_nobody(
        algorithm in algorithms(),
        schedule in schedules(),
        more in 1..=12_u64,
        later_us in 0..3000_u64,
    ) {
        let (counter, end) = Counter::after(&algorithm, &schedule);
        let now = end.plus(Span::from_micros(later_us));
        let room = |algorithm: &Algorithm| {
            algorithm.apply(counter.state.as_ref(), Op::Peek, now).1.remaining
        };
        let higher = raised(&algorithm, more);
        // Slots are whole numbers, and their number depends on the delay.
        let (helped, slack) = match algorithm {
            Algorithm::LeakyBucket(_) => (0, 1),
            _ => (more, 0),
        };
        prop_assert!(room(&higher) >= room(&algorithm) + helped);
        // The same state, written under the higher limit, and judged under the lower one.
        let (written, end) = Counter::after(&higher, &schedule);
        let lowered = Counter { algorithm: &algorithm, state: written.state.clone() };
        let used = higher.capacity() - written.ask(Op::Peek, end).1.remaining;
        let remaining = lowered.ask(Op::Peek, end).1.remaining;
        prop_assert!(remaining <= algorithm.capacity().saturating_sub(used) + slack);
    }
}

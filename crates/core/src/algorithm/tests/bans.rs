//! Bans begin at once, end to the microsecond, double their length, and are forgotten.

use proptest::prelude::*;

use super::*;

fn ban(first_us: u64, longest_us: u64) -> Algorithm {
    Algorithm::Ban(Ban::new(Span::from_micros(first_us), Span::from_micros(longest_us)).unwrap())
}

impl Counter<'_> {
    fn impose(&mut self, now: Timestamp) {
        self.apply(Op::Settle { reserved: 0, actual: 1, taken: now }, now);
    }

    /// The remaining length of the client's ban.
    fn left(&self, now: Timestamp) -> Span {
        match self.ask(Op::Take(1), now).1.retry {
            Retry::Now => Span::ZERO,
            Retry::After(wait) => wait,
            Retry::Never => panic!("a ban ends"),
        }
    }
}

fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(us)
}

#[test]
fn each_ban_lasts_twice_as_long_up_to_the_longest_and_restarts_when_forgotten() {
    let ban = ban(5, 30);
    let mut counter = Counter::new(&ban);
    let mut now = at(1000);
    let mut impose = |quiet_us: u64| {
        now = now.plus(Span::from_micros(quiet_us));
        counter.impose(now);
        let length = counter.left(now);
        now = now.plus(length);
        length.as_micros()
    };
    assert_eq!([0, 29, 29, 29, 29].map(&mut impose), [5, 10, 20, 30, 30]);
    assert_eq!([30, 29, 30].map(impose), [5, 10, 5]);
}

#[test]
fn a_second_ban_during_a_ban_changes_nothing() {
    let ban = ban(5, 30);
    let mut counter = Counter::new(&ban);
    counter.impose(at(1000));
    counter.impose(at(1004));
    assert_eq!(counter.left(at(1004)), Span::from_micros(1));
    counter.impose(at(1005));
    assert_eq!(counter.left(at(1005)), Span::from_micros(10));
}

#[test]
fn the_length_of_a_ban_is_not_zero_and_not_above_the_longest() {
    let new = |first_us, longest_us| {
        Ban::new(Span::from_micros(first_us), Span::from_micros(longest_us)).map(drop)
    };
    assert_eq!(new(1, 1), Ok(()));
    for (first_us, longest_us) in [(0, 1), (2, 1), (1, MAX_WINDOW.as_micros() + 1)] {
        assert_eq!(new(first_us, longest_us), Err(QuotaError::Ban));
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_banned_client_is_refused_until_the_end_and_admitted_at_it(
        (first_us, more_us) in (1..1000_u64, 0..100_000_u64),
        gaps_us in prop::collection::vec(prop_oneof![0..2000_u64, 0..200_000_u64], 1..40),
        cost in 1..5_u64,
    ) {
        let longest = Span::from_micros(first_us + more_us);
        let ban = ban(first_us, longest.as_micros());
        let mut counter = Counter::new(&ban);
        let mut now = at(1_795_246_126_000_000);
        for gap_us in gaps_us {
            now = now.plus(Span::from_micros(gap_us));
            counter.impose(now);
            let left = counter.left(now);
            prop_assert!(left > Span::ZERO && left <= longest);
            let end = now.plus(left);
            let before = end.minus(Span::from_micros(1));
            let refused = counter.ask(Op::Take(cost), before).1;
            prop_assert_eq!((refused.admitted, refused.remaining), (false, 0));
            prop_assert!(counter.ask(Op::Take(cost), end).1.admitted);
            // A peek changes nothing, whatever the answer.
            let asked = counter.ask(Op::Take(cost), end).0;
            prop_assert_eq!(asked.as_ref(), counter.state.as_ref());
        }
    }

    #[test]
    fn forgotten_bans_equal_none_and_those_about_to_be_forgotten_do_not(
        imposed in 1..10_u32,
        later_us in prop_oneof![Just(0), 0..100_u64],
    ) {
        let ban = ban(3, 100);
        let mut counter = Counter::new(&ban);
        let mut now = at(5000);
        for _ in 0..imposed {
            counter.impose(now);
            now = now.plus(counter.left(now));
        }
        let end = ban.expires_at(counter.state.as_ref().unwrap());
        let imposed_at = |now| {
            let mut counter = Counter { algorithm: &ban, state: counter.state.clone() };
            counter.impose(now);
            counter.left(now)
        };
        prop_assert_eq!(imposed_at(end.plus(Span::from_micros(later_us))), Span::from_micros(3));
        prop_assert!(imposed_at(end.minus(Span::from_micros(1))) > Span::from_micros(3));
    }

    #[test]
    fn no_ban_overflows(
        (first_us, longest_us) in (1..=MAX_WINDOW.as_micros(), 1..=MAX_WINDOW.as_micros()),
        (until_us, bans) in (numbers(), any::<u8>()),
        op in prop_oneof![
            numbers().prop_map(Op::Take),
            (numbers(), numbers()).prop_map(|(reserved, actual)| {
                Op::Settle { reserved, actual, taken: Timestamp::default() }
            }),
            numbers().prop_map(|cost| Op::Give { cost, taken: Timestamp::default() }),
            Just(Op::Peek),
        ],
        now_us in numbers(),
    ) {
        let ban = ban(first_us.min(longest_us), longest_us);
        let state = State::Ban { until: at(until_us), bans };
        let (next, verdict) = ban.apply(Some(&state), op, at(now_us));
        prop_assert!(verdict.remaining <= ban.capacity());
        if let Some(next) = next {
            prop_assert!(ban.expires_at(&next) >= ban.expires_at(&state));
        }
    }
}

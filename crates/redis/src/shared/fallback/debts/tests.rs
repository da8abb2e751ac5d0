//! Debts of all algorithms: never more units than were added, and no fewer than still count.

use proptest::prelude::*;
use tollgate_core::algorithm::testing::{algorithms, cases};
use tollgate_core::algorithm::{LeakyBucket, SlidingLog, SlidingWindow, TokenBucket};
use tollgate_core::digest::{Counter, Principal};
use tollgate_core::time::Span;

use super::*;

const KEY: Key = Key { principal: Principal::from_bits(1), counter: Counter::from_bits(2) };
const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

fn owed(debts: &mut Debts, now: Timestamp) -> u64 {
    let told = debts.take(9, now, |_| ServerStatus::Up);
    let units = told.iter().map(|debt| debt.units).sum();
    told.into_iter().for_each(|debt| debts.settled(debt));
    units
}

fn hourly(limit: u64) -> Quota {
    Quota::new(limit, Span::from_secs(3600)).unwrap()
}

#[test]
fn a_debt_is_reported_up_to_twice_the_limit() {
    let window = Algorithm::SlidingWindow(SlidingWindow::new(hourly(100)));
    let log = Algorithm::SlidingLog(SlidingLog::new(hourly(100)).unwrap());
    for algorithm in [window, log] {
        for (added, told) in [(150, 150), (200, 200), (10_000, 200)] {
            let mut debts = Debts::default();
            debts.add(KEY, &algorithm, added, Since::default(), NOW);
            assert_eq!(owed(&mut debts, NOW), told, "{}", algorithm.name());
        }
    }
}

#[test]
fn what_becomes_of_owed_units_is_counted() {
    let window = Algorithm::SlidingWindow(SlidingWindow::new(hourly(100)));
    let mut debts = Debts::default();
    let units = |debts: &Debts| debts.units().map(|(_, units)| *units).next().unwrap();
    debts.add(KEY, &window, 5, Since::default(), NOW);
    let told = |debts: &mut Debts| debts.take(1, NOW, |_| ServerStatus::Up).remove(0);
    let debt = told(&mut debts);
    debts.not_counted(debt, NOW);
    debts.add(KEY, &window, 1, Since::default(), NOW);
    let debt = told(&mut debts);
    debts.settled(debt);
    debts.add(KEY, &window, 2, Since::default(), NOW);
    let debt = told(&mut debts);
    debts.unknown(debt);
    let expected = DebtUnits { owed: 8, reported: 6, unknown: 2, dropped: 0 };
    assert_eq!(units(&debts), expected);
    for principal in (1..=MAX_DEBTS as u128).map(Principal::from_bits) {
        debts.add(Key { principal, ..KEY }, &window, 1, Since::default(), NOW);
    }
    let principal = Principal::from_bits(u128::MAX);
    debts.add(Key { principal, ..KEY }, &window, 3, Since::default(), NOW);
    assert_eq!(units(&debts), DebtUnits { owed: 8 + MAX_DEBTS as u64, dropped: 3, ..expected });
}

#[test]
fn a_debt_of_a_queue_expires_at_the_pace_of_the_queue() {
    let queue = LeakyBucket::new(hourly(3600), Span::from_secs(100), None).unwrap();
    let mut debts = Debts::default();
    debts.add(KEY, &Algorithm::LeakyBucket(queue), 60, Since::default(), NOW);
    assert_eq!(owed(&mut debts, NOW.plus(Span::from_secs(20))), 40);
}

/// The units of a node are multiplied by the number of nodes, on top of the level in the store.
#[test]
fn a_debt_of_a_bucket_is_whole_for_any_number_of_nodes_and_any_level() {
    let bucket = Algorithm::TokenBucket(TokenBucket::new(hourly(35), 22).unwrap());
    for (nodes, level, units) in [(1, 29, 7), (4, 29, 7), (4, 44, 1), (4, 0, 22), (100, 22, 22)] {
        let charge = Op::Settle { reserved: 0, actual: level, taken: NOW };
        let level = bucket.apply(None, charge, NOW).0;
        let mut debts = Debts::default();
        debts.add(KEY, &bucket, units, Since { level, nodes }, NOW);
        assert_eq!(owed(&mut debts, NOW), units, "{nodes} nodes");
    }
}

/// A debt that is reported before a question leaves its turn. Their number is bounded.
#[test]
fn turns_that_are_left_are_bounded_and_hide_no_debt() {
    let window = Algorithm::SlidingWindow(SlidingWindow::new(hourly(100)));
    let mut debts = Debts::default();
    for _ in 0..2 * MAX_DEBTS + 9 {
        debts.add(KEY, &window, 1, Since::default(), NOW);
        if let Some(debt) = debts.take_of(&KEY, NOW) {
            debts.settled(debt);
        }
    }
    assert_eq!(debts.turns.len(), 2 * MAX_DEBTS);
    let told: u64 = (0..=2 * MAX_DEBTS / MAX_LOOKED_AT).map(|_| owed(&mut debts, NOW)).sum();
    assert_eq!((told, debts.turns.len()), (10, 0));
}

#[test]
fn an_overdue_reply_does_not_delay_other_debts() {
    let window = Algorithm::SlidingWindow(SlidingWindow::new(hourly(100)));
    let other = Key { principal: Principal::from_bits(2), ..KEY };
    let mut debts = Debts::default();
    debts.add(KEY, &window, 1, Since::default(), NOW);
    debts.add(other, &window, 1, Since::default(), NOW);
    let untried = |debts: &mut Debts| debts.take(9, NOW, |_| ServerStatus::Probing);
    let mut first = untried(&mut debts);
    assert_eq!(first.len(), 1);
    assert_eq!(untried(&mut debts).len(), 0, "only one debt is reported to a server that is back");
    debts.overdue(&mut first[0]);
    assert_eq!(untried(&mut debts).len(), 1);
    debts.add(KEY, &window, 1, Since::default(), NOW);
    assert_eq!(untried(&mut debts).len(), 0, "the second debt has no reply yet");
    first.into_iter().for_each(|debt| debts.settled(debt));
    assert_eq!(untried(&mut debts).len(), 0);
}

proptest! {
    #![proptest_config(cases())]

    /// However debts are added, reported and reported again, no more units are reported than
    /// were added.
    #[test]
    fn no_unit_is_reported_twice(
        algorithm in algorithms(),
        steps in prop::collection::vec((0..4_u8, 0..9_u64, 0..1_000_000_u64), 1..40),
    ) {
        let mut debts = Debts::default();
        let mut now = NOW;
        let mut added = 0;
        let mut told = 0;
        let counts = !matches!(algorithm, Algorithm::Concurrency(_) | Algorithm::Ban(_));
        prop_assume!(counts);
        for (step, units, later_us) in steps {
            now = now.plus(Span::from_micros(later_us));
            match step {
                0 | 1 => {
                    added += units;
                    debts.add(KEY, &algorithm, units, Since::default(), now);
                }
                2 => told += owed(&mut debts, now),
                _ => for debt in debts.take(9, now, |_| ServerStatus::Up) {
                    debts.not_counted(debt, now);
                },
            }
            prop_assert_eq!(debts.told, 0);
            prop_assert!(told <= added, "{} of {}", told, added);
        }
    }

    /// When a debt is added, all its units count, up to the capacity.
    #[test]
    fn a_new_debt_is_reported_completely(algorithm in algorithms(), units in 0..50_u64) {
        let counts = !matches!(algorithm, Algorithm::Concurrency(_) | Algorithm::Ban(_));
        prop_assume!(counts);
        let mut debts = Debts::default();
        debts.add(KEY, &algorithm, units, Since::default(), NOW);
        prop_assert!(owed(&mut debts, NOW) >= units.min(algorithm.capacity()));
    }
}

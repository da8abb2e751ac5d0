//! Each policy does what its owner chose, and the store is told once.

use super::*;
use crate::algorithm::{Concurrency, FixedWindow, Quota};
use crate::digest::{Counter, Principal};
use crate::terms::Terms;

const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

fn fixed(limit: u64) -> Algorithm {
    Algorithm::FixedWindow(FixedWindow::new(Quota::new(limit, Span::DAY).unwrap()))
}

fn charge(number: u64, algorithm: &Algorithm, on_failure: OnFailure) -> Charge<'_> {
    Charge {
        key: Key {
            // As a digest would be: all bits look random.
            principal: Principal::from_bits(fastrand::Rng::with_seed(number).u128(..)),
            counter: Counter::from_bits(number),
        },
        algorithm,
        cost: 1,
        binding: true,
        terms: Terms { on_failure, ..Terms::default() },
    }
}

fn fallback() -> Fallback {
    Fallback::new(Arc::new(MemoryStore::new(100)))
}

fn said(answers: &[Answer]) -> Vec<(bool, Source)> {
    answers.iter().map(|it| (it.verdict.admitted, it.source)).collect()
}

#[test]
fn each_charge_is_judged_as_its_terms_say() {
    let ten = fixed(10);
    let charges = [charge(1, &ten, OnFailure::Local), charge(2, &ten, OnFailure::Allow)];
    let answers = fallback().judge(&charges, false, false, 1, NOW);
    assert_eq!(said(&answers), [(true, Source::Local), (true, Source::Nobody)]);
    assert_eq!((answers[0].verdict.remaining, answers[1].verdict.remaining), (9, 10));
}

#[test]
fn one_that_refuses_what_nobody_judges_keeps_the_others_from_counting() {
    let (ten, fallback) = (fixed(10), fallback());
    let charges = [charge(1, &ten, OnFailure::Local), charge(2, &ten, OnFailure::Deny)];
    let answers = fallback.judge(&charges, false, false, 1, NOW);
    assert_eq!(said(&answers), [(true, Source::Local), (false, Source::Nobody)]);
    assert_eq!(answers[0].verdict.remaining, 10);
    assert_eq!(answers[1].verdict.retry, Retry::After(Span::SECOND));
    assert!(fallback.owed(9, NOW).is_empty());
}

#[test]
fn what_is_refused_elsewhere_is_looked_at_and_not_counted() {
    let (ten, fallback) = (fixed(10), fallback());
    let charges = [charge(1, &ten, OnFailure::Local)];
    assert_eq!(fallback.judge(&charges, false, true, 1, NOW)[0].verdict.remaining, 10);
    assert!(fallback.owed(9, NOW).is_empty());
}

#[test]
fn a_node_admits_its_share_and_one_at_least() {
    let admitted = |limit, nodes| {
        let (algorithm, fallback) = (fixed(limit), fallback());
        let charges = [charge(1, &algorithm, OnFailure::Local)];
        let is_admitted =
            |_: &u64| fallback.judge(&charges, false, false, nodes, NOW)[0].verdict.admitted;
        (0..20).take_while(is_admitted).count()
    };
    assert_eq!(admitted(10, 1), 10);
    assert_eq!(admitted(10, 3), 3);
    assert_eq!(admitted(10, 100), 1);
    assert_eq!(admitted(10, 0), 10);
}

#[test]
fn the_store_is_told_once_of_what_it_cannot_know() {
    let (ten, fallback) = (fixed(10), fallback());
    let charges = [charge(1, &ten, OnFailure::Local)];
    for sent in [true, false, false] {
        fallback.judge(&charges, sent, false, 1, NOW);
    }
    let owed = fallback.owed(9, NOW);
    assert_eq!(
        owed.iter().map(|debt| (debt.key, debt.units)).collect::<Vec<_>>(),
        [(charges[0].key, 2)]
    );
    assert!(fallback.owed(9, NOW).is_empty());
    // What counts there now does not count here any more.
    assert_eq!(fallback.judge(&charges, false, false, 1, NOW)[0].verdict.remaining, 9);
}

#[test]
fn what_counts_no_more_is_not_told() {
    let (ten, fallback) = (fixed(10), fallback());
    fallback.judge(&[charge(1, &ten, OnFailure::Local)], false, false, 1, NOW);
    assert!(fallback.owed(9, NOW.plus(Span::DAY)).is_empty());
}

#[test]
fn what_is_in_flight_here_is_given_back_here() {
    let (single, fallback) = (Algorithm::Concurrency(Concurrency::new(1).unwrap()), fallback());
    let charge = charge(1, &single, OnFailure::Local);
    let is_admitted = || fallback.judge(&[charge], false, false, 1, NOW)[0].verdict.admitted;
    assert!(is_admitted() && !is_admitted());
    let op = Op::Give { cost: 1, taken: NOW };
    fallback.correct(&Correction { charge, source: Source::Local, op }, 1, NOW);
    assert!(is_admitted());
    assert!(fallback.owed(9, NOW).is_empty());
}

#[test]
fn a_flood_of_keys_is_not_remembered_beyond_its_bound() {
    let (ten, fallback) = (fixed(10), Fallback::new(Arc::new(MemoryStore::new(2 * MAX_OWING))));
    for number in 0..u64::try_from(MAX_OWING + 10).unwrap() {
        fallback.judge(&[charge(number, &ten, OnFailure::Local)], false, false, 1, NOW);
    }
    assert_eq!(fallback.owed(usize::MAX, NOW).len(), MAX_OWING);
}

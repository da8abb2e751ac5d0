//! Renewals, and units that are kept for the next request.

use tollgate_core::algorithm::Concurrency;
use tollgate_core::consistency::Consistency;
use tollgate_core::digest::{Counter, Principal};

use super::*;

const KEY: Key = Key { principal: Principal::from_bits(1), counter: Counter::from_bits(2) };

fn algorithm() -> Algorithm {
    Algorithm::Concurrency(Concurrency::new(9).unwrap())
}

fn charge(algorithm: &Algorithm) -> Charge<'_> {
    Charge { key: KEY, algorithm, cost: 2, binding: true, consistency: Consistency::default() }
}

fn renewals(held: &RefCell<InFlight>, secs: u64) -> Vec<(u64, u64)> {
    let at = Timestamp::default().plus(Span::from_secs(100 + secs));
    held.borrow_mut().due(at).into_iter().map(|it| (it.units, it.asked)).collect()
}

/// The same, if all calls have replies.
fn due(held: &RefCell<InFlight>, secs: u64) -> Vec<u64> {
    let held_only = |(units, asked)| {
        assert_eq!(asked, 0);
        units
    };
    renewals(held, secs).into_iter().map(held_only).collect()
}

#[test]
fn held_units_are_renewed_every_five_seconds_until_they_are_given_back() {
    let algorithm = algorithm();
    let held = RefCell::<InFlight>::default();
    held.borrow_mut().take(&charge(&algorithm), 9, Timestamp::default());
    held.borrow_mut().take(&charge(&algorithm), 9, Timestamp::default());
    assert_eq!(due(&held, 0), [4]);
    assert!(due(&held, 4).is_empty());
    held.borrow_mut().give(KEY, 3, Timestamp::default());
    assert_eq!(due(&held, 5), [1]);
    held.borrow_mut().give(KEY, 3, Timestamp::default());
    assert!(due(&held, 10).is_empty());
    assert!(held.borrow().counters.is_empty());
}

#[test]
fn a_renewal_does_not_remove_units_of_calls_without_a_reply() {
    let algorithm = algorithm();
    let held = RefCell::<InFlight>::default();
    held.borrow_mut().take(&charge(&algorithm), 9, Timestamp::default());
    let awaited = InFlight::ask(&held, [charge(&algorithm)].into_iter());
    assert_eq!(renewals(&held, 0), [(2, 2)], "the store knows whether it has admitted them");
    held.borrow_mut().take(&charge(&algorithm), 9, Timestamp::default());
    drop(awaited);
    assert_eq!(due(&held, 5), [4]);
    drop(InFlight::ask(&held, [charge(&algorithm)].into_iter()));
    assert_eq!(due(&held, 10), [4], "a refused or abandoned request holds nothing");
}

#[test]
fn units_are_renewed_at_once_if_a_reply_is_missing() {
    let algorithm = algorithm();
    let held = RefCell::<InFlight>::default();
    assert!(due(&held, 0).is_empty());
    held.borrow_mut().doubt(KEY, &algorithm);
    assert_eq!(due(&held, 1), [0]);
    assert!(due(&held, 2).is_empty(), "only once");
    assert!(held.borrow().counters.is_empty());
    held.borrow_mut().take(&charge(&algorithm), 9, Timestamp::default());
    held.borrow_mut().doubt(KEY, &algorithm);
    let awaited = InFlight::ask(&held, [charge(&algorithm)].into_iter());
    assert_eq!(renewals(&held, 3), [(2, 2)], "units of calls without a reply stay counted");
    assert!(renewals(&held, 4).is_empty(), "the renewal is not repeated");
    drop(awaited);
    assert_eq!(due(&held, 4), [2], "the renewal after the replies has the held units");
    assert!(due(&held, 4).is_empty());
}

#[test]
fn released_units_are_not_renewed() {
    let algorithm = algorithm();
    let held = RefCell::<InFlight>::default();
    held.borrow_mut().take(&charge(&algorithm), 9, Timestamp::default());
    let released = held.borrow_mut().release();
    assert_eq!(released.iter().map(|it| (it.key, it.units)).collect::<Vec<_>>(), [(KEY, 0)]);
    assert!(due(&held, 0).is_empty());
}

/// A limit that is large enough to keep units.
fn large() -> Algorithm {
    Algorithm::Concurrency(Concurrency::new(100).unwrap())
}

fn at(ms: u64) -> Timestamp {
    Timestamp::default().plus(Span::from_millis(1_000_000 + ms))
}

/// Charges that were taken and given back while `room` units fitted.
fn with_kept(algorithm: &Algorithm, charges: usize, room: u64) -> InFlight {
    let mut held = InFlight::default();
    for _ in 0..charges {
        held.take(&charge(algorithm), room, at(0));
    }
    for _ in 0..charges {
        held.give(KEY, 2, at(0));
    }
    held
}

fn spends(held: &mut InFlight, algorithm: &Algorithm, ms: u64) -> bool {
    held.spend([charge(algorithm)].into_iter(), at(ms)).is_some()
}

fn unneeded(held: &mut InFlight, ms: u64) -> Vec<u64> {
    held.unneeded(at(ms)).into_iter().map(|it| it.units).collect()
}

#[test]
fn units_of_an_ended_request_are_kept_for_the_next_request() {
    let algorithm = large();
    let mut held = with_kept(&algorithm, 2, 90);
    let verdict = held.spend([charge(&algorithm)].into_iter(), at(1)).unwrap()[0];
    assert!(verdict.admitted && verdict.remaining == 90, "{verdict:?}");
    assert!(spends(&mut held, &algorithm, 1));
    assert!(!spends(&mut held, &algorithm, 1), "all kept units are used");
    assert_eq!(held.give(KEY, 2, at(1)), 0);
    // Kept units are renewed like units in flight.
    assert_eq!(held.due(at(2))[0].units, 4);
}

#[test]
fn unneeded_kept_units_are_given_back_at_the_second_look() {
    let algorithm = large();
    let mut held = with_kept(&algorithm, 3, 90);
    assert!(unneeded(&mut held, 100).is_empty());
    assert!(spends(&mut held, &algorithm, 150));
    assert_eq!(held.give(KEY, 2, at(160)), 0);
    assert_eq!(unneeded(&mut held, 200), [4], "one of three was needed");
    assert_eq!(unneeded(&mut held, 300), [2]);
    assert!(unneeded(&mut held, 400).is_empty());
    assert!(held.counters.is_empty());
}

#[test]
fn no_units_are_kept_near_the_limit_or_of_small_limits() {
    for (algorithm, room) in [(large(), 49), (algorithm(), 9)] {
        let mut held = InFlight::default();
        held.take(&charge(&algorithm), room, at(0));
        assert_eq!(held.give(KEY, 2, at(0)), 2);
        assert!(!spends(&mut held, &algorithm, 1));
        assert!(held.counters.is_empty());
    }
    let algorithm = large();
    let mut held = with_kept(&algorithm, 3, 90);
    held.hear(KEY, &algorithm, 10, at(50));
    assert!(!spends(&mut held, &algorithm, 60), "the limit is near now");
    assert_eq!(unneeded(&mut held, 100), [6]);
}

/// Regression: what fitted under the limit of one request was compared with the limit of another, so
/// that requests above their limit were admitted.
#[test]
fn kept_units_are_used_under_the_limit_of_the_request_that_uses_them() {
    let algorithm = |limit| Algorithm::Concurrency(Concurrency::new(limit).unwrap());
    let [low, high] = [33, 200].map(algorithm);
    // The store counts 45 units.
    let mut held = with_kept(&high, 3, 155);
    assert!(!spends(&mut held, &low, 1), "45 of 33 are in flight");
    assert!(spends(&mut held, &high, 1));
    // The limit of the key was lowered. The next look is that of another request.
    held.hear(KEY, &high, 155, at(2));
    assert!(!spends(&mut held, &low, 3));
    assert_eq!(held.give(KEY, 2, at(4)), 0);
    // A renewal under the lower limit says that nothing fits: there may be any number of units.
    held.hear(KEY, &low, 0, at(5));
    assert!(!spends(&mut held, &high, 6));
    // With 10 units, requests of both limits may use them, and are told what is left.
    held.hear(KEY, &high, 190, at(7));
    for (algorithm, remaining) in [(&low, 23), (&high, 190)] {
        let verdict = held.spend([charge(algorithm)].into_iter(), at(8)).unwrap()[0];
        assert!(verdict.admitted && verdict.remaining == remaining, "{verdict:?}");
    }
}

#[test]
fn units_that_the_store_may_have_forgotten_are_not_used() {
    let algorithm = large();
    let mut held = with_kept(&algorithm, 3, 90);
    assert!(!spends(&mut held, &algorithm, 10_000));
    held.hear(KEY, &algorithm, 90, at(9000));
    assert!(spends(&mut held, &algorithm, 15_000));
    assert_eq!(held.give(KEY, 2, at(19_000)), 2, "and not kept");
}

#[test]
fn a_request_with_two_limits_uses_kept_units_of_both_or_of_none() {
    let algorithm = large();
    let other = Key { counter: Counter::from_bits(3), ..KEY };
    let mut held = with_kept(&algorithm, 1, 90);
    let both = [charge(&algorithm), Charge { key: other, ..charge(&algorithm) }];
    assert!(held.spend(both.into_iter(), at(1)).is_none());
    assert!(spends(&mut held, &algorithm, 1), "the refused request has used none");
}

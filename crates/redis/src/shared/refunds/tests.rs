//! What is kept, for how long, and what is sent again.

use tollgate_core::algorithm::{Concurrency, FixedWindow, Quota, SlidingWindow, TokenBucket};
use tollgate_core::testing::key;
use tollgate_core::time::Span;

use super::*;

/// 2026-11-21T07:28:46Z.
const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

fn quota(limit: u64, window: Span) -> Quota {
    Quota::new(limit, window).expect("a quota")
}

fn daily(limit: u64) -> Algorithm {
    Algorithm::FixedWindow(FixedWindow::new(quota(limit, Span::DAY)))
}

fn refund(client: u128, algorithm: &Algorithm, units: u64) -> Refund {
    let ask = Ask::Cancel { cost: units, taken: NOW };
    Refund::of(key(client), algorithm, ask).expect("units that stay counted")
}

fn later(s: u64) -> Timestamp {
    NOW.plus(Span::from_secs(s))
}

fn take_all(refunds: &mut Refunds, now: Timestamp) -> Vec<Refund> {
    refunds.take(usize::MAX, now, |_| ServerStatus::Up)
}

#[test]
fn what_gives_back_no_counted_units_is_no_refund() {
    let flights = Algorithm::Concurrency(Concurrency::new(9).expect("a limit"));
    let give = Ask::Give { cost: 1, taken: NOW };
    assert!(Refund::of(key(1), &flights, give).is_none());
    assert!(Refund::of(key(1), &daily(9), Ask::Give { cost: 0, taken: NOW }).is_none());
    assert!(Refund::of(key(1), &daily(9), Ask::Charge(1)).is_none());
    assert!(Refund::of(key(1), &daily(9), give).is_some());
}

/// A bucket may have leaked since, so not all of its units are given back.
#[test]
fn a_cancel_is_sent_again_as_a_give() {
    let bucket = TokenBucket::new(quota(60, Span::from_secs(60)), 60).expect("a bucket");
    let mut refunds = Refunds::default();
    assert!(refunds.keep(refund(1, &Algorithm::TokenBucket(bucket), 50), NOW));
    let sent = take_all(&mut refunds, later(10));
    assert_eq!(sent[0].ask(), Ask::Give { cost: 50, taken: NOW });
}

#[test]
fn a_refund_waits_as_long_as_its_units_count() {
    let minute = Span::from_secs(60);
    let sliding = Algorithm::SlidingWindow(SlidingWindow::new(quota(100, minute)));
    let bucket = TokenBucket::new(quota(60, minute), 60).expect("a bucket");
    // NOW is 46 s after the beginning of a minute, and the next day begins in 59,474 s.
    let cases = [
        (sliding, [73, 74]),
        (Algorithm::TokenBucket(bucket), [29, 30]),
        (daily(100), [59_473, 59_474]),
    ];
    for (algorithm, [last_s, over_s]) in cases {
        let mut refunds = Refunds::default();
        assert!(refunds.keep(refund(1, &algorithm, 30), NOW));
        assert!(refunds.keep(refund(1, &algorithm, 30), later(over_s)), "it needs no room");
        assert_eq!(refunds.waiting(), 1, "{algorithm:?}");
        let none = refunds.take(9, later(last_s), |_| ServerStatus::Down);
        assert!(none.is_empty() && refunds.waiting() == 1, "{algorithm:?}");
        assert!(take_all(&mut refunds, later(over_s)).is_empty(), "{algorithm:?}");
        assert_eq!((refunds.waiting(), refunds.units_kept()), (0, [0, 0]), "{algorithm:?}");
    }
}

#[test]
fn one_refund_is_sent_to_a_server_that_has_not_answered_yet() {
    let mut refunds = Refunds::default();
    (0..5).for_each(|client| assert!(refunds.keep(refund(client, &daily(9), 1), NOW)));
    let probe = |refunds: &mut Refunds| refunds.take(9, NOW, |_| ServerStatus::Probing).len();
    assert_eq!([probe(&mut refunds), probe(&mut refunds), refunds.waiting()], [1, 0, 4]);
    refunds.ended();
    assert_eq!(probe(&mut refunds), 1);
    refunds.ended();
    assert_eq!((refunds.take(2, NOW, |_| ServerStatus::Up).len(), refunds.waiting()), (2, 1));
}

/// Responses that end in a long outage do not fill the memory, and what is dropped is counted.
#[test]
fn the_refunds_that_wait_and_those_that_are_sent_have_a_bound() {
    let mut refunds = Refunds::default();
    let algorithm = daily(9);
    for client in 0..MAX_REFUNDS {
        assert!(refunds.keep(refund(client as u128, &algorithm, 2), NOW));
    }
    assert!(!refunds.keep(refund(1, &algorithm, 7), NOW));
    assert_eq!((refunds.waiting(), refunds.units_kept()), (MAX_REFUNDS, [0, 7]));
    let mut sent = 0;
    while let more @ 1.. = refunds.take(64, NOW, |_| ServerStatus::Up).len() {
        sent += more;
    }
    assert_eq!((sent, refunds.waiting()), (MAX_SENT, MAX_REFUNDS - MAX_SENT));
    // What has expired makes room.
    let tomorrow = later(100_000);
    (0..MAX_SENT).for_each(|_| assert!(refunds.keep(refund(1, &algorithm, 2), NOW)));
    let next = Refund { taken: tomorrow, ..refund(1, &algorithm, 3) };
    assert!(refunds.keep(next, tomorrow));
    assert_eq!((refunds.waiting(), refunds.units_kept()), (MAX_REFUNDS, [0, 7]));
    assert_eq!(refunds.waiting.back().map(|it| it.units), Some(3));
}

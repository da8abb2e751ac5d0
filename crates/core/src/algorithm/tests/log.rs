//! A log: its bytes, and the removal of entries.

use super::*;

fn logged(limit: u64, window: Span) -> Algorithm {
    Algorithm::SlidingLog(SlidingLog::new(Quota::new(limit, window).unwrap()).unwrap())
}

fn packed_len(counter: &Counter<'_>) -> usize {
    match &counter.state {
        Some(State::Log(log)) => log.packed_len(),
        _ => 0,
    }
}

/// Bytes per entry when the whole limit comes evenly over the window.
fn bytes_an_entry(limit: u64, window: Span) -> usize {
    let algorithm = logged(limit, window);
    let mut counter = Counter::new(&algorithm);
    for unit in 0..2 * limit {
        let us = unit * window.as_micros() / limit;
        assert!(counter.apply(Op::Take(1), Timestamp::from_micros(us)).admitted);
    }
    packed_len(&counter).div_ceil(usize::try_from(limit).unwrap())
}

#[test]
fn an_entry_takes_five_bytes_at_a_hundred_a_minute() {
    let minute = Span::from_secs(60);
    assert_eq!(bytes_an_entry(100, minute), 4);
    assert_eq!(bytes_an_entry(10, minute), 5);
    assert_eq!(bytes_an_entry(2, Span::DAY), 7);
    assert_eq!(bytes_an_entry(MAX_LOG_LIMIT, MAX_WINDOW), 6);
}

#[test]
fn a_log_is_never_longer_than_ten_bytes_a_unit() {
    let algorithm = logged(20, MAX_WINDOW);
    let mut counter = Counter::new(&algorithm);
    let mut random = fastrand::Rng::with_seed(1);
    let mut now = Timestamp::default();
    for _ in 0..10_000 {
        now = now.plus(Span::from_micros(random.u64(0..MAX_WINDOW.as_micros() / 10)));
        counter.apply(Op::Take(random.u64(1..4)), now);
        counter.apply(Op::Settle { reserved: 0, actual: random.u64(0..9), taken: now }, now);
        assert!(packed_len(&counter) <= 10 * 40);
    }
}

#[test]
fn units_of_the_same_microsecond_are_one_entry() {
    let algorithm = logged(1000, Span::SECOND);
    let mut counter = Counter::new(&algorithm);
    let now = Timestamp::from_micros(1_795_246_126_000_000);
    for _ in 0..100 {
        counter.apply(Op::Take(1), now);
    }
    assert_eq!(packed_len(&counter), 2);
    // Gives back only the units that were taken at this time.
    counter.apply(Op::Give { cost: 30, taken: now.minus(Span::from_micros(1)) }, now);
    assert_eq!(counter.ask(Op::Peek, now).1.remaining, 900);
    counter.apply(Op::Give { cost: 30, taken: now }, now);
    assert_eq!(counter.ask(Op::Peek, now).1.remaining, 930);
}

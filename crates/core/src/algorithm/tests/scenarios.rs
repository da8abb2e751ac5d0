//! Runs with known results, and the errors of the constructors.

use super::*;

/// The units that are admitted of ten requests a second in this time, from the epoch on.
fn admitted_of_ten_a_second(algorithm: &Algorithm, seconds: u64) -> u64 {
    let mut counter = Counter::new(algorithm);
    let times = (0..seconds * 10).map(|tick| Timestamp::from_micros(tick * 100_000));
    times.map(|now| u64::from(counter.apply(Op::Take(1), now).admitted)).sum()
}

fn per_minute(limit: u64) -> Quota {
    Quota::new(limit, Span::from_secs(60)).unwrap()
}

#[test]
fn a_hundred_a_minute_admit_500_in_five_minutes_and_6000_in_an_hour() {
    let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(per_minute(100)));
    assert!((499..=501).contains(&admitted_of_ten_a_second(&algorithm, 300)));
    assert!((5998..=6002).contains(&admitted_of_ten_a_second(&algorithm, 3600)));
}

/// The units that are admitted in an hour of a client that asks whenever it was told to, and `late`.
fn admitted_of_a_waiting_client(limit: u64, late: Span) -> u64 {
    let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(per_minute(limit)));
    let mut counter = Counter::new(&algorithm);
    let mut now = Timestamp::from_micros(1);
    let mut admitted = 0;
    while now < Timestamp::from_micros(3_600_000_000) {
        match counter.apply(Op::Take(1), now).retry {
            Retry::After(wait) => now = now.plus(wait).plus(late),
            _ => admitted += 1,
        }
    }
    admitted
}

#[test]
fn a_client_that_waits_as_told_gets_the_whole_limit() {
    for limit in [1, 2, 7, 100] {
        let admitted = admitted_of_a_waiting_client(limit, Span::ZERO);
        assert!((60 * limit - 1..=60 * limit).contains(&admitted), "{admitted} of {limit}");
    }
}

/// A part of the window before counts until the end, and the end itself is only hit by a client that
/// is never late. A limit of 1 then admits one in two windows.
#[test]
fn a_client_that_is_late_gets_at_least_one_less_than_the_limit_in_each_window() {
    for limit in [1, 2, 7, 100] {
        let admitted = admitted_of_a_waiting_client(limit, Span::from_millis(1));
        let least = if limit == 1 { 29 } else { 60 * (limit - 1) };
        assert!((least..=60 * limit).contains(&admitted), "{admitted} of {limit}");
    }
    assert!(admitted_of_a_waiting_client(1, Span::from_millis(1)) <= 31);
}

#[test]
fn a_bucket_refills_without_drift() {
    // 60/7 s a token is not a whole number of microseconds.
    let algorithm = Algorithm::TokenBucket(TokenBucket::new(per_minute(7), 2).unwrap());
    let mut counter = Counter::new(&algorithm);
    let mut now = Timestamp::default();
    counter.apply(Op::Take(2), now);
    for taken in 1..=7_000_u64 {
        let Retry::After(wait) = counter.ask(Op::Take(1), now).1.retry else {
            panic!("take {taken}: the bucket was empty after the take before");
        };
        now = now.plus(wait);
        assert!(counter.apply(Op::Take(1), now).admitted);
        assert_eq!(now.as_micros(), (taken * 60_000_000).div_ceil(7), "take {taken}");
    }
}

#[test]
fn sub_windows_admit_the_limit_around_an_edge_where_a_fixed_window_admits_twice() {
    let at = |ms: u64| Timestamp::from_micros(ms * 1000);
    let both_bursts = |algorithm: &Algorithm| {
        let mut counter = Counter::new(algorithm);
        let mut burst = |now| (0..60).filter(|_| counter.apply(Op::Take(1), now).admitted).count();
        burst(at(59_999)) + burst(at(60_001))
    };
    let fixed = Algorithm::FixedWindow(FixedWindow::new(per_minute(50)));
    assert_eq!(both_bursts(&fixed), 100);
    let safe = Algorithm::SubWindows(SubWindows::new(per_minute(50), 10).unwrap());
    assert_eq!(both_bursts(&safe), 50);
}

#[test]
fn a_cost_above_the_limit_is_never_admitted() {
    let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(per_minute(100)));
    let (next, verdict) = algorithm.apply(None, Op::Take(101), Timestamp::default());
    assert_eq!(next, None);
    assert_eq!((verdict.admitted, verdict.retry), (false, Retry::Never));
    assert_eq!((verdict.limit, verdict.remaining), (100, 100));
    assert_eq!(verdict.reset_after, Span::ZERO);
}

#[test]
fn the_wait_is_exact_to_the_microsecond() {
    let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(per_minute(100)));
    let mut counter = Counter::new(&algorithm);
    let now = Timestamp::from_micros(90_000_000);
    assert_eq!(counter.apply(Op::Take(100), now).reset_after, Span::from_secs(90));
    // From 120 s on, the take waits until 100 · (1 - e/60 s) <= 99: e = 0.6 s.
    let verdict = counter.apply(Op::Take(1), now);
    assert_eq!(verdict.retry, Retry::After(Span::from_millis(30_600)));
}

#[test]
fn a_longer_wait_is_greater() {
    let waits = [Retry::Now, Retry::After(Span::ZERO), Retry::After(Span::DAY), Retry::Never];
    assert!(waits.is_sorted());
}

#[test]
fn a_state_of_another_algorithm_counts_as_none() {
    let algorithm = Algorithm::FixedWindow(FixedWindow::new(per_minute(1)));
    let foreign = State::Sliding { window: 0, current: 1, previous: 1 };
    assert!(algorithm.apply(Some(&foreign), Op::Take(1), Timestamp::default()).1.admitted);
}

#[test]
fn constructors_refuse_quotas_that_they_cannot_count() {
    let year = Quota::new(100, MAX_WINDOW).unwrap();
    assert_eq!(TokenBucket::new(year, 0), Err(QuotaError::Burst));
    assert_eq!(TokenBucket::new(year, MAX_LIMIT + 1), Err(QuotaError::Burst));
    assert_eq!(TokenBucket::new(year, MAX_LIMIT), Err(QuotaError::BurstInWindow));
    assert!(TokenBucket::new(per_minute(1), MAX_LIMIT).is_ok());
    assert_eq!(SubWindows::new(year, 0), Err(QuotaError::Buckets));
    assert_eq!(SubWindows::new(year, MAX_BUCKETS + 1), Err(QuotaError::Buckets));
    let large = Quota::new(u64::from(u32::MAX) + 1, MAX_WINDOW).unwrap();
    assert_eq!(SubWindows::new(large, 10), Err(QuotaError::SubWindowsLimit));
    let logged = |limit| SlidingLog::new(Quota::new(limit, MAX_WINDOW).unwrap());
    assert!(logged(MAX_LOG_LIMIT).is_ok());
    assert_eq!(logged(MAX_LOG_LIMIT + 1), Err(QuotaError::LogLimit));
    let queue = |limit, delay, depth| LeakyBucket::new(per_minute(limit), delay, depth);
    let too_long = MAX_WINDOW.as_micros() + 1;
    assert_eq!(queue(1, Span::from_micros(too_long), Some(1)), Err(QuotaError::Delay));
    assert_eq!(queue(MAX_LIMIT, MAX_WINDOW, None), Err(QuotaError::Delay));
    assert!(queue(MAX_LIMIT, MAX_WINDOW, Some(1000)).is_ok());
    assert_eq!(LeakyBucket::new(year, MAX_WINDOW, None).unwrap().slots(), 101);
    assert_eq!(Concurrency::new(0), Err(QuotaError::Zero));
    assert_eq!(Concurrency::new(MAX_LIMIT + 1), Err(QuotaError::Limit));
    assert_eq!(Quota::new(0, MAX_WINDOW), Err(QuotaError::Zero));
    assert_eq!(Quota::new(MAX_LIMIT + 1, MAX_WINDOW), Err(QuotaError::Limit));
    assert_eq!(Quota::new(1, Span::from_micros(999)), Err(QuotaError::Window));
}

#[test]
fn another_limit_changes_nothing_but_the_limit_and_scales_a_burst() {
    let quota = per_minute(10);
    let berlin = Quota::new(10, Span::DAY).unwrap();
    let algorithms = |change: fn(Quota) -> Quota| {
        let counted = change(per_minute(10));
        [
            Algorithm::SlidingWindow(SlidingWindow::new(counted)),
            Algorithm::SubWindows(SubWindows::new(counted, 7).unwrap()),
            Algorithm::SlidingLog(SlidingLog::new(counted).unwrap()),
            Algorithm::FixedWindow(FixedWindow::new(counted)),
            Algorithm::FixedWindow(FixedWindow::calendar(change(berlin), "Europe/Berlin").unwrap()),
            Algorithm::LeakyBucket(LeakyBucket::new(counted, Span::DAY, Some(3)).unwrap()),
            Algorithm::Concurrency(Concurrency::new(counted.limit()).unwrap()),
        ]
    };
    let of = |algorithm: &Algorithm, limit| algorithm.with_limit(limit).unwrap();
    let fewer = algorithms(|quota| quota);
    let more = algorithms(|quota| quota.with_limit(25).unwrap());
    for (fewer, more) in fewer.iter().zip(&more) {
        assert_eq!((&of(fewer, 25), &of(more, 10)), (more, fewer));
        assert_eq!(fewer.with_limit(0), Err(QuotaError::Zero));
    }
    let bucket = |limit, burst| {
        let quota = quota.with_limit(limit).unwrap();
        Algorithm::TokenBucket(TokenBucket::new(quota, burst).unwrap())
    };
    assert_eq!(of(&bucket(10, 4), 25), bucket(25, 10));
    assert_eq!(of(&bucket(10, 3), 1), bucket(1, 1));
    assert_eq!(fewer[2].with_limit(MAX_LOG_LIMIT + 1), Err(QuotaError::LogLimit));
    let hourly = Quota::new(25, Span::from_secs(3600)).unwrap();
    for algorithm in &fewer {
        let timeless = matches!(algorithm, Algorithm::Concurrency(_));
        let window = algorithm.with_quota(hourly).map(|it| (it.limit(), it.window()));
        let expected = (25, hourly.window());
        assert_eq!(window, if timeless { Err(QuotaError::Timeless) } else { Ok(expected) });
    }
    let faster = Quota::new(20, Span::from_micros(quota.window().as_micros() / 2)).unwrap();
    let burst = bucket(10, 4).with_quota(faster).unwrap().capacity();
    assert_eq!(burst, 16, "at four times the rate the burst lasts equally long");
}

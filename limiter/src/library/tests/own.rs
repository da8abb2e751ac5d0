//! Values of an application's own, and callers that wait for them.

use std::pin::pin;

use futures_util::FutureExt as _;

use super::*;

fn of(policy: Policy) -> (Limiter, PolicyHandle, Clock) {
    let clock = Clock::manual();
    let builder = Limiter::builder().clock(clock.clone());
    let (limiter, [policy]) = builder.build_with([policy]).unwrap();
    (limiter, policy, clock)
}

fn custom(text: &str) -> Policy {
    Policy::new("p", Key::Custom, limit(text))
}

/// A bucket of one unit, which is full again after a second.
fn each_second() -> Policy {
    custom("1/s").algorithm(Algorithm::TokenBucket).burst(1)
}

fn is_admitted(mut check: Check) -> bool {
    check.now().is_some_and(|decision| decision.is_admitted())
}

#[test]
fn each_own_value_has_a_counter_and_no_value_fails() {
    let (limiter, policy, _) = of(custom("1/day"));
    let long = vec![0xff; 100_000];
    for value in [&b""[..], b"tenant-42", b"tenant-43", b"\0", &long[..]] {
        assert!(is_admitted(limiter.check(&policy, value)));
        assert!(!is_admitted(limiter.check(&policy, value)));
    }
}

#[tokio::test]
async fn an_own_value_is_apart_from_the_same_text_in_a_request() {
    let user = Policy::new("user", Key::User, limit("1/day"));
    let (limiter, [own, user]) = Limiter::builder().build_with([custom("1/day"), user]).unwrap();
    assert!(limiter.check_text(&user, "ann", 1).unwrap().await.is_admitted());
    assert!(limiter.check(&user, "ann").await.is_admitted(), "no request has this value");
    assert!(limiter.check(&own, "ann").await.is_admitted(), "it is another policy");
    let again = limiter.check_text(&own, "ann", 1).unwrap().await;
    assert!(!again.is_admitted(), "the text of an own value is the value");
}

#[tokio::test]
async fn a_request_does_not_have_an_own_value() {
    let (limiter, policy, _) = of(custom("1/day").on_missing_key(OnMissingKey::Deny));
    let decision = limiter.check_request(&[policy], &head(&[]), PEER).await;
    assert_eq!(decision.missing(), Some(Missing::Key));
    let both = Key::All(vec![Key::Custom, Key::Path]);
    let error = Limiter::new(Policy::new("p", both, limit("1/s"))).unwrap_err();
    assert!(error.to_string().contains("cannot be combined with other keys"), "{error}");
}

#[test]
fn an_own_value_costs_what_the_policy_says_or_the_caller() {
    let used = |decision: Decision| decision.reports().next().map(|report| report.used());
    let (limiter, policy, _) = of(custom("100/day").cost(7));
    let check = limiter.check(&policy, "a").now();
    assert_eq!(check.and_then(used), Some(7));
    assert_eq!(limiter.check_n(&policy, "a", 5).now().and_then(used), Some(12));
    let reserved = custom("100/day").reserve(30, Settle::Header("x-used".into()));
    let (limiter, policy, _) = of(reserved);
    let decision = limiter.check(&policy, "a").now().expect("in memory");
    decision.into_lease().settle(4);
    assert_eq!(limiter.check_n(&policy, "a", 0).now().and_then(used), Some(4));
}

/// One tick before, the caller still waits.
#[test]
fn a_caller_waits_exactly_until_its_request_is_admitted() {
    let (limiter, policy, clock) = of(each_second());
    let first = limiter.until_ready(&policy, "a").now_or_never();
    assert!(first.is_some_and(|decision| decision.is_admitted()));
    let mut second = pin!(limiter.until_ready(&policy, "a"));
    assert!(second.as_mut().now_or_never().is_none());
    clock.advance(Duration::from_micros(999_999));
    assert!(second.as_mut().now_or_never().is_none());
    clock.advance(Duration::from_micros(1));
    let decision = second.as_mut().now_or_never().expect("it waited long enough");
    assert!(decision.is_admitted());
    assert!(!is_admitted(limiter.check(&policy, "a")), "the unit is used");
}

/// Regression: a caller waited for as long as the clock had gone back.
#[test]
fn a_caller_asks_again_when_the_clock_is_set_back() {
    let (limiter, policy, clock) = of(each_second());
    assert!(is_admitted(limiter.check(&policy, "a")));
    let mut waiting = pin!(limiter.until_ready(&policy, "a"));
    assert!(waiting.as_mut().now_or_never().is_none());
    let time::Clock::Manual(us) = clock.time() else { panic!("the clock is manual") };
    us.fetch_sub(Span::from_secs(7200).as_micros(), Ordering::Relaxed);
    clock.advance(Duration::from_secs(1));
    let decision = waiting.as_mut().now_or_never().expect("the counters have begun again");
    assert!(decision.is_admitted());
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "applications wait in tasks that may change threads")]
async fn a_waiting_task_is_woken_when_the_clock_advances() {
    let (limiter, policy, clock) = of(each_second());
    assert!(is_admitted(limiter.check(&policy, "a")));
    let task = async move { limiter.until_ready(&policy, "a").await.is_admitted() };
    let waiting = tokio::spawn(task);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    clock.advance(Duration::from_secs(1));
    assert!(waiting.await.unwrap());
}

#[test]
fn callers_that_compete_are_admitted_one_for_each_unit() {
    let (limiter, policy, clock) = of(each_second());
    let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(limiter.until_ready(&policy, "a"))).collect();
    for left in (0..5).rev() {
        waiting.retain_mut(|caller| caller.as_mut().now_or_never().is_none());
        assert_eq!(waiting.len(), left);
        clock.advance(Duration::from_secs(1));
    }
}

#[test]
fn a_leaky_bucket_admits_callers_in_their_order() {
    let queue = custom("10/s").algorithm(Algorithm::LeakyBucket);
    let (limiter, policy, clock) = of(queue.max_delay(Duration::from_secs(1)));
    let mut waiting: Vec<_> =
        (0..5).map(|n| (n, Box::pin(limiter.until_ready(&policy, "a")))).collect();
    let mut order = Vec::new();
    for _ in 0..5 {
        // The last caller asks first, but only the first time decides about the order.
        waiting.retain_mut(|(n, caller)| {
            let is_done = caller.as_mut().now_or_never().is_some();
            order.extend(is_done.then_some(*n));
            !is_done
        });
        waiting.reverse();
        clock.advance(Duration::from_millis(100));
    }
    assert_eq!(order, [0, 1, 2, 3, 4]);
}

/// Waiting does not help.
#[test]
fn a_caller_whose_cost_never_fits_does_not_wait() {
    let (limiter, policy, _) = of(each_second().cost(2));
    let decision = limiter.until_ready(&policy, "a").now_or_never().expect("it does not wait");
    assert_eq!(decision.outcome(), Outcome::Refuse { retry: None });
}

/// Regression: `left: ignore` gave back what a dropped decision had charged, so it never limited.
#[test]
fn a_dropped_decision_stays_charged_whatever_the_policy_counts() {
    let builder = Limiter::builder().policy(custom("1/day"));
    let (mut policies, client) = builder.compile().unwrap();
    let statuses = vec![StatusCode::UNAUTHORIZED];
    let left = tollgate_core::policy::Left::Ignored;
    let count = tollgate_core::policy::Count::Statuses { statuses, left };
    Arc::make_mut(&mut policies[0]).count = count;
    let keys = KeySource::default();
    let store = Store::default();
    let clock = Clock::manual();
    let headers = tollgate_core::decision::HeaderSettings::default();
    let parts = Parts { policies, client, keys, store, clock, headers, overrides: None };
    let limiter = parts.build().unwrap();
    let policy = limiter.policy("p").unwrap();
    assert!(is_admitted(limiter.check(&policy, "a")));
    assert!(!is_admitted(limiter.check(&policy, "a")));
}

#[test]
fn a_caller_that_gives_up_leaves_nothing_in_flight() {
    let (limiter, policy, clock) = of(custom("1").algorithm(Algorithm::Concurrency));
    let held = limiter.check(&policy, "a").now().expect("in memory");
    let mut waiting = Box::pin(limiter.until_ready(&policy, "a"));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(waiting);
    drop(held);
    clock.advance(Duration::from_secs(1));
    assert!(is_admitted(limiter.check(&policy, "a")));
}

/// An answer is moved several times on the way to the caller.
#[test]
fn an_answer_is_small() {
    assert!(size_of::<Decision>() <= 336, "{}", size_of::<Decision>());
    assert!(size_of::<Check>() <= 352, "{}", size_of::<Check>());
}

//! The library as an application uses it.

#[cfg(feature = "keys")]
mod api_keys;
mod gateway;
mod own;

use std::net::IpAddr;
#[cfg(feature = "redis")]
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::request::Parts as Head;
use http::{HeaderMap, Request, StatusCode};
use tollgate_core::time::{self, Span};

use super::*;

const PEER: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7)));

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

fn per_user(text: &str) -> Policy {
    Policy::new("p", Key::User, limit(text)).algorithm(Algorithm::FixedWindow)
}

fn limiter(policy: Policy) -> (Limiter, PolicyHandle) {
    let limiter = Limiter::builder().policy(policy).clock(Clock::manual()).build().unwrap();
    let policy = limiter.policy("p").unwrap();
    (limiter, policy)
}

fn head(fields: &[(&str, &str)]) -> Head {
    let mut request = Request::get("/");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

async fn remaining(limiter: &Limiter, policy: &PolicyHandle) -> u64 {
    let decision = limiter.check_text(policy, "ann", 0).unwrap().await;
    decision.reports().next().unwrap().remaining()
}

/// The requirements of a service on a multi-threaded runtime.
#[test]
fn all_types_can_be_used_on_any_thread() {
    const fn is_shared<T: Send + Sync + 'static>() {}
    const fn is_future<T: Future<Output = Decision> + Send + Unpin + 'static>() {}
    is_shared::<Limiter>();
    is_shared::<LimiterBuilder>();
    is_shared::<PolicyHandle>();
    is_shared::<Decision>();
    is_shared::<Lease>();
    is_shared::<BuildError>();
    is_future::<Check>();
}

#[tokio::test]
async fn a_request_and_the_text_of_its_key_have_one_counter() {
    let (limiter, policy) = limiter(Policy::new("p", Key::Ip, limit("3/day")));
    let handles = [policy.clone()];
    assert!(limiter.check_request(&handles, &head(&[]), PEER).await.is_admitted());
    let decision = limiter.check_text(&policy, "192.0.2.7", 2).unwrap().await;
    assert_eq!(decision.reports().next().unwrap().remaining(), 0);
    let refused = limiter.check_request(&handles, &head(&[]), PEER).await;
    assert!(matches!(refused.outcome(), Outcome::Refuse { retry: Some(_) }));
    let other = Some([192, 0, 2, 8].into());
    assert!(limiter.check_request(&handles, &head(&[]), other).await.is_admitted());
}

#[tokio::test]
async fn any_cost_can_be_settled_or_given_back() {
    let (limiter, policy) = limiter(per_user("10/day"));
    let lease = async |cost| limiter.check_text(&policy, "ann", cost).unwrap().await.into_lease();
    lease(5).await.settle(2);
    assert_eq!(remaining(&limiter, &policy).await, 8);
    lease(5).await.give_back();
    assert_eq!(remaining(&limiter, &policy).await, 8);
    drop(lease(3).await);
    assert_eq!(remaining(&limiter, &policy).await, 5);
    lease(1).await.settle(8);
    assert_eq!(remaining(&limiter, &policy).await, 0);
    // A refused request has nothing to settle.
    lease(1).await.settle(0);
    assert_eq!(remaining(&limiter, &policy).await, 0);
}

/// A cost above 64 bits in a settlement, or above all limits in a check.
#[tokio::test]
async fn extreme_costs_are_counted_like_the_largest_ones() {
    let (limiter, policy) = limiter(per_user("10/day"));
    let never = limiter.check_text(&policy, "ann", u64::MAX).unwrap().await;
    assert_eq!(never.outcome(), Outcome::Refuse { retry: None });
    let one = limiter.check_text(&policy, "ann", 1).unwrap().await;
    one.into_lease().settle(u64::MAX);
    assert_eq!(remaining(&limiter, &policy).await, 0);
}

#[tokio::test]
async fn units_in_flight_end_with_the_decision_or_its_lease() {
    let (limiter, policy) = limiter(per_user("1").algorithm(Algorithm::Concurrency));
    let check = async || limiter.check_text(&policy, "ann", 1).unwrap().await;
    let decision = check().await;
    assert!(!check().await.is_admitted());
    drop(decision);
    let lease = check().await.into_lease();
    assert!(!check().await.is_admitted());
    lease.settle(1);
    assert!(check().await.is_admitted());
    drop(limiter.check_text(&policy, "ann", 1).unwrap());
    assert!(check().await.is_admitted(), "the check was not awaited");
}

#[tokio::test]
async fn without_a_peer_only_policies_that_need_no_address_judge() {
    let by_tenant = Policy::new("tenant", Key::Header("x-tenant".into()), limit("1/day"));
    let exempting = Policy::new("exempt", Key::Global, limit("9/day")).exempt_network("10.0.0.0/8");
    let builder = Limiter::builder().policy(by_tenant).policy(exempting);
    let limiter = builder.build().unwrap();
    let ask = async |name: &str, fields: &[(&str, &str)]| {
        let policy = limiter.policy(name).unwrap();
        limiter.check_request(&[policy], &head(fields), None).await
    };
    assert!(ask("tenant", &[("x-tenant", "a")]).await.is_admitted());
    assert!(!ask("tenant", &[("x-tenant", "a")]).await.is_admitted());
    for (name, fields) in [("tenant", &[][..]), ("exempt", &[("x-tenant", "a")])] {
        let decision = ask(name, fields).await;
        assert_eq!(decision.outcome(), Outcome::KeyMissing, "{name}");
        assert_eq!(decision.missing(), Some(Missing::Peer), "{name}");
        assert_eq!(decision.reports().len(), 0);
    }
}

/// An unknown peer must not count as a trusted proxy, whatever network is trusted.
#[tokio::test]
async fn without_a_peer_no_forwarding_field_is_believed() {
    let client = Client::new().trusted_proxy("0.0.0.0/1");
    let policy = Policy::new("p", Key::Ip, limit("9/day"));
    let limiter = Limiter::builder().client(client).policy(policy).build().unwrap();
    let handles = [limiter.policy("p").unwrap()];
    let forged = head(&[("x-forwarded-for", "192.0.2.9")]);
    let decision = limiter.check_request(&handles, &forged, None).await;
    assert_eq!(decision.missing(), Some(Missing::Peer));
    let proxy = Some([10, 0, 0, 1].into());
    assert!(limiter.check_request(&handles, &forged, proxy).await.is_admitted());
    let decision = limiter.check_text(&handles[0], "192.0.2.9", 0).unwrap().await;
    assert_eq!(decision.reports().next().unwrap().remaining(), 8);
}

#[tokio::test]
async fn a_policy_that_is_named_twice_counts_once_and_all_count_or_none() {
    let builder = Limiter::builder()
        .policy(Policy::new("wide", Key::Global, limit("9/day")))
        .policy(Policy::new("narrow", Key::Ip, limit("1/day")));
    let limiter = builder.build().unwrap();
    let [wide, narrow] = ["wide", "narrow"].map(|name| limiter.policy(name).unwrap());
    let handles = [wide.clone(), narrow, wide.clone()];
    assert!(limiter.check_request(&handles, &head(&[]), PEER).await.is_admitted());
    assert!(!limiter.check_request(&handles, &head(&[]), PEER).await.is_admitted());
    let decision = limiter.check_text(&wide, "global", 0).unwrap().await;
    assert_eq!(decision.reports().next().unwrap().remaining(), 8);
}

#[tokio::test]
async fn a_request_that_can_be_read_in_two_ways_is_not_judged() {
    let (limiter, policy) = limiter(Policy::new("p", Key::Ip, limit("3/day")));
    let policies = [policy];
    let two_hosts = head(&[("host", "a.test"), ("host", "b.test")]);
    let decision = limiter.check_request(&policies, &two_hosts, PEER).await;
    assert_eq!(decision.missing(), Some(Missing::Ambiguous));
    // Some services compare methods without case.
    let mut lower = head(&[("host", "a.test")]);
    lower.method = "get".parse().unwrap();
    let decision = limiter.check_request(&policies, &lower, PEER).await;
    assert_eq!(decision.missing(), Some(Missing::Ambiguous));
    let mut fields = HeaderMap::new();
    decision.write_headers(&mut fields);
    assert!(fields.is_empty());
}

/// Regression: nothing maintained the counters in memory, so a clock that was set back far left
/// all keys refused until it had caught up.
#[tokio::test]
async fn a_clock_that_is_set_back_far_does_not_refuse_for_ever() {
    let clock = Clock::manual();
    let policy = per_user("1/minute");
    let limiter = Limiter::builder().policy(policy).clock(clock.clone()).build().unwrap();
    let policy = limiter.policy("p").unwrap();
    let check = async || limiter.check_text(&policy, "ann", 1).unwrap().await.is_admitted();
    assert!(check().await && !check().await);
    let time::Clock::Manual(us) = clock.time() else { panic!("the clock is manual") };
    us.fetch_sub(Span::from_secs(7200).as_micros(), Ordering::Relaxed);
    assert!(check().await);
    assert!(!check().await);
}

#[tokio::test]
async fn a_delay_is_part_of_the_outcome() {
    let policy = Policy::new("p", Key::User, limit("10/s"))
        .algorithm(Algorithm::LeakyBucket)
        .max_delay(Duration::from_secs(2));
    let (limiter, policy) = limiter(policy);
    let outcome = async || limiter.check_text(&policy, "ann", 1).unwrap().await.outcome();
    assert_eq!(outcome().await, Outcome::Admit { delay: Duration::ZERO });
    assert_eq!(outcome().await, Outcome::Admit { delay: Duration::from_millis(100) });
}

#[test]
fn a_policy_that_contradicts_itself_is_refused_with_the_reason() {
    let p = || Policy::new("p", Key::Ip, limit("100/minute"));
    let bare = || Policy::new("p", Key::Ip, limit("20"));
    let by = |key| Policy::new("p", key, limit("1/s"));
    let plan = |text| Plans::by(Key::ApiKey).limit("pro", limit(text));
    let cases = [
        (bare(), "the limit has no time"),
        (p().algorithm(Algorithm::Concurrency), "a count without a time"),
        (p().algorithm(Algorithm::LeakyBucket), "needs \"max_delay\""),
        (p().max_delay(Duration::from_secs(1)), "belongs to the algorithm leaky_bucket"),
        (p().burst(3), "\"burst\" belongs to"),
        (p().buckets(5).algorithm(Algorithm::SlidingLog), "\"buckets\" belongs to"),
        (p().buckets(101), "from 1 to 100"),
        #[cfg(feature = "calendar")]
        (p().calendar("Europe/Berlin"), "\"calendar\" belongs to"),
        #[cfg(feature = "calendar")]
        (p().algorithm(Algorithm::FixedWindow).calendar("x"), "window of the calendar"),
        (p().cost(0), "write a number from 1"),
        (p().cost_header("x-cost", 2, 1), "the highest cost is below the default"),
        (p().cost_header("x cost", 1, 1), "not the name of a header field"),
        (p().reserve(1, Settle::ResponseBytes(0)), "0 bytes"),
        (p().reserve(1, Settle::Json("x".into())), "JSON Pointer"),
        (
            p().reserve(1, Settle::ResponseBytes(1)).count_only([StatusCode::OK]),
            "both would correct the count",
        ),
        (
            bare().algorithm(Algorithm::Concurrency).count_only([StatusCode::OK]),
            "a request gives its units back when it ends",
        ),
        (p().plans(Plans::by(Key::ApiKey)), "from 1 to 64 plans"),
        (p().plans(plan("1/s")), "another window"),
        (p().exempt_network("10.0.0.0/33"), "is not a network"),
        (by(Key::First(Vec::new())), "a list of keys must have from 1 to 16 of them"),
        (by(Key::Header("a b".into())), "name of a header field"),
        (Policy::new("é", Key::Ip, limit("1/s")), "ASCII"),
    ];
    for (policy, reason) in cases {
        let shown = format!("{policy:?}");
        let error = Limiter::builder().policy(policy).build().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}: {shown}");
    }
    let twice = Limiter::builder().policy(p()).policy(p()).build().unwrap_err();
    assert!(matches!(twice, BuildError::SameName(name) if name == "p"));
    let client = Client::new().trusted_proxy("0.0.0.0/0");
    assert!(Limiter::builder().client(client).build().is_err());
    let client = Client::new().user_header("x-user");
    assert!(Limiter::builder().client(client).build().is_err());
}

#[tokio::test]
async fn a_key_that_is_refused_too_often_is_banned() {
    let clock = Clock::manual();
    let policy = per_user("1/s").penalty(limit("2/minute"), Duration::from_secs(60));
    let limiter = Limiter::builder().policy(policy).clock(clock.clone()).build().unwrap();
    let policy = limiter.policy("p").unwrap();
    let check = async |key| limiter.check_text(&policy, key, 1).unwrap().await;
    assert!(check("ann").await.is_admitted());
    assert!(!check("ann").await.is_admitted());
    let banned = check("ann").await;
    let Outcome::Refuse { retry: Some(retry) } = banned.outcome() else { panic!("{banned:?}") };
    assert_eq!(retry, Duration::from_secs(60));
    clock.advance(Duration::from_secs(59));
    assert!(!check("ann").await.is_admitted() && check("bob").await.is_admitted());
    clock.advance(Duration::from_secs(1));
    assert!(check("ann").await.is_admitted());
}

/// Regression: a file with such a policy was refused, but the library had checks of its own, and
/// built a limiter that did something else than was written.
#[test]
fn a_policy_that_a_file_must_not_have_is_refused_here_too() {
    let p = || Policy::new("p", Key::Ip, limit("100/minute"));
    let by = |key| Policy::new("p", key, limit("1/s"));
    let first = |keys| Key::First(keys);
    let nested = (0..9).fold(Key::Ip, |key, _| first(vec![key]));
    let both = first(vec![Key::All(vec![Key::Host, Key::Path])]);
    let plan = |from| Plans::by(from).limit("pro", limit("9/minute"));
    let free = || Policy::unlimited("p", Key::Ip);
    let cases = [
        (p().count_only([]), "count.status", "no outcome is counted"),
        (p().count_only([StatusCode::CONTINUE]), "count.status", "is out of range"),
        (p().soft(101), "soft", "is out of range"),
        (p().overrides(), "overrides", "cannot be kept anywhere"),
        (p().cost_header("x-cost", 1, 9), "cost.header", "from trusted proxies only"),
        (free().burst(9), "burst", "has no effect"),
        (free().plans(plan(Key::Host)).burst(9), "burst", "has no effect"),
        (free().count_only([StatusCode::OK]), "count", "has no effect"),
        (by(Key::Jwt("org".into())), "key", "no token is verified"),
        (by(first(vec![Key::Ip; 17])), "key", "from 1 to 16 of them"),
        (by(nested), "key", "more than 8 deep"),
        (p().plans(plan(both)), "plans.from", "one value, not several"),
        (
            p().plans(plan(Key::Host).limit("pro", limit("7/minute"))),
            "plans.limits",
            "two plans \"pro\"",
        ),
    ];
    for (policy, field, reason) in cases {
        let shown = format!("{policy:?}");
        let error = Limiter::builder().policy(policy).build().unwrap_err();
        let BuildError::Policies(faults) = &error else { panic!("{error}") };
        let is_it = |fault: &PolicyFault| {
            fault.field() == field && fault.message().contains(reason) && fault.policy() == "p"
        };
        assert!(faults.iter().any(is_it), "{error}: {shown}");
    }
}

#[test]
fn all_faults_of_all_policies_are_reported_and_a_wrong_text_can_be_replaced() {
    let one = Policy::new("one", Key::Ip, limit("5/s")).buckets(0).burst(3);
    let two = Policy::new("two", Key::Ip, limit("5/s")).cost_header("a b", 1, 1);
    let error = Limiter::builder().policy(one).policy(two.clone()).build().unwrap_err();
    let BuildError::Policies(faults) = &error else { panic!("{error}") };
    let fields: Vec<_> = faults.iter().map(|it| (it.policy(), it.field())).collect();
    assert_eq!(fields, [("one", "burst"), ("one", "buckets"), ("two", "cost")]);
    assert_eq!(error.to_string().lines().count(), 3);
    assert!(Limiter::new(two.cost(4)).is_ok());
}

#[test]
fn a_text_that_is_no_limit_is_refused() {
    for text in ["", "/", "100/", "/s", "x/s", "1.5/s", "0/s", "1/0s", "1/5", "1/400d", "_1/s"] {
        assert!(text.parse::<Limit>().is_err(), "{text}");
    }
    for text in ["1/s", "1_000/15m", "1k/s", "5/1h30m", " 5 / s", "1/week"] {
        assert!(text.parse::<Limit>().is_ok(), "{text}");
    }
}

#[tokio::test]
async fn decisions_can_be_shared_and_their_limiter_may_end_before_them() {
    let (limiter, policy) = limiter(per_user("1").algorithm(Algorithm::Concurrency));
    let decision = Arc::new(limiter.check_text(&policy, "ann", 1).unwrap().await);
    drop((limiter, policy));
    assert!(decision.is_admitted());
}

#[test]
fn a_client_is_asked_for_a_token_only_if_a_token_gives_the_key() {
    let build = |key: Key| {
        let policy = Policy::new("p", key, limit("1/s")).on_missing_key(OnMissingKey::Unauthorized);
        Limiter::builder().policy(policy).build()
    };
    assert!(build(Key::ApiKey).is_ok());
    let error = build(Key::Header("x-tenant".into())).unwrap_err();
    let BuildError::Policies(faults) = &error else { panic!("{error}") };
    assert_eq!(faults[0].field(), "missing_key");
    assert!(faults[0].message().contains("would not give them this key"), "{error}");
}

/// The default user of Redis was used.
#[cfg(feature = "redis")]
#[test]
fn a_url_of_redis_with_a_user_has_a_password_too() {
    for url in ["redis://s3cret@redis", "redis+cluster://s3cret:@a,b"] {
        let error = Store::redis(url).map(drop).unwrap_err().to_string();
        assert!(error.contains("the user in the URL has no password"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
    assert!(Store::redis("redis://ann:s3cret@redis").is_ok());
    assert!(Store::redis("redis://:s3cret@redis").is_ok());
}

#[cfg(feature = "jwt")]
#[test]
fn the_leeway_of_tokens_has_a_bound() {
    let build = |leeway| {
        let jwt = Jwt::hs256(b"a secret of at least thirty-two bytes").unwrap().leeway(leeway);
        Limiter::builder().client(Client::new().jwt(jwt)).build().map(drop)
    };
    assert!(build(Duration::from_secs(300)).is_ok() && build(Duration::ZERO).is_ok());
    let error = build(Duration::from_secs(301)).unwrap_err().to_string();
    assert!(error.contains("the leeway of tokens is at most 5m"), "{error}");
}

/// Before, a timeout without a bound panicked in the threads of the store, and each check was
/// refused.
#[cfg(feature = "redis")]
#[test]
fn settings_of_redis_that_a_gateway_rejects_are_errors() {
    let store = || Store::redis("redis://127.0.0.1:9").expect("a URL");
    let build = |store| Limiter::builder().store(store).build();
    let one = NonZeroUsize::MIN;
    for (wrong, what) in [
        (store().timeout(Duration::MAX), "timeout"),
        (store().timeout(Duration::from_millis(10_001)), "timeout"),
        (store().timeout(Duration::ZERO), "timeout"),
        (store().prefix("{orders}"), "prefix"),
        (store().prefix("a{b"), "prefix"),
        (store().prefix(""), "prefix"),
        (store().prefix("p".repeat(65)), "prefix"),
        (store().lanes(NonZeroUsize::MAX, one), "threads"),
    ] {
        let shown = format!("{wrong:?}");
        let error = build(wrong).expect_err(&shown);
        assert!(matches!(&error, BuildError::Store(text) if text.contains(what)), "{error}");
    }
    let error = build(store().prefix("").timeout(Duration::ZERO)).unwrap_err().to_string();
    assert!(error.contains("timeout") && error.contains("prefix"), "{error}");
    // Without a bound, as many checks wait as can.
    let unbounded = store().timeout(Duration::from_secs(10)).lanes(one, NonZeroUsize::MAX);
    assert!(build(unbounded.prefix("a-b_c.d:e/9")).is_ok());
}

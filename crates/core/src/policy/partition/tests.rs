//! The requests that share a counter, and those that never do.

use http::{HeaderName, Method};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::algorithm::{
    Algorithm, Ban, FixedWindow, Quota, SlidingLog, SlidingWindow, SubWindows, TokenBucket,
};
use crate::digest::Counter;
use crate::policy::Beside;
use crate::policy::tests::{Case, bearer, from, policy, policy_of, users_by_token, with};
use crate::time::Span;

fn is_key(found: KeyFor) -> bool {
    matches!(found, KeyFor::Key(_))
}

#[test]
fn a_value_shares_its_counter_with_no_value_of_another_kind() {
    let case = Case {
        host: "x",
        path: "/t/x",
        query: Some("x=x&api_key=x"),
        peer: [10, 0, 0, 1].into(),
        ..with(&[("x", "x"), ("y", "x"), ("cookie", "x=x; y=x"), ("x-user", "x")])
    };
    let mut keys: Vec<_> = [
        "ip",
        "api_key",
        "user",
        "cookie:x",
        "cookie:y",
        "header:x",
        "header:y",
        "query:x",
        "param:tenant",
        "path",
        "method",
        "host",
        "route",
        "global",
    ]
    .iter()
    .map(|key| match case.key(&policy(key)) {
        KeyFor::Key(found) => found,
        other => panic!("{key}: {other:?}"),
    })
    .collect();
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), all);
}

#[test]
fn addresses_of_one_network_are_one_client() {
    let key = |peer| from(peer).key(&policy("ip"));
    assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::9"));
    assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
    assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
    let mut wide = from("192.0.2.1");
    wide.client.ipv4_prefix = 24;
    assert_eq!(
        wide.key(&policy("ip")),
        Case { peer: [192, 0, 2, 77].into(), ..wide }.key(&policy("ip"))
    );
}

#[test]
fn an_api_key_is_the_same_in_every_part_of_a_request() {
    let key = |case: Case| case.key(&policy("api_key"));
    let wanted = key(with(&[("x-api-key", "k1")]));
    assert!(is_key(wanted));
    assert_eq!(key(with(&[("authorization", "bearer k1")])), wanted);
    assert_eq!(key(Case { query: Some("api_key=k%31"), ..with(&[]) }), wanted);
    assert_eq!(key(with(&[("authorization", "Bearer k1"), ("x-api-key", "k1")])), wanted);
    assert_eq!(key(with(&[("authorization", "Basic eDp5"), ("x-api-key", "k1")])), wanted);
    assert_ne!(key(with(&[("x-api-key", "k2")])), wanted);
    assert_eq!(key(with(&[("authorization", "Basic k1")])), KeyFor::Denied);
}

#[test]
fn two_api_keys_in_one_request_are_ambiguous() {
    let cases = [
        with(&[("authorization", "Bearer other"), ("x-api-key", "k1")]),
        with(&[("x-api-key", "k1"), ("x-api-key", "k2")]),
        with(&[("x-api-key", "k1,k2")]),
        with(&[("authorization", "Bearer k1 x")]),
        Case { query: Some("api_key=k2"), ..with(&[("x-api-key", "k1")]) },
        Case { query: Some("api_key=k1&api_key=k2"), ..with(&[]) },
    ];
    for case in cases {
        for missing_key in [MissingKey::Ip, MissingKey::Skip, MissingKey::Deny] {
            let policy = Policy { missing_key, ..policy("api_key") };
            assert_eq!(case.key(&policy), KeyFor::Ambiguous, "{:?}", case.headers);
        }
    }
}

#[test]
fn an_empty_value_is_no_value() {
    let cases = [
        ("header:x", with(&[("x", "")])),
        ("cookie:x", with(&[("cookie", "x=")])),
        ("query:x", Case { query: Some("x="), ..with(&[]) }),
        ("api_key", with(&[("x-api-key", ""), ("authorization", "Bearer ")])),
        ("user", Case { peer: [10, 0, 0, 1].into(), ..with(&[("x-user", "")]) }),
        ("host", Case { host: "", ..with(&[]) }),
        ("param:other", with(&[])),
        ("jwt:sub", with(&[("authorization", "Bearer x.y.z")])),
    ];
    for (key, case) in cases {
        assert_eq!(case.key(&policy(key)), KeyFor::Denied, "{key}");
    }
}

#[test]
fn the_address_in_place_of_a_missing_key_is_not_the_key_ip() {
    let lenient = |key| Policy { missing_key: MissingKey::Ip, ..policy(key) };
    let one = from("192.0.2.1");
    let other = from("192.0.2.2");
    let stands_in = one.key(&lenient("header:x"));
    assert!(is_key(stands_in));
    assert_ne!(stands_in, other.key(&lenient("header:x")));
    assert_ne!(stands_in, one.key(&lenient("ip")));
    assert_eq!(stands_in, one.key(&lenient("cookie:x")));
}

#[test]
fn a_request_without_the_key_is_skipped_or_denied_as_the_policy_says() {
    let of = |missing_key| Policy { missing_key, ..policy("header:x") };
    assert_eq!(with(&[]).key(&of(MissingKey::Skip)), KeyFor::Exempt(Exemption::NoKey));
    assert_eq!(with(&[]).key(&of(MissingKey::Deny)), KeyFor::Denied);
}

#[test]
fn a_client_without_a_key_is_asked_for_a_token_or_for_a_better_one() {
    let policy = Policy { missing_key: MissingKey::Unauthorized, ..policy("jwt:org") };
    let fault = |value| with(&[("authorization", value)]).key(&policy);
    assert_eq!(with(&[]).key(&policy), KeyFor::Unauthorized(TokenFault::Missing));
    assert_eq!(fault("Basic YTpi"), KeyFor::Unauthorized(TokenFault::Missing));
    for value in ["Bearer a.b.c", "bearer x", "Bearer a.b.c d"] {
        assert_eq!(fault(value), KeyFor::Unauthorized(TokenFault::Invalid), "{value}");
    }
}

#[test]
fn a_field_sent_twice_gives_no_second_counter_and_evades_no_limit() {
    let of = |missing_key| Policy { missing_key, ..policy("header:x") };
    let twice = with(&[("x", "k1"), ("x", "made-up")]);
    for missing_key in [MissingKey::Ip, MissingKey::Skip, MissingKey::Deny] {
        assert_eq!(twice.key(&of(missing_key)), KeyFor::Ambiguous);
    }
    let repeated = with(&[("x", "k1"), ("x", "k1")]);
    assert_eq!(repeated.key(&of(MissingKey::Skip)), with(&[("x", "k1")]).key(&of(MissingKey::Ip)));
}

#[test]
fn first_uses_the_first_key_that_the_request_has() {
    let [x, y, ip] = ["header:x", "header:y", "ip"].map(|key| key.parse::<KeyExpr>().unwrap());
    let first = policy_of(KeyExpr::First(vec![x.clone(), y.clone(), ip.clone()]));
    let both = with(&[("x", "1"), ("y", "2")]);
    assert_eq!(both.key(&first), both.key(&policy_of(x)));
    let second = with(&[("y", "2")]);
    assert_eq!(second.key(&first), second.key(&policy_of(y)));
    assert_eq!(with(&[]).key(&first), with(&[]).key(&policy_of(ip)));
    let ambiguous = with(&[("x", "1"), ("x", "2"), ("y", "2")]);
    assert_eq!(ambiguous.key(&first), KeyFor::Ambiguous);
}

#[test]
fn an_invalid_token_is_not_skipped() {
    let forged = bearer(&[6; 32], &json!({ "sub": "ann" }));
    let lenient = format!("{forged}=");
    let key = |authorization: &str, key: KeyExpr, missing_key| {
        let mut case = with(&[("authorization", authorization), ("cookie", "sid=made-up")]);
        case.client.user = Some(users_by_token(&[5; 32]));
        case.key(&Policy { missing_key, ..policy_of(key) })
    };
    let user = || "user".parse::<KeyExpr>().unwrap();
    let first = || KeyExpr::First(vec![user(), "cookie:sid".parse().unwrap()]);
    let stands_in = with(&[]).key(&Policy { missing_key: MissingKey::Ip, ..policy("header:x") });
    for missing_key in [MissingKey::Ip, MissingKey::Skip] {
        assert_eq!(key(&forged, user(), missing_key), stands_in);
        assert_eq!(key(&forged, first(), missing_key), stands_in);
        assert_eq!(key(&lenient, user(), missing_key), KeyFor::Ambiguous);
    }
    assert_eq!(key(&forged, user(), MissingKey::Deny), KeyFor::Denied);
    // The token may be an API key. Then the request names no user.
    assert_eq!(key("Bearer opaque", user(), MissingKey::Skip), KeyFor::Exempt(Exemption::NoKey));
    assert!(is_key(key("Bearer opaque", first(), MissingKey::Deny)));
    assert_ne!(key("Bearer opaque", first(), MissingKey::Ip), stands_in);
}

#[test]
fn all_takes_every_part_or_none() {
    let [x, y] = ["header:x", "header:y"].map(|key| key.parse::<KeyExpr>().unwrap());
    let all = policy_of(KeyExpr::All(vec![x.clone(), y]));
    let key = |x, y| with(&[("x", x), ("y", y)]).key(&all);
    assert!(is_key(key("1", "2")));
    assert_ne!(key("1", "2"), key("2", "1"));
    assert_ne!(key("1", "2"), key("1", "3"));
    assert_ne!(key("12", "3"), key("1", "23"));
    assert_eq!(with(&[("x", "1")]).key(&all), KeyFor::Denied);
    let nested = policy_of(KeyExpr::All(vec![KeyExpr::All(vec![x.clone()])]));
    assert_ne!(with(&[("x", "1")]).key(&nested), with(&[("x", "1")]).key(&policy_of(x)));
}

#[test]
fn a_user_field_counts_from_trusted_peers_only() {
    let fields = [("x-user", "ann"), ("x-forwarded-for", "198.51.100.1")];
    let trusted = Case { peer: [10, 0, 0, 1].into(), ..with(&fields) };
    assert!(is_key(trusted.key(&policy("user"))));
    assert_eq!(with(&fields).key(&policy("user")), KeyFor::Denied);
}

#[test]
fn users_and_claims_come_from_verified_tokens() {
    let secret = [5; 32];
    let signed =
        |key: &[u8], sub: &str| bearer(key, &json!({ "sub": sub, "org": { "plan": "pro" } }));
    let key = |authorization: &str, key: &str| {
        let mut case = with(&[("authorization", authorization)]);
        case.client.user = Some(users_by_token(&secret));
        case.key(&policy(key))
    };
    let [ann, bob, forged] =
        [signed(&secret, "ann"), signed(&secret, "bob"), signed(&[6; 32], "ann")];
    assert!(is_key(key(&ann, "user")));
    assert_ne!(key(&ann, "user"), key(&bob, "user"));
    assert_ne!(key(&ann, "user"), key(&ann, "jwt:sub"));
    assert!(is_key(key(&ann, "jwt:org.plan")));
    assert_eq!(key(&ann, "jwt:org.plan"), key(&bob, "jwt:org.plan"));
    assert_eq!(key(&ann, "jwt:org"), KeyFor::Denied);
    assert_eq!(key(&forged, "user"), KeyFor::Denied);
    assert_eq!(key(&forged, "jwt:org.plan"), KeyFor::Denied);
}

#[test]
fn a_policy_keeps_its_counters_while_name_algorithm_and_window_stay() {
    let quota = |limit, secs| Quota::new(limit, Span::from_secs(secs)).unwrap();
    let sliding = |quota| Algorithm::SlidingWindow(SlidingWindow::new(quota));
    let buckets = |count| Algorithm::SubWindows(SubWindows::new(quota(100, 60), count).unwrap());
    let bucket = |burst| Algorithm::TokenBucket(TokenBucket::new(quota(100, 60), burst).unwrap());
    let key =
        |name: &str, algorithm| from("192.0.2.1").key(&Policy::new(name, KeyExpr::Ip, algorithm));
    let known = key("p", sliding(quota(100, 60)));
    assert_eq!(known, key("p", sliding(quota(5, 60))));
    assert_eq!(key("p", bucket(10)), key("p", bucket(20)));
    let different = [
        key("q", sliding(quota(100, 60))),
        key("p", sliding(quota(100, 61))),
        key("p", buckets(10)),
        key("p", buckets(20)),
        key("p", Algorithm::FixedWindow(FixedWindow::new(quota(100, 60)))),
        key("p", bucket(10)),
    ];
    for (at, other) in different.iter().enumerate() {
        assert_ne!(known, *other);
        assert!(!different[..at].contains(other), "{at}");
    }
}

#[test]
fn second_counters_of_a_policy_are_separate_and_keep_their_states() {
    let quota = |limit, secs| Quota::new(limit, Span::from_secs(secs)).unwrap();
    let log = |limit, secs| Algorithm::SlidingLog(SlidingLog::new(quota(limit, secs)).unwrap());
    let ban =
        |secs| Algorithm::Ban(Ban::new(Span::from_secs(secs), Span::from_secs(2 * secs)).unwrap());
    let [own, other] =
        [1, 2].map(|n| Key { principal: Principal::from_bits(1), counter: Counter::from_bits(n) });
    let known = Beside::Refusals.key(own, &log(5, 60));
    assert_eq!(known, Beside::Refusals.key(own, &log(7, 60)));
    let different = [
        own,
        Beside::Refusals.key(other, &log(5, 60)),
        Beside::Refusals.key(own, &log(5, 61)),
        Beside::Beyond.key(own, &log(5, 60)),
        Beside::Ban.key(own, &ban(60)),
    ];
    assert!(!different.contains(&known));
    assert_eq!(Beside::Ban.key(own, &ban(60)), Beside::Ban.key(own, &ban(61)));
}

#[test]
fn one_condition_suffices_to_be_exempt() {
    let exempt = Exempt {
        ips: vec!["198.51.100.0/24".parse().unwrap()],
        places: vec![],
        classes: vec![],
        methods: vec![Method::PUT],
        headers: vec![(HeaderName::from_static("x-internal"), HeaderValue::from_static("s3cret"))],
    };
    let policy = Policy { exempt, ..policy("ip") };
    let forwarded = [("x-forwarded-for", "198.51.100.7")];
    let exempted = [
        from("198.51.100.7"),
        from("::ffff:198.51.100.7"),
        Case { peer: [10, 0, 0, 1].into(), ..with(&forwarded) },
        Case { method: Method::PUT, ..with(&[]) },
        with(&[("x-internal", "s3cret")]),
        with(&[("x-internal", "wrong"), ("x-internal", "s3cret")]),
    ];
    let why = [
        Exemption::Address,
        Exemption::Address,
        Exemption::Address,
        Exemption::Method,
        Exemption::Header(0),
        Exemption::Header(0),
    ];
    for (case, why) in exempted.into_iter().zip(why) {
        let key = case.key(&policy);
        assert_eq!(key, KeyFor::Exempt(why), "{} {:?}", case.peer, case.headers);
    }
    let judged = [
        with(&[]),
        with(&forwarded),
        with(&[("x-internal", "s3cre")]),
        with(&[("x-internal", "")]),
        with(&[("x-internal", "S3CRET")]),
    ];
    for case in judged {
        assert!(is_key(case.key(&policy)), "{} {:?}", case.peer, case.headers);
    }
}

#[test]
fn preflights_are_exempt_and_other_options_are_not() {
    let options = |headers: &[_]| Case { method: Method::OPTIONS, ..with(headers) };
    let asks = ("access-control-request-method", "PUT");
    let origin = ("origin", "https://a.test");
    assert_eq!(options(&[asks, origin]).key(&policy("ip")), KeyFor::Exempt(Exemption::Preflight));
    assert!(is_key(options(&[asks]).key(&policy("ip"))));
    assert!(is_key(options(&[origin]).key(&policy("ip"))));
    assert!(is_key(with(&[asks, origin]).key(&policy("ip"))));
}

proptest! {
    #[test]
    fn different_values_have_different_keys(
        one in "[ -~]{1,12}",
        other in "[ -~]{1,12}",
    ) {
        let key = |value: &str| with(&[("x", value)]).key(&policy("header:x"));
        prop_assert_eq!(key(&one) == key(&other), one == other);
    }
}

proptest! {
    #[test]
    fn policies_one_after_the_other_have_the_keys_that_each_has_alone(
        words in prop::collection::vec(
            prop::sample::select(vec!["ip", "api_key", "header:x", "header:y", "global"]),
            1..12,
        ),
    ) {
        let case = with(&[("x-api-key", "k"), ("x", "1")]);
        let policies: Vec<_> = words.iter().map(|word| policy(word)).collect();
        case.ask(&policies[0], |subject| {
            let mut last = LastPrincipal::default();
            for policy in &policies {
                assert_eq!(subject.key_after(policy, &mut last), subject.key(policy));
            }
        });
    }
}

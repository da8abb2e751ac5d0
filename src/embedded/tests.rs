//! Policies of a file and policies in Rust are the same.

use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;
use http_body_util::{BodyExt as _, Full};
use proptest::prelude::*;
use tollgate_limiter::{
    Algorithm, Client, Counting, Identity, Key, Limit, Missing, OnMissingKey, OnStoreFailure,
    Outcome, Plans, Policy, Settle, Store,
};
use tower::{Layer as _, ServiceExt as _};

use super::*;
use crate::config::Rate;

/// A whole file with one policy, `p`.
fn file(policy: &str) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:8080\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://127.0.0.1:9000\"] }} }}\n\
         client: {{ trusted_proxies: [10.0.0.0/8] }}\n\
         store: {{ redis: {{ url: \"redis://127.0.0.1:1\" }} }}\n\
         policies: {{ p: {{ {policy} }} }}\n\
         routes: [{{ path: /*, upstream: app, policies: [p] }}]\n"
    )
}

fn compiled(policy: &str) -> String {
    let config = Config::parse(&file(policy), "gateway.yaml", &|_| None).expect("no mistake");
    format!("{:#?}", config.config.policies[0])
}

fn limit(text: &str) -> Limit {
    text.parse().expect("a limit")
}

/// If they were not, an application would count in other counters than the gateways.
#[test]
fn a_policy_in_rust_is_the_same_as_in_a_file() {
    let p = |text| Policy::new("p", Key::Ip, limit(text));
    let tenant = || Key::Header("x-tenant".into());
    let plans = Plans::by(tenant()).limit("pro", limit("1000/minute")).unlimited("own");
    let cases = [
        ("key: ip, limit: 100/minute", p("100/minute")),
        ("key: ip, limit: 1k/15m, buckets: 10", p("1k/15m").buckets(10)),
        (
            "key: { all: [ip, \"header:x-tenant\"] }, limit: 5/s, missing_key: deny",
            Policy::new("p", Key::All(vec![Key::Ip, tenant()]), limit("5/s"))
                .on_missing_key(OnMissingKey::Deny),
        ),
        (
            "key: ip, limit: 100/minute, algorithm: token_bucket, burst: 20, soft: 10%, \
             plans: { from: \"header:x-tenant\", limits: { pro: 1000/minute, own: unlimited } }",
            p("100/minute").algorithm(Algorithm::TokenBucket).burst(20).soft(10).plans(plans),
        ),
        (
            "key: ip, limit: 10/s, algorithm: leaky_bucket, max_delay: 2s",
            p("10/s").algorithm(Algorithm::LeakyBucket).max_delay(Duration::from_secs(2)),
        ),
        (
            "key: ip, limit: 10/day, algorithm: fixed_window, calendar: Europe/Berlin, mode: shadow",
            p("10/day").algorithm(Algorithm::FixedWindow).calendar("Europe/Berlin").shadow(),
        ),
        (
            "key: ip, limit: 10/h, algorithm: sliding_log, on_store_failure: deny",
            p("10/h").algorithm(Algorithm::SlidingLog).on_store_failure(OnStoreFailure::Deny),
        ),
        ("key: ip, limit: 20, algorithm: concurrency", p("20").algorithm(Algorithm::Concurrency)),
        (
            "key: ip, limit: 1M/h, store_mode: leased, cost: { header: x-cost, default: 2, max: 9 }",
            p("1M/h").counting(Counting::Leased).cost_header("x-cost", 2, 9),
        ),
        (
            "key: ip, limit: 1M/h, cost: { reserve: 200, settle: { json: /usage/total } }",
            p("1M/h").reserve(200, Settle::Json("/usage/total".into())),
        ),
        (
            "key: ip, limit: 5/m, count: { status: [401] }, exempt_preflights: false, \
             exempt: { ips: [10.0.0.0/8], methods: [HEAD], headers: { x-in: \"1\" } }",
            p("5/m")
                .count_only([StatusCode::UNAUTHORIZED])
                .count_preflights()
                .exempt_network("10.0.0.0/8")
                .exempt_method(http::Method::HEAD)
                .exempt_header("x-in", "1"),
        ),
        (
            "key: api_key, limit: 5/m, missing_key: unauthorized",
            Policy::new("p", Key::ApiKey, limit("5/m")).on_missing_key(OnMissingKey::Unauthorized),
        ),
        (
            "key: ip, limit: 5/m, penalty: { after: 10/minute, ban: 5m, max_ban: 1h }",
            p("5/m")
                .penalty(limit("10/minute"), Duration::from_secs(300))
                .max_ban(Duration::from_secs(3600)),
        ),
        ("key: ip, limit: 5/m, cost: 4, overrides: true", p("5/m").cost(4).overrides()),
    ];
    for (text, policy) in cases {
        let client = Client::new().trusted_proxy("10.0.0.0/8");
        let store = Store::redis("redis://127.0.0.1:1").expect("a URL");
        let builder = Limiter::builder().client(client).store(store).policy(policy);
        let ours = &builder.compile().expect("a policy").0[0];
        assert_eq!(format!("{ours:#?}"), compiled(text), "{text}");
    }
}

#[test]
fn a_policy_that_only_a_gateway_can_apply_is_left_out() {
    let text = "listeners: [{ address: \"127.0.0.1:8080\" }]\n\
                upstreams: { app: { endpoints: [\"http://127.0.0.1:9000\"] } }\n\
                policies: { a: { key: route, limit: 5/s }, b: { key: ip, limit: 5/s } }\n\
                routes: [{ path: /*, upstream: app, policies: [a, b] }]\n";
    let limiter = from_yaml(text).expect("a limiter");
    assert!(limiter.policy("a").is_err() && limiter.policy("b").is_ok());
    assert!(matches!(from_yaml("listeners: 1"), Err(EmbedError::Mistakes(_))));
}

/// Regression: such a policy was kept, although no password is ever checked. It refused all users with
/// 503, or counted them by their address.
#[test]
fn a_policy_by_users_with_passwords_is_left_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let users = directory.path().join("htpasswd");
    let hash = "$2b$05$abcdefghijklmnopqrstuuoXuKqgZXLiJqzfmMXDDhSFPIvxV7t8.";
    std::fs::write(&users, format!("alice:{hash}\n")).expect("a file");
    let basic = format!("basic: {{ file: {users:?}, realm: staff }}");
    for (source, policy, is_kept) in [
        (&*basic, "key: user, limit: 5/s, missing_key: deny", false),
        (&basic, "key: { first: [user, ip] }, limit: 5/s", false),
        (&basic, "key: ip, limit: 5/s, plans: { from: user, limits: { alice: 9/s } }", false),
        (&basic, "key: ip, limit: 5/s", true),
        ("header: x-user", "key: user, limit: 5/s", true),
    ] {
        let text = in_memory(policy).replace("key: ip, key:", "key:");
        let client = "client: { trusted_proxies: [10.0.0.0/8]";
        let text = text.replace(client, &format!("{client}, user: {{ {source} }}"));
        let limiter = from_yaml(&text).expect("a limiter");
        assert_eq!(limiter.policy("p").is_ok(), is_kept, "{source} {policy}");
    }
}

/// A file with this policy, `p`, whose counters are in memory.
fn in_memory(policy: &str) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:8080\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://127.0.0.1:9000\"], max_in_flight: 9 }} }}\n\
         client: {{ trusted_proxies: [10.0.0.0/8] }}\n\
         prices: {{ currency: usd, models: {{ gpt: {{ input: 1, output: 2 }} }} }}\n\
         policies: {{ p: {{ key: ip, {policy} }} }}\n\
         routes: [{{ path: /*, upstream: app, policies: [p] }}]\n"
    )
}

/// Regression: policies whose cost needs the body were kept, and limited nothing or everything.
#[test]
fn a_policy_whose_cost_only_a_gateway_can_read_is_left_out() {
    let money = "limit: 5 usd/day, cost: { settle: { usage: openai }, reserve";
    let cases = [
        ("limit: 5/s, cost: { messages: true }", false),
        ("limit: 5/s, cost: { body_bytes: 1KiB }", false),
        (&*format!("{money}: {{}} }}"), false),
        (&*format!("{money}: {{ model: \"json:/m\" }} }}"), false),
        (&*format!("{money}: {{ model: \"header:x-model\" }} }}"), true),
        ("limit: 5/s, cost: { reserve: {}, settle: { usage: openai } }", true),
        ("limit: 5/s, cost: { reserve: 3, settle: { usage: openai, ask_usage: true } }", true),
        ("limit: 5/s, cost: { header: x-cost }", true),
    ];
    for (policy, is_kept) in cases {
        let limiter = from_yaml(&in_memory(policy)).expect("a limiter");
        assert_eq!(limiter.policy("p").is_ok(), is_kept, "{policy}");
    }
}

/// The log names what an application does not do.
#[test]
fn a_setting_that_only_a_gateway_can_apply_is_told() {
    let notes = |policy: &str| {
        let text = in_memory(&format!("limit: 5/s, {policy}"));
        let parsed = Config::parse(&text, "gateway.yaml", &|_| None).expect("no mistake");
        let notes: Vec<_> = without_effect(&parsed.config.policies[0]).collect();
        notes.join("\n")
    };
    let cases = [
        ("cost: { reserve: {}, settle: { usage: openai } }", "Content-Length"),
        ("cost: { reserve: 3, settle: { usage: openai, ask_usage: true } }", "ask_usage"),
        ("penalty: { after: 9/m, ban: 1h, delay: 2s }", "penalty.delay"),
        ("warn: [80%]", "warn has no effect"),
        ("elastic: { limit: 9/s, when: { upstream_in_flight_below: 50% } }", "elastic"),
    ];
    for (policy, told) in cases {
        let notes = notes(policy);
        assert!(notes.contains(told) && notes.lines().count() == 1, "{policy}: {notes}");
    }
    for policy in ["penalty: { after: 9/m, ban: 1h }", "cost: { header: x-cost }"] {
        assert_eq!(notes(policy), "", "{policy}");
    }
}

/// Regression: without `max`, the most that any limit admits was charged, and refused for ever.
#[test]
fn a_check_reserves_at_most_the_limit() {
    let policy = "limit: 100k/minute, cost: { reserve: {}, settle: { usage: openai } }";
    let limiter = from_yaml(&in_memory(policy)).expect("a limiter");
    let handle = limiter.policy("p").expect("a policy");
    let decision = limiter.check(&handle, "tenant-42").now().expect("it is in memory");
    assert!(decision.is_admitted());
    assert_eq!(decision.reports().next().map(|report| report.used()), Some(100_000));
    decision.into_lease().settle(70);
    let decision = limiter.check_n(&handle, "tenant-42", 0).now().expect("it is in memory");
    assert_eq!(decision.reports().next().map(|report| report.used()), Some(70));
    // What the caller names is no estimate.
    let never = limiter.check_n(&handle, "tenant-42", 100_001).now().expect("it is in memory");
    assert_eq!(never.outcome(), Outcome::Refuse { retry: None });
}

proptest! {
    /// The library and the file have a parser each, because the errors of the file have advice.
    #[test]
    fn limits_are_read_alike(
        count in "[0-9_]{1,13}[kMx]?",
        window in "([0-9_]{0,4}(ms|s|sec|min|m|hours|h|d|week|w|y)){1,2}| ?minute ?|months?|1month|",
    ) {
        let text = format!("{count}/{window}");
        let ours = text.parse::<Limit>().ok().map(|it| (it.units(), it.window()));
        let theirs = text.parse::<Rate>().ok();
        let theirs = theirs.map(|Rate(it)| (it.limit(), Some(Duration::from(it.window()))));
        prop_assert_eq!(ours, theirs, "{}", text);
    }
}

/// The text of the key in a file of [`keys_in`].
const TEXT: &str = "tg_03d4jt3198h8_c7ZBC6RuaYGLECHZFnMe7yS7RcJbvK8jryikuviOomj0JolhF";

/// A file with one key, of a team.
fn keys_in(directory: &tempfile::TempDir) -> PathBuf {
    const HASH: &str = "0de67670f76be437806c94f133c9f16fd4522981188c2bc0858ea3f9a29af3ee";
    let path = directory.path().join("keys.yaml");
    let text = format!("keys: [{{ id: 03d4jt3198h8, team: acme, sha256: {HASH} }}]\n");
    std::fs::write(&path, text).expect("a file");
    path
}

/// What a request says of its client is the same for a check and for `authenticate`.
#[test]
fn a_key_in_a_cookie_is_known_by_the_fields_of_its_request() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = keys_in(&directory);
    let yaml = format!(
        "listeners: [{{ address: \"127.0.0.1:8080\" }}]\n\
         client: {{ api_key: {{ cookie: key }}, \
                    keys: {{ file: {path:?} }} }}\n\
         policies: {{ p: {{ key: \"api_key:team\", limit: 5/m }} }}\n\
         routes: [{{ path: /*, policies: [p], respond: {{ body: ok }} }}]\n"
    );
    let limiter = from_yaml(&yaml).expect("a limiter");
    let identity = |fields: &[&(&'static str, String)]| {
        let fields = fields.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), value.parse().expect("a value"))
        });
        limiter.authenticate(&http::HeaderMap::from_iter(fields)).now().expect("it is known now")
    };
    let cookie = ("cookie", format!("a=b; key={TEXT}"));
    assert!(matches!(identity(&[&cookie]), Identity::Known(key) if key.id() == "03d4jt3198h8"));
    let one = ("x-api-key", TEXT.to_owned());
    assert!(matches!(identity(&[&one, &cookie]), Identity::Known(_)));
    let other = ("x-api-key", TEXT.replace("hF", "hG"));
    assert!(matches!(identity(&[&other, &cookie]), Identity::Ambiguous));
}

/// The file of a gateway is that of an application.
#[test]
fn the_keys_of_a_file_are_known() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = keys_in(&directory);
    let fields = http::HeaderMap::from_iter([(
        http::HeaderName::from_static("x-api-key"),
        http::HeaderValue::from_static(TEXT),
    )]);
    let by_hand = Client::new().keys(keys(&path, "tg").expect("a file of keys"));
    let by_hand = Limiter::builder().client(by_hand).build().expect("a limiter");
    let yaml = format!(
        "listeners: [{{ address: \"127.0.0.1:8080\" }}]\n\
         client: {{ keys: {{ file: {path:?} }} }}\n\
         policies: {{ p: {{ key: \"api_key:team\", limit: 5/m }} }}\n\
         routes: [{{ path: /*, policies: [p], respond: {{ body: ok }} }}]\n"
    );
    let of_gateway = from_yaml(&yaml).expect("a limiter");
    assert!(of_gateway.policy("p").is_ok(), "the policy is not left out");
    for limiter in [by_hand, of_gateway] {
        let Some(Identity::Known(key)) = limiter.authenticate(&fields).now() else {
            panic!("it is known")
        };
        assert_eq!((key.id(), key.team()), ("03d4jt3198h8", Some("acme")));
    }
    std::fs::write(&path, "keys: [{ id: x }]\n").expect("a file");
    assert!(matches!(keys(&path, "tg"), Err(KeysError::Mistakes(_))));
    assert!(matches!(keys(directory.path(), "tg"), Err(KeysError::Unreadable(_))));
    assert!(matches!(keys(&path, "a b"), Err(KeysError::Prefix(_))));
}

/// Regression: a client with a valid key was told that it has none.
#[tokio::test]
async fn a_limit_of_a_key_that_its_policy_cannot_count_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = keys_in(&directory);
    let text = std::fs::read_to_string(&path).expect("a file");
    let limited = text.replace("team: acme", "limits: { p: 5 usd/day }");
    std::fs::write(&path, limited).expect("a file");
    let client = Client::new().keys(keys(&path, "tg").expect("a file of keys"));
    let builder = Limiter::builder().client(client);
    let limiter = builder.policy(Policy::new("p", Key::ApiKey, limit("9/day"))).build();
    let limiter = limiter.expect("a limiter");
    let request = http::Request::get("/")
        .header("x-api-key", TEXT)
        .extension(std::net::SocketAddr::from(([192, 0, 2, 7], 1)));
    let (head, ()) = request.body(()).expect("a request").into_parts();
    let policy = limiter.policy("p").expect("a policy");
    let decision = limiter.check_request(&[policy], &head, Some([192, 0, 2, 7].into())).await;
    assert_eq!(decision.outcome(), Outcome::KeyMissing);
    assert_eq!(decision.missing(), Some(Missing::UnfitLimit));
    let service = limiter.layer().layer(tower::service_fn(async |_: http::Request<()>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(Full::<bytes::Bytes>::default()))
    }));
    let response = service.oneshot(http::Request::from_parts(head, ())).await.expect("a response");
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    let body = String::from_utf8_lossy(&body);
    assert!(body.contains("the limit of this API key cannot be counted"), "{body}");
}

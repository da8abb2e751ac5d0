//! Policies become what they say.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use tollgate_core::algorithm::{Ban, Quota, SlidingWindow, TokenBucket};
use tollgate_core::meter::{MeterSpec, Tariff, UsageApi, Weights};
use tollgate_core::policy::{Cost, Count, Mode, Plan, Policy};
use tollgate_core::time::Span;

use super::*;

/// The policy of the smallest file with these fields besides its key.
fn policy(fields: &str) -> Arc<Policy> {
    let text = SMALLEST.replace("limit: 100/minute", fields);
    let text = format!("{text}client: {{ trusted_proxies: [10.0.0.0/8] }}\n");
    let Compiled { config, warnings, .. } =
        parse(&text).unwrap_or_else(|report| panic!("{report}"));
    assert!(warnings.is_empty(), "{warnings}");
    Arc::clone(&config.policies[0])
}

#[test]
fn policies_are_as_they_were_written() {
    let config = compile(LARGEST);
    assert_eq!(config.store.max_keys, 5000);
    let [nested, bucket, fixed, sub, ..] = &config.policies[..] else { panic!("four policies") };
    assert_eq!(
        nested.key,
        KeyExpr::First(vec![
            KeyExpr::ApiKey,
            KeyExpr::All(vec![KeyExpr::User, KeyExpr::Header("x-tenant".parse().unwrap())]),
        ])
    );
    assert_eq!(nested.missing_key, MissingKey::Deny);
    assert_eq!(nested.exempt.ips.len(), 1);
    assert_eq!(nested.exempt.methods, [http::Method::OPTIONS]);
    assert_eq!(nested.exempt.headers, [("x-internal".parse().unwrap(), "1".parse().unwrap())]);
    let response = nested.response.as_ref().unwrap();
    assert_eq!((response.status.as_u16(), response.content_type.as_bytes()), (503, &b"a/b"[..]));
    assert_eq!(&*response.body, "{\"wait\":{retry_after}}");
    assert!(matches!(bucket.algorithm, Algorithm::TokenBucket(_)));
    assert!(matches!(fixed.algorithm, Algorithm::FixedWindow(_)));
    assert!(matches!(sub.algorithm, Algorithm::SubWindows(_)));
}

#[test]
fn limits_beyond_the_limit_are_as_they_were_written() {
    let config = compile(LARGEST);
    let [daily, logged, .., uploads, _] = &config.policies[4..] else { panic!("ten policies") };
    let Algorithm::FixedWindow(fixed) = &daily.algorithm else { panic!("{daily:?}") };
    assert_eq!(fixed.zone(), Some("Europe/Berlin"));
    assert_eq!(daily.soft, daily.algorithm.with_limit(110).ok());
    let plans = daily.plans.as_ref().unwrap();
    assert_eq!(plans.from, KeyExpr::Jwt("plan".into()));
    let [(pro, Plan::Limited { algorithm, soft }), (internal, Plan::Unlimited)] = &plans.limits[..]
    else {
        panic!("{plans:?}")
    };
    assert_eq!((&**pro, &**internal), ("pro", "internal"));
    assert_eq!(Some(algorithm), daily.algorithm.with_limit(1000).ok().as_ref());
    assert_eq!(*soft, daily.algorithm.with_limit(1100).ok());

    let penalty = logged.penalty.as_ref().unwrap();
    assert_eq!((penalty.after.limit(), penalty.after.window()), (10, Span::from_secs(60)));
    assert_eq!(penalty.ban, ban(300, 172_800));

    let elastic = uploads.elastic.as_ref().unwrap();
    assert_eq!(Some(&elastic.beyond), uploads.algorithm.with_limit(2_000_000).ok().as_ref());
    assert_eq!(elastic.latency_below, Some(Span::from_millis(200)));
    assert_eq!(elastic.in_flight_below_percent, Some(50));
}

#[test]
fn costs_and_outcomes_are_as_they_were_written() {
    let config = compile(LARGEST);
    let [daily, logged, queue, running, uploads, tokens] = &config.policies[4..] else {
        panic!("ten policies, and none that is off")
    };
    assert_eq!(
        (&daily.cost, &daily.count, daily.mode),
        (&Cost::Fixed(1), &Count::All, Mode::Enforce)
    );
    assert!(matches!(logged.algorithm, Algorithm::SlidingLog(_)));
    let statuses = [401, 403].map(|status| http::StatusCode::from_u16(status).unwrap());
    assert_eq!(logged.count, Count::statuses(statuses.to_vec()));
    let Algorithm::LeakyBucket(bucket) = &queue.algorithm else { panic!("{queue:?}") };
    assert_eq!((bucket.max_delay(), bucket.depth()), (Span::from_secs(2), Some(5)));
    assert_eq!(queue.cost, Cost::Fixed(4));
    assert!(matches!(running.algorithm, Algorithm::Concurrency(_)));
    assert_eq!((running.algorithm.limit(), running.mode), (20, Mode::Shadow));
    let cost = Cost::Field { name: "x-cost".parse().unwrap(), default: 2, max: Some(10) };
    assert_eq!(running.cost, cost);
    let kibibyte = NonZeroU64::new(1024).unwrap();
    assert_eq!(uploads.cost, Cost::Body { unit_bytes: kibibyte });
    let meter = MeterSpec::SseJson("/usage/total_tokens".parse().unwrap());
    assert_eq!(tokens.cost, Cost::Metered { reserve: 2000, estimate: None, meter });
}

#[test]
fn a_cost_is_settled_by_what_is_written() {
    let cases = [
        ("header: x-used", MeterSpec::Header("x-used".parse().unwrap())),
        ("json: /usage/0", MeterSpec::Json("/usage/0".parse().unwrap())),
        ("json: \"\"", MeterSpec::Json("".parse().unwrap())),
        ("sse_json: /usage", MeterSpec::SseJson("/usage".parse().unwrap())),
        ("body: /usage", MeterSpec::Body("/usage".parse().unwrap())),
        ("usage: gemini", MeterSpec::Usage { api: UsageApi::Gemini, tariff: Tariff::default() }),
        (
            "usage: openai, weights: { cache_read: 10%, output: 400% }",
            MeterSpec::Usage {
                api: UsageApi::OpenAi,
                tariff: Weights { cache_read: 10, output: 400, ..Weights::default() }.into(),
            },
        ),
        ("response_bytes: 7", MeterSpec::Bytes { unit: NonZeroU64::new(7).unwrap() }),
    ];
    for (settle, meter) in cases {
        let fields = format!("limit: 9/s, cost: {{ reserve: 9, settle: {{ {settle} }} }}");
        assert_eq!(
            policy(&fields).cost,
            Cost::Metered { reserve: 9, estimate: None, meter },
            "{settle}"
        );
    }
}

#[test]
fn a_cost_by_header_is_one_by_default_and_at_most_the_limit_of_the_client() {
    let cost = |fields: &str| match &policy(fields).cost {
        Cost::Field { default, max, .. } => (*default, *max),
        other => panic!("{other:?}"),
    };
    assert_eq!(cost("limit: 100/s, cost: { header: x-cost }"), (1, None));
    assert_eq!(cost("limit: 100/s, cost: { header: x-cost, max: 7 }"), (1, Some(7)));
}

#[test]
fn a_soft_limit_is_rounded_down_and_a_bucket_grows_but_refills_no_faster() {
    let soft = |fields| policy(fields).soft.clone();
    assert_eq!(soft("limit: 100/s, soft: 0%"), None);
    assert_eq!(soft("limit: 19/s, soft: 10%").unwrap().limit(), 20);
    assert_eq!(soft("limit: 7, algorithm: concurrency, soft: 100%").unwrap().limit(), 14);
    let quota = Quota::new(100, Span::SECOND).unwrap();
    let bucket = Algorithm::TokenBucket(TokenBucket::new(quota, 22).unwrap());
    let fields = "limit: 100/s, algorithm: token_bucket, burst: 20, soft: 10%";
    assert_eq!(soft(fields), Some(bucket));
}

fn ban(first_s: u64, longest_s: u64) -> Algorithm {
    let span = Span::from_secs;
    Algorithm::Ban(Ban::new(span(first_s), span(longest_s)).unwrap())
}

#[test]
fn the_longest_ban_is_a_day_or_the_first_ban_if_that_is_longer() {
    let bans = |first: &str| {
        let fields = format!("limit: 5/s, penalty: {{ after: 10/minute, ban: {first} }}");
        policy(&fields).penalty.as_ref().unwrap().ban.clone()
    };
    assert_eq!(bans("5m"), ban(300, 86_400));
    assert_eq!(bans("1w"), ban(7 * 86_400, 7 * 86_400));
}

#[test]
fn plans_of_what_is_in_flight_are_counts_without_time() {
    let fields = "limit: 5, algorithm: concurrency, plans: { from: method, limits: { GET: 50 } }";
    let plans = policy(fields).plans.clone().unwrap();
    let [(_, Plan::Limited { algorithm, soft: None })] = &plans.limits[..] else {
        panic!("{plans:?}")
    };
    assert_eq!((algorithm.limit(), algorithm.window()), (50, Span::ZERO));
}

#[test]
fn a_policy_that_is_off_has_no_effect_and_no_warning() {
    let text = SMALLEST.replace("limit: 100/minute", "limit: 100/minute, mode: off");
    let Compiled { config, warnings, .. } = parse(&text).unwrap();
    assert!(warnings.is_empty(), "{warnings}");
    assert!(config.policies.is_empty() && config.routes[0].rule.policies.is_empty());
}

#[test]
fn behind_a_proxy_a_plan_from_a_field_has_no_warning() {
    policy("limit: 5/s, plans: { from: header:x-plan, limits: { pro: unlimited } }");
}

/// Three bytes of a digest tell counters apart in Redis.
#[test]
fn policies_whose_counters_redis_cannot_distinguish_are_refused() {
    let quota = Quota::new(100, Span::from_secs(60)).unwrap();
    let counted = Algorithm::SlidingWindow(SlidingWindow::new(quota));
    let mut known = HashMap::new();
    let alike = (0..100_000).find_map(|number| {
        let name = format!("p{number}");
        let counter = Policy::new(&name, KeyExpr::Ip, counted.clone()).counter.stored();
        known.insert(counter, name.clone()).map(|other| [other, name])
    });
    let [first, second] = alike.expect("they are called by 24 bits");
    let with = |store: &str| {
        let both =
            [&first, &second].map(|name| format!("{name}: {{ key: ip, limit: 100/minute }}"));
        let text = SMALLEST
            .replace("per-client: { key: ip, limit: 100/minute }", &both.join("\n  "))
            .replace("[per-client]", &format!("[{first}, {second}]"));
        text + store
    };
    parse(&with("")).unwrap_or_else(|report| panic!("in memory they are apart: {report}"));
    let report = parse(&with("store: { redis: { url: \"redis://127.0.0.1\" } }\n")).unwrap_err();
    let report = report.to_string();
    let expected =
        format!("the policies \"{first}\" and \"{second}\" would share a counter in Redis");
    assert!(report.contains(&expected), "{report}");
}

//! The effective configuration means the same as the file.

use serde_json::json;
use tollgate_core::time::Timestamp;
use tollgate_redis::EntryVersion;

use super::*;
use crate::config::{Compiled, Config};
use crate::patches::{Change, Entry, Resolved};

const SMALLEST: &str = "listeners: [{ address: 0.0.0.0:8080 }]\n\
    upstreams: { app: { endpoints: [http://127.0.0.1:9000] } }\n\
    policies: { per-client: { key: ip, limit: 100/minute } }\n\
    routes: [{ path: /*, policies: [per-client], upstream: app }]\n";

/// One policy of each algorithm, and most optional sections.
const POLICIES: &str = "\
    window: { key: ip, limit: 5/s, algorithm: sliding_window }\n  \
    log: { key: ip, limit: 6/s, algorithm: sliding_log }\n  \
    fixed: { key: ip, limit: 7/s, algorithm: fixed_window, penalty: { after: 9/m, ban: 5m } }\n  \
    bucket: { key: ip, limit: 8/s, algorithm: token_bucket, response: { body: x } }\n  \
    leaky: { key: ip, limit: 9/s, algorithm: leaky_bucket, max_delay: 2s }\n  \
    open: { key: global, limit: 10, algorithm: concurrency }\n  \
    all: { key: ip, limit: unlimited, plans: { from: header:x, limits: { pro: 5/m } } }\n  \
    month: { key: ip, limit: 11/month }\n  \
    months: { key: ip, limit: unlimited, plans: { from: header:x, limits: { a: unlimited, b: 5/month } } }\n  \
    cost: { key: ip, limit: 90/h, cost: { header: x-cost, max: 9 }, exempt: { ips: [10.0.0.0/8] } }\n";

fn env(name: &str) -> Option<String> {
    Some(match name {
        "SECRET" => "a-secret-of-more-than-32-bytes-as-HS256-wants".to_owned(),
        "LIMIT" => "7/minute".to_owned(),
        "NUMBER" => "42".to_owned(),
        "YES" => "true".to_owned(),
        _ => return None,
    })
}

fn parse(text: &str) -> Compiled {
    Config::parse(text, "gateway.yaml", &env).unwrap_or_else(|report| panic!("{report}"))
}

fn effective(text: &str) -> Effective {
    parse(text).document.effective(&Resolved::default())
}

/// What a file compiles to. Names are sorted first, as in the settings that are shown.
fn meaning(text: &str) -> String {
    format!("{:?}", parse(&plain(text).to_string()).config)
}

/// The file as JSON.
fn plain(text: &str) -> Value {
    let options = serde_yaml::options! { strict_booleans: true };
    serde_yaml::from_str_with_options(text, options).expect("it is YAML")
}

/// The settings with the secrets of `text` in the places of their masks.
fn unmasked(effective: &Effective, text: &str) -> String {
    let whole = plain(text);
    let mut settings = effective.settings.clone();
    for path in &effective.masked {
        let place = settings.pointer_mut(path).expect("it is there");
        *place = whole.pointer(path).expect("it is in the file").clone();
    }
    settings.to_string()
}

#[test]
fn an_effective_configuration_compiles_to_the_same_settings() {
    let policies =
        SMALLEST.replace("policies: { per-client", &format!("policies:\n  {POLICIES}  per-client"));
    let policies = policies.replace("100/minute } }", "100/minute }");
    let policies = policies + "client: { trusted_proxies: [10.0.0.0/8] }\n";
    let largest = include_str!("../tests/largest.yaml");
    let shipped = include_str!("../../../gateway.yaml");
    for (index, text) in [SMALLEST, &policies, shipped, largest].into_iter().enumerate() {
        let effective = effective(text);
        assert!(effective.by_default.len() > 20, "{effective:?}");
        let again = unmasked(&effective, text);
        let again_means = meaning(&again);
        let means = meaning(text);
        let same = again_means.bytes().zip(means.bytes()).take_while(|(a, b)| a == b).count();
        let from = same.saturating_sub(200);
        let at = |text: &str| text.chars().skip(from).take(400).collect::<String>();
        assert!(again_means == means, "{index}: {}\n{}", at(&again_means), at(&means));
        // It is complete: nothing is added to it.
        let complete = parse(&again).document.effective(&Resolved::default());
        assert_eq!(complete.by_default, Vec::<String>::new());
    }
}

#[test]
fn defaults_references_and_masks_have_their_origins() {
    let text = SMALLEST.replace("100/minute", "\"${LIMIT}\", buckets: \"${NUMBER}\"").replace(
        "path: /*,",
        "path: /*, request_headers: { set: { authorization: hunter2, x-from: \"${SECRET}\" } },",
    );
    let text = text
        + "problem_json: \"${YES}\"\n\
                 admin: { address: 127.0.0.1:9901, token: \"${SECRET}\" }\n";
    let effective = effective(&text);
    let shown = &effective.settings;
    let all = format!("{effective:?}");
    assert!(!all.contains("hunter2") && !all.contains("secret-of"));
    let policy = &shown["policies"]["per-client"];
    assert_eq!((&policy["limit"], &policy["buckets"]), (&json!("7/minute"), &json!(42)));
    assert_eq!(
        (&policy["algorithm"], &policy["mode"]),
        (&json!("sliding_window"), &json!("enforce"))
    );
    assert_eq!(policy.get("burst"), None, "it belongs to another algorithm");
    assert_eq!(shown["problem_json"], true);
    assert_eq!(shown["admin"]["token"], "${SECRET}");
    assert_eq!(shown["listeners"][0]["timeouts"]["request_head"], "10s");
    assert_eq!(
        effective.referred,
        ["/policies/per-client/buckets", "/policies/per-client/limit", "/problem_json"]
    );
    assert_eq!(effective.masked, ["/routes/0/request_headers/set/authorization"]);
    for path in ["/listeners/0/timeouts/request_head", "/policies/per-client/missing_key"] {
        assert!(effective.by_default.iter().any(|it| it == path), "{:?}", effective.by_default);
    }
    assert_eq!(effective.patched, [""; 0]);
}

#[test]
fn patches_replace_what_the_file_says() {
    let text = SMALLEST.replace(
        "limit: 100/minute",
        "limit: 100/minute, plans: { from: header:x, limits: { a/b: 1/m, c: 2/m } }",
    );
    let definitions = parse(&text).config.definitions;
    let digest = definitions.get("per-client").expect("it is defined").digest.clone();
    let values = r#"{"limit":"5/1m","mode":"shadow","plans":{"a/b":"9/m"}}"#;
    let change =
        Change { values: serde_json::from_str(values).expect("values"), ..Change::default() };
    let entry = Entry { digest, patch: Some(change), candidate: None };
    let stored = [("per-client".to_owned(), EntryVersion::random(), entry.encode())];
    let patches = Resolved::new(&stored, &definitions, &[], Timestamp::default());
    let effective = parse(&text).document.effective(&patches);
    let policy = &effective.settings["policies"]["per-client"];
    assert_eq!((&policy["limit"], &policy["mode"]), (&json!("5/1m"), &json!("shadow")));
    assert_eq!(policy["plans"]["limits"], json!({ "a/b": "9/m", "c": "2/m" }));
    let at = |name: &str| format!("/policies/per-client/{name}");
    assert_eq!(effective.patched, [at("limit"), at("mode"), at("plans/limits/a~1b")]);
    assert!(!effective.by_default.contains(&at("mode")));
}

//! Questions to the JSON API with the text of an API key.

use serde_json::{Value, json};

use super::api::Caller;
use crate::api_keys::{Keys, field, id, invented};
use crate::support::Gateway;

/// The second listener of the gateway is the API.
const REST: &str = "\
    check: { http: { address: \"127.0.0.1:0\", tokens: [{ token: 0123456789abcdef }] } }\n\
    policies:\n  \
      per-key:\n    key: api_key\n    limit: 3/day\n    \
        plans: { from: \"api_key:plan\", limits: { pro: 5/day } }\n  \
      per-team: { key: \"api_key:team\", limit: 4/day, missing_key: skip }\n  \
      per-ip: { key: ip, limit: 9/day }\n  \
      per-path: { key: path, limit: 9/day }\n  \
      per-tenant: { key: \"header:x-tenant\", limit: 9/day }\n  \
      per-tag: { key: \"api_key:tag\", limit: 9/day }\n\
    routes: [{ name: api, path: /*, auth: [api_key], policies: [per-key], respond: { body: ok } }]";

/// A gateway with these keys. `client` are further fields of its section.
fn gateway(keys: &Keys, client: &str) -> Gateway {
    keys.start(client, REST)
}

fn asked(caller: &mut Caller, question: &Value) -> (bool, String) {
    let answer = caller.check(question);
    let outcome = answer["outcome"].as_str().expect("a word").to_owned();
    (answer["admitted"].as_bool().expect("it says so"), outcome)
}

#[test]
fn a_key_counts_as_in_a_request() {
    let keys = Keys::new();
    let pro = keys.create(&["--team", "acme", "--plan", "pro"]);
    let usual = keys.create(&["--team", "acme"]);
    let gateway = gateway(&keys, "");
    let mut caller = Caller::of(&gateway);
    let question = json!({ "policies": ["per-key", "per-team"], "api_key": pro });
    let answer = caller.check(&question);
    assert_eq!((&answer["admitted"], &answer["key_id"]), (&json!(true), &json!(id(&pro))));
    assert_eq!((&answer["policy"], &answer["remaining"]), (&json!("per-team"), &json!(3)));
    // The plan of the key, and the counter of requests.
    assert_eq!(gateway.client().get("/", &[&field(&pro)]).status, 200);
    let alone = json!({ "policy": "per-key", "api_key": pro, "peek": true });
    assert_eq!(caller.check(&alone)["remaining"], 3);
    // The team has one counter for both keys.
    let other = json!({ "policies": ["per-key", "per-team"], "api_key": usual });
    assert_eq!(caller.check(&other)["remaining"], 2);
    // A request of a route, whose own key does not count.
    let request = json!({ "host": "a.test", "ip": "192.0.2.1", "headers": { "x-api-key": "x" } });
    let answer = caller.check(&json!({ "request": request, "api_key": usual }));
    assert_eq!((&answer["policy"], &answer["remaining"]), (&json!("per-key"), &json!(1)));
    let leased = json!({ "policy": "per-key", "api_key": usual, "lease": true });
    let lease = caller.check(&leased)["lease"].clone();
    assert_eq!(caller.end("/v1/release", &lease, &json!({})), 200);
    assert_eq!(caller.check(&leased)["remaining"], 0);
}

/// The limit of the policy was once charged, which is refused for ever under a lower one.
#[test]
fn at_most_the_limit_of_the_key_is_charged_for_an_estimate() {
    let keys = Keys::new();
    let key = keys.create(&["--limit", "per-key=2"]);
    let gateway = gateway(&keys, "");
    let mut caller = Caller::of(&gateway);
    let question = json!({ "policy": "per-key", "api_key": key, "cost": 50, "estimate": true });
    let answer = caller.check(&question);
    let found = ["admitted", "limit", "remaining"].map(|name| answer[name].clone());
    assert_eq!(found, [json!(true), json!(2), json!(0)], "{answer}");
    // Its id is a key like others, of which only the policy's own limit is known.
    let by_id = caller.check(&json!({ "policy": "per-key", "key": id(&key) }));
    assert_eq!(by_id["limit"], 3, "{by_id}");
    let both = json!({ "together": true, "checks": [
        { "policy": "per-key", "key": id(&key) }, { "policy": "per-key", "api_key": key },
    ] });
    let (status, problem) = caller.call("/v1/check", &both);
    assert_eq!((status, &problem["pointer"]), (400, &json!("/checks/1")), "{problem}");
}

#[test]
fn a_key_that_is_not_accepted_says_why() {
    let keys = Keys::new();
    let expired = keys.create(&["--expires", "2020-01-01"]);
    let disabled = keys.create(&[]);
    keys.rewrite(&keys.text().replace(
        &format!("id: \"{}\"", id(&disabled)),
        &format!("id: \"{}\", disabled: true", id(&disabled)),
    ));
    let unknown = invented();
    let gateway = gateway(&keys, "");
    let mut caller = Caller::of(&gateway);
    for (key, outcome) in [
        (&*unknown, "key_unknown"),
        (&expired, "key_expired"),
        (&disabled, "key_disabled"),
        ("no key at all", "key_unknown"),
    ] {
        let question = json!({ "policy": "per-key", "api_key": key, "ip": "192.0.2.1" });
        assert_eq!(asked(&mut caller, &question), (false, outcome.to_owned()));
        let (status, answer) = caller.send("/v1/check", &question.to_string(), &["Prefer: status"]);
        assert_eq!((status, &answer["key_id"]), (401, &Value::Null), "{answer}");
        // A request with a wrong key says the same.
        let request = json!({ "host": "a.test", "ip": "192.0.2.2" });
        let question = json!({ "route": "api", "request": request, "api_key": key });
        assert_eq!(asked(&mut caller, &question).1, outcome);
    }
    let both = json!({ "together": true, "checks": [
        { "policy": "per-ip", "key": "192.0.2.3" },
        { "policy": "per-key", "api_key": unknown },
    ] });
    let answers = caller.check(&both)["answers"].clone();
    assert_eq!(answers[0]["outcome"], "key_unknown");
    assert_eq!(caller.remaining("per-ip", "192.0.2.3"), 9, "nothing was counted");
    gateway.terminate();
    let log = gateway.log();
    for key in [&unknown, &expired, &disabled] {
        assert!(!log.contains(key.rsplit('_').next().expect("a secret")), "{log}");
    }
}

/// Questions and requests count the failures of one address together.
#[test]
fn wrong_keys_count_against_the_address() {
    let keys = Keys::new();
    let key = keys.create(&[]);
    let gateway = gateway(&keys, "failures: 3/hour, trusted_proxies: [127.0.0.0/8]");
    let mut caller = Caller::of(&gateway);
    let unknown = invented();
    let wrong = |ip: &str| json!({ "policy": "per-key", "api_key": unknown, "ip": ip });
    let peek = json!({ "policy": "per-key", "api_key": unknown, "ip": "192.0.2.1", "peek": true });
    for _ in 0..5 {
        assert_eq!(asked(&mut caller, &peek).1, "key_unknown", "a peek counts nothing");
    }
    for _ in 0..2 {
        assert_eq!(asked(&mut caller, &wrong("192.0.2.1")).1, "key_unknown");
    }
    let request = |ip: &str, key: &str| {
        let forwarded = format!("X-Forwarded-For: {ip}");
        gateway.client().get("/", &[&forwarded, &field(key)]).status
    };
    assert_eq!(request("192.0.2.1", &unknown), 401);
    assert_eq!(request("192.0.2.1", &unknown), 429);
    let answer = caller.check(&wrong("192.0.2.1"));
    assert_eq!(answer["outcome"], "auth_failures");
    assert!(answer["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "{answer}");
    let question = wrong("192.0.2.1").to_string();
    // Libraries that obey `Retry-After` once tried again at once.
    let refused = caller.response("/v1/check", &question, &["Prefer: status"]);
    let wait_ms = refused.json()["retry_after_ms"].as_u64().expect("it is a number");
    assert_eq!((refused.status, refused.number("retry-after")), (429, wait_ms.div_ceil(1000)));
    let together = json!({ "together": true, "checks": [wrong("192.0.2.1")] }).to_string();
    let refused = caller.response("/v1/check", &together, &["Prefer: status"]);
    assert!(refused.status == 429 && refused.number("retry-after") > 0, "{refused:?}");
    assert_eq!(refused.field("preference-applied"), Some("status"));
    assert_eq!(asked(&mut caller, &wrong("192.0.2.2")).1, "key_unknown");
    let known = json!({ "policy": "per-key", "api_key": key, "ip": "192.0.2.1" });
    assert!(asked(&mut caller, &known).0, "a known key of this address goes on");
    // Without an address, nothing can be counted.
    let unnamed = json!({ "policy": "per-key", "api_key": unknown });
    for _ in 0..5 {
        assert_eq!(asked(&mut caller, &unnamed).1, "key_unknown");
    }
}

/// Without an address, all keys that are not accepted would share a counter.
#[test]
fn in_shadow_mode_a_question_needs_the_address() {
    let keys = Keys::new();
    keys.create(&[]);
    let yaml = keys.yaml("", REST).replace("keys: { ", "keys: { mode: shadow, ");
    let gateway = Gateway::start(&yaml);
    let mut caller = Caller::of(&gateway);
    let question = json!({ "policy": "per-key", "api_key": invented() });
    assert_eq!(caller.call("/v1/check", &question).1["pointer"], "/api_key");
    let question = json!({ "policy": "per-key", "api_key": invented(), "ip": "192.0.2.1" });
    assert_eq!(asked(&mut caller, &question), (true, "admitted".to_owned()));
}

#[test]
fn a_question_with_a_key_and_a_mistake_is_refused() {
    let keys = Keys::new();
    let key = keys.create(&[]);
    let gateway = gateway(&keys, "");
    let mut caller = Caller::of(&gateway);
    let long = "x".repeat(4097);
    for (question, pointer) in [
        (json!({ "policy": "per-key", "api_key": key, "key": "ann" }), json!("/key")),
        (json!({ "policy": "per-key", "ip": "192.0.2.1" }), json!("/ip")),
        (json!({ "policy": "per-ip", "api_key": key }), json!("/api_key")),
        (json!({ "policy": "per-path", "api_key": key, "ip": "192.0.2.1" }), json!("/api_key")),
        (json!({ "policy": "per-tenant", "api_key": key }), json!("/api_key")),
        (json!({ "policies": ["per-key", "per-tag"], "api_key": key }), json!("/api_key")),
        (json!({ "route": "api", "api_key": key }), json!("/api_key")),
        (json!({ "api_key": key }), json!("/api_key")),
        (json!({ "policy": "per-key", "api_key": long }), json!("/api_key")),
        (json!({ "policy": "per-key", "api_key": 5 }), json!("/api_key")),
    ] {
        let (status, problem) = caller.call("/v1/check", &question);
        assert_eq!((status, &problem["pointer"]), (400, &pointer), "{question}: {problem}");
        assert!(!problem.to_string().contains(&key), "{problem}");
    }
    // A question with an address counts by it, as a request does that lacks the key of a policy.
    let question =
        json!({ "policies": ["per-tag", "per-tenant"], "api_key": key, "ip": "192.0.2.1" });
    assert_eq!(caller.check(&question)["remaining"], 8);
    let request = json!({ "host": "a.test", "ip": "192.0.2.1" });
    let twice = json!({ "request": request, "api_key": key, "ip": "192.0.2.1" });
    assert_eq!(caller.call("/v1/check", &twice).1["pointer"], "/ip");
    let stated = json!({ "checks": [{ "name": "a", "limit": "1/s", "api_key": key }] });
    let (status, _) = caller.call("/v1/check", &stated);
    assert!([400, 403].contains(&status), "{status}");
}

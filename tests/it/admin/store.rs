//! Keys and their limits, in every store.

use serde_json::json;

use super::{AdminClient, OPERATE, READ, gateway, section, settles, statuses};
use crate::support::redis::{Options, Redis};
use crate::support::{Gateway, StoreKind, eventually, on_every_store};

on_every_store! { a_key_is_shown_and_reset }

fn a_key_is_shown_and_reset(store: StoreKind) {
    let redis = store.redis().map(|redis| format!("store: {{ redis: {{ {redis} }} }}"));
    let gateway = gateway(&redis.unwrap_or_default(), "");
    let reader = AdminClient::new(&gateway, READ);
    let operator = AdminClient::new(&gateway, OPERATE);
    let path = "/v1/policies/each/keys/ann";
    assert_eq!(statuses(&gateway, "ann", 1), [200]);
    for _ in 0..3 {
        let key = reader.get(path).json();
        assert_eq!((&key["used"], &key["remaining"]), (&json!(1), &json!(2)), "{key}");
        assert_eq!((&key["limit"], &key["limit_from"]), (&json!(3), &json!("policy")));
        assert_eq!((&key["source"], &key["retry_after_ms"]), (&json!("store"), &json!(null)));
        let scope = if store == StoreKind::Memory { "node" } else { "cluster" };
        assert_eq!(key["scope"], scope);
    }
    assert_eq!(statuses(&gateway, "ann", 3), [200, 200, 429]);
    let key = reader.get(path).json();
    assert_eq!(key["remaining"], 0);
    assert!(key["retry_after_ms"].as_u64().is_some_and(|it| it > 0), "{key}");
    assert_eq!(reader.send("DELETE", path, &[], "").status, 403);
    assert_eq!(statuses(&gateway, "ann", 1), [429]);
    let reset = operator.send("DELETE", path, &[], "");
    assert_eq!((reset.status, &reset.json()["key_id"]), (200, &key["key_id"]));
    // Workers that know the client as refused notice it within two seconds.
    eventually("it is admitted", || statuses(&gateway, "ann", 1) == [200]);
    assert_eq!(statuses(&gateway, "bob", 1), [200]);
    assert_eq!(reader.get("/v1/policies/each/keys/bob").json()["remaining"], 2);
}

#[test]
fn keys_that_cannot_be_are_refused_with_advice() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, OPERATE);
    let response = client.get("/v1/policies/open/keys/not-an-address");
    assert_eq!(response.status, 400);
    assert!(response.json()["detail"].as_str().is_some_and(|it| it.contains("write an address")));
    assert_eq!(client.get("/v1/policies/each/keys/ann?plan=gold").status, 400);
    let response = client.get("/v1/policies/each/overrides/ann");
    assert_eq!(response.status, 409);
    assert!(response.json()["detail"].as_str().is_some_and(|it| it.contains("overrides: true")));
}

/// A gateway with overrides in this store.
fn overridable(store: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n{store}\n\
         policies: {{ each: {{ key: \"header:x-who\", limit: 3/day, overrides: true }} }}\n\
         routes: [{{ path: \"/*\", policies: [each], respond: {{ body: ok }} }}]\n{}",
        section("")
    ))
}

fn overrides_go_round(store: &str) {
    let gateway = overridable(store);
    let client = AdminClient::new(&gateway, OPERATE);
    let path = "/v1/policies/each/overrides/ann";
    let key = "/v1/policies/each/keys/ann";
    let json_type = ["Content-Type: application/json"];
    assert_eq!(client.get(path).json()["override"], json!(null));
    assert_eq!(client.get(key).json()["limit_from"], "policy");
    let set = client.send("PUT", path, &json_type, "{\"limit\": \"50\"}");
    assert_eq!((set.status, &set.json()["override"]), (200, &json!("50")), "{}", set.text());
    assert_eq!(client.get(path).json()["override"], "50");
    let shown = client.get(key).json();
    assert_eq!((&shown["limit"], &shown["limit_from"]), (&json!(50), &json!("override")));
    let mut user = gateway.client();
    let mut limit = || user.get("/", &["X-Who: ann"]).field("X-Ratelimit-Limit").map(str::to_owned);
    settles("the gateway goes by it", || limit().as_deref() == Some("50"));
    // The command line reads what was set.
    let output = gateway.overrides(&["get", "each", "ann"]);
    assert!(output.stdout.starts_with("each ann: 50/1d"), "{}", output.stdout);
    for (body, said) in [
        ("{\"limit\": \"lots\"}", "write a count per time"),
        ("{\"limit\": \"5\", \"for\": \"1h\"}", "unknown field"),
        ("{}", "missing field"),
        ("[", "the body is not"),
    ] {
        let response = client.send("PUT", path, &json_type, body);
        assert_eq!(response.status, 400, "{body}");
        let detail = response.json()["detail"].to_string();
        assert!(detail.contains(said), "{body}: {detail}");
    }
    assert_eq!(client.send("DELETE", path, &[], "").status, 200);
    assert_eq!(client.get(path).json()["override"], json!(null));
    settles("the gateway goes by its own", || limit().as_deref() == Some("3"));
    let audit = client.get("/v1/audit").json();
    let changes: Vec<_> = audit["items"].as_array().expect("a list").iter().collect();
    let of = |index: usize| (&changes[index]["before"], &changes[index]["after"]);
    let unset = of(0);
    let set = of(changes.len() - 1);
    assert_eq!((unset, set.1), ((&json!("50"), &json!(null)), &json!("50")), "{audit}");
}

/// Units of money are too small for a person to read.
#[test]
fn limits_in_money_are_amounts_in_the_audit_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         store: {{ overrides: {{ path: {:?} }} }}\n\
         prices: {{ currency: usd, models: {{ m: {{ input: 1.25, output: 10 }} }} }}\n\
         policies: {{ each: {{ key: \"header:x-who\", limit: 2.50 usd/day, \
         algorithm: fixed_window, overrides: true, \
         cost: {{ reserve: {{}}, settle: {{ usage: openai }} }} }} }}\n\
         routes: [{{ path: \"/*\", policies: [each], respond: {{ body: ok }} }}]\n{}",
        directory.path().join("overrides.redb"),
        section("")
    ));
    let client = AdminClient::new(&gateway, OPERATE);
    let path = "/v1/policies/each/overrides/ann";
    let json_type = ["Content-Type: application/json"];
    for limit in ["1.25 usd", "2.00 usd"] {
        let set = client.send("PUT", path, &json_type, &json!({ "limit": limit }).to_string());
        assert_eq!((set.status, &set.json()["override"]), (200, &json!(limit)), "{set:?}");
    }
    assert_eq!(client.send("DELETE", "/v1/policies/each/keys/ann", &[], "").status, 200);
    assert_eq!(client.send("DELETE", path, &[], "").status, 200);
    let audit = client.get("/v1/audit").json();
    let change = |index: usize| {
        let item = &audit["items"][index];
        (item["before"].clone(), item["after"].clone())
    };
    assert_eq!(change(3), (json!(null), json!("1.25 usd")), "{audit}");
    assert_eq!(change(2), (json!("1.25 usd"), json!("2.00 usd")));
    assert_eq!(change(1), (json!({ "remaining": "2.00 usd" }), json!("reset")));
    assert_eq!(change(0), (json!("2.00 usd"), json!(null)));
    let logged = || gateway.log().contains("2.00 usd");
    eventually("the log has the amount", logged);
    assert!(!gateway.log().contains("1250000"), "{}", gateway.log());
}

#[test]
fn overrides_go_round_in_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("overrides.redb");
    overrides_go_round(&format!("store: {{ overrides: {{ path: {file:?} }} }}"));
}

/// The audit log had neither the policy nor the limit, though the limit was in force.
#[test]
fn an_override_that_other_nodes_are_not_told_of_is_recorded() {
    let redis = Redis::start(Options::default());
    let gateway = overridable(&format!("store: {{ redis: {{ url: \"{}\" }} }}", redis.url()));
    let client = AdminClient::new(&gateway, OPERATE);
    let path = "/v1/policies/each/overrides/ann";
    assert_eq!(client.get(path).status, 200);
    redis.cli(&["DEL", "tollgate:meta:overrides"]);
    redis.cli(&["SET", "tollgate:meta:overrides", "of another kind"]);
    let json_type = ["Content-Type: application/json"];
    let set = client.send("PUT", path, &json_type, "{\"limit\": \"50\"}");
    assert_eq!(set.status, 503, "{set:?}");
    assert!(set.text().contains("the override is written"), "{set:?}");
    assert_eq!(client.get(path).json()["override"], "50");
    let last = || client.get("/v1/audit").json()["items"][0].clone();
    let change = last();
    assert_eq!((&change["policy"], &change["status"]), (&json!("each"), &json!(503)));
    assert_eq!((&change["before"], &change["after"]), (&json!(null), &json!("50")));
    assert_eq!(client.send("DELETE", path, &[], "").status, 503);
    let change = last();
    assert_eq!((&change["before"], &change["after"]), (&json!("50"), &json!(null)));
    assert_eq!(client.get(path).json()["override"], json!(null));
}

#[test]
fn overrides_go_round_in_redis() {
    let redis = StoreKind::Standalone.redis().expect("it has one");
    overrides_go_round(&format!("store: {{ redis: {{ {redis} }} }}"));
}

//! The end of leases: what a renewal does to units in flight, and calls that have failed in part.

use std::time::Duration;

use serde_json::{Value, json};

use super::api::Caller;
use crate::support::redis::{Fault, Options, Redis, Wire};
use crate::support::{Gateway, eventually};

fn gateway(rest: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         check: {{ http: {{ address: \"127.0.0.1:0\" }} }}\n\
         policies:\n\
         \x20 each: {{ key: \"header:x-client\", limit: 100/d, algorithm: fixed_window }}\n\
         \x20 held: {{ key: \"header:x-client\", limit: 3, algorithm: concurrency }}\n\
         routes: [{{ path: \"/*\", policies: [each], respond: {{ body: ok }} }}]\n\
         {rest}\n"
    ))
}

fn lease(caller: &mut Caller, question: &Value) -> Value {
    let answer = caller.check(question);
    assert_eq!(answer["admitted"], true, "{answer}");
    answer["lease"].clone()
}

/// The lease that replaces this one, and how long it lasts.
fn renew(caller: &mut Caller, lease: &Value, ttl: &str) -> (Value, u64) {
    let (status, answer) = caller.call("/v1/renew", &json!({ "lease": lease, "ttl": ttl }));
    assert_eq!(status, 200, "{answer}");
    (answer["lease"].clone(), answer["expires_in_ms"].as_u64().expect("it is a number"))
}

/// Until the longest of its times, the units of a renewed lease were once in flight, and no lease
/// could give them back.
#[test]
fn units_in_flight_end_with_the_lease_that_holds_them() {
    let gateway = gateway("runtime: { workers: 2 }");
    let mut caller = Caller::of(&gateway);
    for policies in [json!(["held", "each"]), json!(["held"])] {
        let question = json!({ "policies": policies, "key": "ann", "lease": true, "ttl": "60s" });
        // A shorter time.
        let old = lease(&mut caller, &question);
        assert_eq!(caller.remaining("held", "ann"), 2);
        let (new, lasts) = renew(&mut Caller::of(&gateway), &old, "1s");
        // It is rounded up.
        assert!(lasts <= 1001, "{lasts}");
        eventually("the units are given back", || caller.remaining("held", "ann") == 3);
        assert_eq!(caller.end("/v1/release", &new, &json!({})), 410);
        // A longer time, and then a shorter one.
        let old = lease(&mut caller, &question);
        let (next, _) = renew(&mut caller, &old, "1h");
        let (last, _) = renew(&mut Caller::of(&gateway), &next, "30s");
        assert_eq!(caller.end("/v1/release", &last, &json!({})), 200);
        assert_eq!(caller.remaining("held", "ann"), 3);
        assert_eq!(caller.end("/v1/renew", &last, &json!({})), 409);
    }
}

/// The same call again once held the units for its own time.
#[test]
fn a_repeated_renewal_changes_nothing() {
    let gateway = gateway("runtime: { workers: 2 }");
    let mut caller = Caller::of(&gateway);
    let question = json!({
        "policies": ["held", "each"], "key": "ann", "lease": true, "ttl": "60s",
    });
    let old = lease(&mut caller, &question);
    let (first, _) = renew(&mut caller, &old, "4s");
    let (_, lasts) = renew(&mut caller, &old, "60s");
    assert!(lasts <= 4001, "{lasts}");
    eventually("the units are given back", || caller.remaining("held", "ann") == 3);
    assert_eq!(caller.end("/v1/release", &first, &json!({})), 410);

    // It does not shorten the time of a later lease.
    let old = lease(&mut caller, &question);
    let (first, _) = renew(&mut caller, &old, "3s");
    let (second, _) = renew(&mut caller, &first, "60s");
    renew(&mut Caller::of(&gateway), &old, "3s");
    std::thread::sleep(Duration::from_millis(3600));
    assert_eq!(caller.remaining("held", "ann"), 2);
    assert_eq!(caller.end("/v1/release", &second, &json!({})), 200);
    assert_eq!(caller.remaining("held", "ann"), 3);

    // Without a mark, the last renewal of the lease counts, but not one of a lease before it.
    let alone = json!({ "policy": "held", "key": "ann", "lease": true, "ttl": "60s" });
    let old = lease(&mut caller, &alone);
    renew(&mut caller, &old, "30s");
    let (first, lasts) = renew(&mut caller, &old, "60s");
    assert!(lasts > 30_000, "{lasts}");
    let (second, _) = renew(&mut caller, &first, "60s");
    assert_eq!(caller.end("/v1/renew", &old, &json!({ "ttl": "60s" })), 409);
    assert_eq!(caller.end("/v1/release", &second, &json!({})), 200);
    assert_eq!(caller.remaining("held", "ann"), 3);
}

/// The answer of a list of leases was once kept, also if the store had not answered for one of them.
#[test]
fn a_call_with_leases_that_has_failed_can_be_made_again() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let url = wire.url();
    let gateway = gateway(&format!(
        "store: {{ redis: {{ url: \"{url}\", timeout: 300ms }} }}\nruntime: {{ workers: 1 }}"
    ));
    let mut caller = Caller::of(&gateway);
    eventually("the node has its store", || {
        caller.check(&json!({ "policy": "each", "key": "probe" }))["source"] == "store"
    });
    let question = json!({ "policy": "each", "key": "ann", "cost": 40, "lease": true });
    let lease = lease(&mut caller, &question);
    let body = json!({ "leases": [{ "lease": lease, "actual": 15 }] }).to_string();
    let mut settle = || {
        let (status, answer) = caller.send("/v1/settle", &body, &["Idempotency-Key: one"]);
        assert_eq!(status, 200, "{answer}");
        answer["answers"][0].clone()
    };
    wire.set(Fault::Swallow);
    assert_eq!(settle()["status"], 503);
    wire.set(Fault::None);
    eventually("the lease is settled", || settle()["actual"] == 15);
    assert_eq!(settle()["actual"], 15);
    assert_eq!(caller.remaining("each", "ann"), 85);
}

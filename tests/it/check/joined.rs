//! `/v1/check` with `together`, and with estimates: which limit decides.

use serde_json::{Value, json};

use super::api::Caller;
use crate::support::Gateway;

/// A gateway with plans, and with an elastic policy whose upstream is idle.
fn gateway() -> Gateway {
    Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         check: { http: { address: \"127.0.0.1:0\", \
           tokens: [{ token: 0123456789abcdef, dynamic: true }] } }\n\
         upstreams: { idle: { endpoints: [\"http://127.0.0.1:1\"], max_in_flight: 10 } }\n\
         policies:\n  \
           planned: { key: \"header:x-client\", limit: 1000/day, algorithm: fixed_window, \
             plans: { from: \"header:x-plan\", limits: { big: 5000/day, small: 10/day } } }\n  \
           elastic: { key: \"header:x-client\", limit: 3/day, algorithm: fixed_window, \
             elastic: { limit: 100/day, when: { upstream_in_flight_below: 50% } } }\n  \
           plain: { key: \"header:x-client\", limit: 100/day, algorithm: fixed_window }\n\
         routes:\n\
         - { name: plain, path: /plain, policies: [plain], upstream: idle }\n\
         - { name: elastic, path: /elastic, policies: [elastic], upstream: idle }\n",
    )
}

fn together(caller: &mut Caller, checks: &[Value]) -> (u16, Value) {
    caller.call("/v1/check", &json!({ "together": true, "checks": checks }))
}

fn request(client: &str, plan: &str) -> Value {
    let headers = json!({ "x-client": client, "x-plan": plan });
    json!({ "host": "a", "path": "/", "ip": "192.0.2.7", "headers": headers })
}

/// The limit of the first question once decided on all of them.
#[test]
fn questions_with_one_counter_have_one_limit() {
    let gateway = gateway();
    let mut caller = Caller::of(&gateway);
    let stated = |limit| json!({ "name": "a", "limit": limit, "key": "k", "cost": 50 });
    let planned = |plan| json!({ "policy": "planned", "request": request("ann", plan), "cost": 3 });
    for checks in [
        [stated("100/m"), stated("10/m")],
        [planned("big"), planned("small")],
        [planned("small"), planned("")],
        [planned("big"), json!({ "policy": "planned", "key": "ann" })],
    ] {
        let (status, problem) = together(&mut caller, &checks);
        assert_eq!((status, &problem["pointer"]), (400, &json!("/checks/1")), "{problem}");
    }
    for checks in [
        [stated("100/m"), stated("100/m")],
        [planned("small"), planned("small")],
        [planned(""), json!({ "policy": "planned", "key": "bob" })],
    ] {
        let (status, answers) = together(&mut caller, &checks);
        assert_eq!((status, &answers["answers"][1]["admitted"]), (200, &json!(true)), "{answers}");
    }
    assert_eq!(caller.check(&stated("100/m"))["admitted"], false, "both were counted");
    assert_eq!(caller.remaining("planned", "ann"), 1000 - 9);
}

/// The upstream of the first question once decided about all of them.
#[test]
fn an_elastic_limit_needs_room_at_its_own_upstream() {
    let gateway = gateway();
    let mut caller = Caller::of(&gateway);
    let alone = json!({ "policy": "elastic", "key": "ann" });
    let admitted = [(); 4].map(|()| caller.check(&alone)["admitted"] == true);
    assert_eq!(admitted, [true, true, true, false]);
    let of_route = |route, client| json!({ "route": route, "request": request(client, "") });
    let plain = json!({ "policy": "plain", "key": "ann" });
    for (checks, is_admitted) in [
        ([of_route("plain", "bob"), alone.clone()], false),
        ([alone.clone(), of_route("plain", "bob")], false),
        ([of_route("elastic", "bob"), alone.clone()], false),
        ([of_route("elastic", "ann"), plain.clone()], true),
        ([plain, of_route("elastic", "ann")], true),
        ([of_route("elastic", "ann"), of_route("elastic", "bob")], true),
    ] {
        let (_, answers) = together(&mut caller, &checks);
        let answers = &answers["answers"];
        assert_eq!(answers[0]["admitted"], is_admitted, "{checks:?}: {answers}");
    }
}

/// The policy's own limit was once charged, whatever limit the client has.
#[test]
fn at_most_the_limit_of_the_client_is_charged_for_an_estimate() {
    let gateway = gateway();
    let mut caller = Caller::of(&gateway);
    for (plan, cost, limit, remaining) in
        [("small", 5000, 10, 0), ("big", 4000, 5000, 1000), ("", 5000, 1000, 0)]
    {
        let client = format!("of{plan}");
        let question = json!({
            "policy": "planned", "request": request(&client, plan), "cost": cost, "estimate": true,
        });
        let answer = caller.check(&question);
        let found = ["admitted", "limit", "remaining"].map(|name| answer[name].clone());
        assert_eq!(found, [json!(true), json!(limit), json!(remaining)], "{answer}");
    }
    let question = json!({ "policy": "planned", "key": "cy", "cost": 1001 });
    assert_eq!(caller.check(&question)["retry_after_ms"], Value::Null);
}

/// All elements of a list were once read before they were counted: 220 MB for a body of 1 MiB.
#[test]
fn a_list_that_is_too_long_takes_little_memory() {
    const MOST_KIB: usize = 48 * 1024;
    let gateway = gateway();
    let mut caller = Caller::of(&gateway);
    let list = |name: &str, element: &str, count: usize| {
        format!("{{\"{name}\":[{}]}}", vec![element; count].join(","))
    };
    let nested = list("checks", "{}", 1000);
    let before = gateway.peak_kib();
    for (path, body, pointer) in [
        ("check", list("checks", "{}", 340_000), "/checks"),
        ("check", list("checks", &nested, 300), "/checks/0/checks"),
        ("check", list("policies", "\"\"", 340_000), "/policies"),
        ("settle", list("leases", "{}", 340_000), "/leases"),
    ] {
        let (status, problem) = caller.send(&format!("/v1/{path}"), &body, &[]);
        assert_eq!((status, &problem["pointer"]), (400, &json!(pointer)), "{problem}");
    }
    let grown = gateway.peak_kib() - before;
    assert!(grown < MOST_KIB, "{grown} KiB more");
}

//! Policies that are changed at run time, on one node whose counters are in memory.

use serde_json::{Value, json};

use super::{AdminClient, METRICS, OPERATE, READ, gateway, settles, statuses, yaml};
use crate::support::{Gateway, Response};

const EACH: &str = "/v1/policies/each";
const PATCH: &str = "/v1/policies/each/patch";
const CANDIDATE: &str = "/v1/policies/each/candidate";
const JSON_TYPE: &str = "Content-Type: application/json";

/// The entity tag of the policy `each`.
pub(super) fn tag(client: &AdminClient) -> String {
    let policy = client.get(EACH);
    policy.field("ETag").expect("it has one").to_owned()
}

/// Makes a change if the policy has this entity tag.
pub(super) fn change(
    client: &AdminClient,
    method: &str,
    path: &str,
    tag: &str,
    body: &str,
) -> Response {
    client.send(method, path, &[JSON_TYPE, &format!("If-Match: {tag}")], body)
}

/// Patches the policy `each` whatever it is.
pub(super) fn patch(client: &AdminClient, body: &str) -> Response {
    let response = change(client, "PATCH", EACH, "*", body);
    assert_eq!(response.status, 200, "{}", response.text());
    response
}

/// The limit that a new client is told.
pub(super) fn told(gateway: &Gateway, who: &str) -> u64 {
    gateway.client().get("/", &[&format!("X-Who: {who}")]).number("X-Ratelimit-Limit")
}

fn limit(client: &AdminClient) -> Value {
    client.get(EACH).json()["limit"]["units"].clone()
}

#[test]
fn a_patch_needs_the_state_that_its_author_has_seen() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, OPERATE);
    let first = tag(&client);
    let body = r#"{"limit":"5/1d","for":"30m","reason":"a flood"}"#;
    let blind = client.send("PATCH", EACH, &[JSON_TYPE], body);
    assert_eq!(blind.status, 428, "{}", blind.text());
    assert_eq!(change(&client, "PATCH", EACH, "\"other\"", body).status, 412);
    assert_eq!(statuses(&gateway, "ann", 4), [200, 200, 200, 429]);
    let patched = change(&client, "PATCH", EACH, &first, body);
    assert_eq!(patched.status, 200, "{}", patched.text());
    let policy = patched.json();
    assert_eq!((&policy["limit"]["units"], &policy["patch"]["limit"]), (&json!(5), &json!("5/1d")));
    assert_eq!(policy["definition"]["limit"], "3/day");
    assert_eq!(
        (&policy["patch"]["actor"], &policy["changes_scope"]),
        (&json!("oncall"), &json!("node"))
    );
    assert_ne!(patched.field("ETag"), Some(&*first));
    // The counter goes on: ann has used three units.
    assert_eq!(statuses(&gateway, "ann", 3), [200, 200, 429]);
    assert_eq!(client.get("/v1/policies/each/keys/ann").json()["limit_from"], "patch");
    let asked = r#"{"url":"http://a.test/","headers":{"x-who":"ann"},"peer":"127.0.0.1"}"#;
    let explained = client.send("POST", "/v1/explain", &[JSON_TYPE], asked).json();
    let judged = &explained["policies"][0];
    assert_eq!((&judged["limit_from"], &judged["limit"]), (&json!("patch"), &json!(5)));
    assert_eq!(change(&client, "PATCH", EACH, &first, body).status, 412);
    let metrics = AdminClient::new(&gateway, METRICS).get("/metrics").text();
    let info = "tollgate_policy_info{algorithm=\"sliding_window\",mode=\"enforce\",patched=\"true\",policy=\"each\"} 1";
    assert!(metrics.contains(info), "{metrics}");
    for (path, body, status, said) in [
        (EACH, r#"{"limit":"5/h"}"#, 422, "same window"),
        (EACH, r#"{"limit":"lots"}"#, 422, "is not a limit"),
        (EACH, r#"{"mode":"off"}"#, 422, "cannot switch a policy off"),
        (EACH, r#"{"algorithm":"fixed_window"}"#, 400, "unknown field"),
        (EACH, r#"["6/1d"]"#, 400, "expected an object"),
        (EACH, r#"{"limit":"6/1d","limit":"7/1d"}"#, 400, "/limit: duplicate field"),
        (EACH, r#"{"plans":{"a":"6/1d","a":"7/1d"}}"#, 400, "/plans/a: duplicate field"),
        ("/v1/policies/none", r#"{"limit":"6/1d"}"#, 404, "no policy"),
        (CANDIDATE, r#"{"limit":"6/1d"}"#, 400, "missing field `for`"),
    ] {
        let method = if path == CANDIDATE { "PUT" } else { "PATCH" };
        let response = change(&client, method, path, "*", body);
        assert_eq!(response.status, status, "{body}: {}", response.text());
        assert!(response.text().contains(said), "{body}: {}", response.text());
    }
    assert_eq!(change(&AdminClient::new(&gateway, READ), "PATCH", EACH, "*", body).status, 403);
    // Another reload keeps it, and a removal ends it.
    gateway.reload(&yaml("", "").replace("1M/day", "2M/day"));
    assert_eq!(limit(&client), 5);
    assert_eq!(change(&client, "DELETE", PATCH, &tag(&client), "").status, 200);
    assert_eq!((limit(&client), statuses(&gateway, "ann", 1)), (json!(3), vec![429]));
    assert_eq!(tag(&client), first);
    assert_eq!(change(&client, "DELETE", PATCH, "*", "").status, 404);
    let audit = client.get("/v1/audit").json();
    let ended = &audit["items"][1];
    let made = audit["items"].as_array().expect("a list");
    assert_eq!((&ended["before"]["reason"], &ended["after"]), (&json!("a flood"), &json!(null)));
    assert!(made.iter().any(|it| it["after"]["reason"] == "a flood" && it["status"] == 200));
}

#[test]
fn changes_end_in_time_and_with_their_definition() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, OPERATE);
    let short = patch(&client, r#"{"limit":"5/1d","for":"1s"}"#);
    assert_eq!(told(&gateway, "ann"), 5);
    assert!(short.json()["patch"]["ends"].is_string());
    settles("it has ended", || told(&gateway, "ann") == 3);
    settles("it is shown", || client.get(EACH).json()["patch"] == json!(null));
    patch(&client, r#"{"mode":"shadow"}"#);
    assert_eq!(statuses(&gateway, "bob", 5), [200; 5]);
    gateway.reload(&yaml("", "").replace("limit: 3/day", "limit: 4/day"));
    let policy = client.get(EACH).json();
    assert_eq!((&policy["patch"], &policy["mode"]), (&json!(null), &json!("enforce")), "{policy}");
    assert_eq!(statuses(&gateway, "eve", 5), [200, 200, 200, 200, 429]);
    // It has not come back with the old definition.
    gateway.reload(&yaml("", ""));
    assert_eq!(told(&gateway, "fay"), 3);
}

#[test]
fn a_candidate_is_judged_beside_the_policy_and_decides_nothing() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, OPERATE);
    let body = r#"{"limit":"1/1h","for":"30m","reason":"a try"}"#;
    let made = change(&client, "PUT", CANDIDATE, &tag(&client), body);
    assert_eq!(made.status, 200, "{}", made.text());
    let candidate = made.json()["candidate"].clone();
    assert_eq!((&candidate["written"], &candidate["limit"]["units"]), (&json!("1/1h"), &json!(1)));
    assert!(candidate["warming_until"].as_str() > candidate["since"].as_str(), "{candidate}");
    settles("its counts begin", || client.get(EACH).json()["candidate"]["outcomes"].is_object());
    let answers: Vec<Response> =
        (0..4).map(|_| gateway.client().get("/", &["X-Who: ann"])).collect();
    let statuses: Vec<u16> = answers.iter().map(|it| it.status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(answers.map_limits(), [3; 4]);
    let outcomes = || client.get(EACH).json()["candidate"]["outcomes"].clone();
    settles("they are counted", || {
        let outcomes = outcomes();
        outcomes["admitted"] == 1 && outcomes["shadow_refused"] == 3
    });
    assert_eq!(outcomes()["while_live_admitted"], 2, "{}", outcomes());
    // Another one counts from the beginning, and the policies are the same as before.
    change(&client, "PUT", CANDIDATE, "*", &body.replace("1/1h", "9/1d"));
    settles("its counts begin", || outcomes()["shadow_refused"] == 0);
    assert_eq!(client.get("/v1/policies").json()["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(client.get("/v1/policies/each~candidate").status, 404);
    assert_eq!(change(&client, "DELETE", CANDIDATE, "*", "").status, 200);
    assert_eq!(client.get(EACH).json()["candidate"], json!(null));
    // This node alone: its counters are in memory.
    let nodes = client.get("/v1/nodes").json();
    assert_eq!(nodes["items"].as_array().map(Vec::len), Some(1));
    let node = &nodes["items"][0];
    assert_eq!((&node["scope"], &node["this"]), (&json!("node"), &json!(true)), "{node}");
    assert!(node["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{node}");
}

/// The fields of the policy that the algorithm of a candidate cannot have are left out.
#[test]
fn a_candidate_with_another_algorithm_has_the_fields_that_go_with_it() {
    let fields = "limit: 3/day, buckets: 4, warn: [50%]";
    let gateway = Gateway::start(&yaml("", "").replace("limit: 3/day", fields));
    let client = AdminClient::new(&gateway, OPERATE);
    for algorithm in ["token_bucket", "fixed_window", "sliding_log"] {
        let body =
            format!(r#"{{"limit":"1/1h","algorithm":"{algorithm}","for":"30m","reason":"a try"}}"#);
        let made = change(&client, "PUT", CANDIDATE, "*", &body);
        assert_eq!(made.status, 200, "{}", made.text());
        assert_eq!(made.json()["candidate"]["algorithm"], algorithm, "{}", made.text());
    }
}

/// The limits that responses name.
trait Limits {
    fn map_limits(&self) -> Vec<u64>;
}

impl Limits for Vec<Response> {
    fn map_limits(&self) -> Vec<u64> {
        self.iter().map(|it| it.number("X-Ratelimit-Limit")).collect()
    }
}

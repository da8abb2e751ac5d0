//! What the calls answer.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{
    AdminClient, METRICS, OPERATE, READ, gateway, is_well, section, settles, statuses, yaml,
};
use crate::support::{Client, Gateway, Origin, eventually};

#[test]
fn metrics_are_what_promtool_calls_good() {
    let gateway = gateway("", "");
    let response = AdminClient::new(&gateway, METRICS).get("/metrics");
    assert_eq!(response.status, 200);
    assert_eq!(response.field("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed: scripts/test installs the package prometheus");
    promtool.stdin.take().expect("it is piped").write_all(&response.body).expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{}", response.text());
}

#[test]
fn policies_are_listed_as_they_are_defined() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, READ);
    let all = client.get("/v1/policies").json();
    let names: Vec<_> =
        all["items"].as_array().expect("a list").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["each", "open"]);
    let each = client.get("/v1/policies/each").json();
    assert_eq!(each["outcomes"]["total"], json!({}));
    let defined = |policy: &serde_json::Value| {
        let mut policy = policy.clone();
        policy.as_object_mut().expect("an object").remove("outcomes");
        policy
    };
    assert_eq!(defined(&each), defined(&all["items"][0]));
    assert_eq!(each["key"], "header:x-who");
    assert_eq!(each["limit"], json!({ "units": 3, "window_ms": 86_400_000, "burst": 3 }));
    let first = client.get("/v1/policies?limit=1").json();
    assert_eq!(first["next"], "each");
    let second = client.get("/v1/policies?limit=1&after=each").json();
    assert_eq!((&second["items"][0]["name"], &second["next"]), (&json!("open"), &json!(null)));
    assert_eq!(client.get("/v1/policies/none").status, 404);
    assert_eq!(client.get("/v1/policies?unknown=1").status, 400);
}

#[test]
fn the_file_is_shown_without_its_secrets() {
    let gateway = gateway("store: { memory: { max_keys: 1000 } }", "");
    let config = AdminClient::new(&gateway, READ).get("/v1/config?view=file");
    let text = config.text();
    for secret in [OPERATE, READ, METRICS] {
        assert!(!text.contains(secret), "{text}");
    }
    let config = config.json();
    assert_eq!(config["generation"], 1);
    assert_eq!(config["file"]["store"]["memory"]["max_keys"], 1000);
    assert_eq!(config["file"]["admin"]["tokens"][0]["token"], "***");
}

#[test]
fn a_configuration_is_checked_and_nothing_changes() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, OPERATE);
    let yaml_type = ["Content-Type: application/yaml"];
    let good = client.send("POST", "/v1/config/check", &yaml_type, &yaml("", ""));
    let telemetry = good.json()["changes"][0]["at"].clone();
    assert_eq!((good.status, &good.json()["valid"]), (200, &json!(true)));
    // The tests add this section to their files.
    assert_eq!((&telemetry, &good.json()["warnings"]), (&json!("/telemetry"), &json!([])));
    let bad = client.send("POST", "/v1/config/check", &yaml_type, "listeners: []\nroute: []\n");
    assert_eq!(bad.status, 422);
    let bad = bad.json();
    let errors = bad["errors"].as_array().expect("a list");
    let unknown = errors.iter().find(|it| it["line"] == 2).expect("the second line is wrong");
    assert_eq!(unknown["column"], 1);
    assert!(unknown["message"].as_str().is_some_and(|it| it.contains("\"route\" is not a field")));
    assert!(unknown["help"].as_str().is_some_and(|it| it.contains("routes")));
    let as_json = r#"{"listeners":[{"address":"0.0.0.0:1"}],"routes":[{"path":"/*","respond":{"body":"x"}}]}"#;
    let good =
        client.send("POST", "/v1/config/check", &["Content-Type: application/json"], as_json);
    assert_eq!(good.status, 200, "{}", good.text());
    assert_eq!(client.get("/v1/config").json()["generation"], 1);
}

#[test]
fn the_status_says_what_is_wrong_and_since_when() {
    let origin = Origin::hello();
    let yaml = |upstream: &str| {
        format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             upstreams: {{ app: {{ endpoints: [{upstream}], \
             health: {{ path: /, interval: 100ms, timeout: 100ms, fall: 1, rise: 1 }} }} }}\n\
             routes: [{{ path: \"/*\", upstream: app }}]\n{}",
            super::section("")
        )
    };
    let good = yaml(&format!("\"http://{}\"", origin.address()));
    let gateway = Gateway::start(&good);
    let client = AdminClient::new(&gateway, READ);
    is_well(&client);
    let upstreams = client.get("/v1/upstreams").json();
    assert_eq!(upstreams["items"][0]["endpoints"][0]["state"], "up", "{upstreams}");
    // This port has no listener.
    gateway.reload(&yaml("\"http://127.0.0.1:1\""));
    settles("the upstream is down", || {
        let status = client.get("/v1/status").json();
        let is_down = |it: &Value| it["code"] == "upstream_down";
        status["state"] == "degraded"
            && status["reasons"].as_array().is_some_and(|it| it.iter().any(is_down))
    });
    gateway.rewrite("nonsense: 1\n");
    settles("the reload has failed", || {
        let status = client.get("/v1/status").json();
        status["reasons"]
            .as_array()
            .is_some_and(|it| it.iter().any(|it| it["code"] == "reload_failed"))
    });
    gateway.reload(&good);
    is_well(&client);
    // The credential that has waited may have made too many calls.
    let operator = AdminClient::new(&gateway, OPERATE);
    assert_eq!(operator.get("/v1/config").json()["generation"], 3);
}

#[test]
fn changes_are_recorded_with_their_actor_and_without_the_key() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, OPERATE);
    assert_eq!(statuses(&gateway, "somebody-known", 1), [200]);
    let path = "/v1/policies/each/keys/somebody-known";
    assert_eq!(client.send("DELETE", path, &[], "").status, 200);
    assert_eq!(client.send("DELETE", "/v1/policies/none/keys/x", &[], "").status, 404);
    let audit = client.get("/v1/audit").json();
    let items = audit["items"].as_array().expect("a list");
    assert_eq!(items.len(), 2, "{audit}");
    assert_eq!(items[0]["status"], 404);
    let reset = &items[1];
    assert_eq!((&reset["actor"], &reset["policy"]), (&json!("oncall"), &json!("each")));
    assert_eq!(reset["call"], "DELETE /v1/policies/{policy}/keys/{key}");
    assert_eq!(reset["key_id"].as_str().map(str::len), Some(12));
    assert_eq!(reset["before"], json!({ "remaining": 2 }));
    assert!(!audit.to_string().contains("somebody-known"));
    eventually("the log has them", || gateway.log().contains("a call that changes something"));
    assert!(!gateway.log().contains("somebody-known"), "{}", gateway.log());
}

/// A gateway with this policy, which counts by `X-Who`.
fn counting(policy: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         policies: {{ each: {{ key: \"header:x-who\", {policy} }} }}\n\
         routes: [{{ path: \"/*\", policies: [each], respond: {{ body: ok }} }}]\n{}",
        section("")
    ))
}

/// The counter of the limit alone says that a request does not fit.
#[test]
fn the_counters_of_a_key_are_told_beyond_its_limit_and_under_its_ban() {
    let gateway = counting("limit: 5/day, soft: 40%");
    let client = AdminClient::new(&gateway, READ);
    let path = "/v1/policies/each/keys/ann";
    let mut user = gateway.client();
    for (used, left) in [(1, 4), (2, 3), (3, 2), (4, 1), (5, 0), (6, 0), (7, 0)] {
        let response = user.get("/", &["X-Who: ann"]);
        assert_eq!((response.status, response.number("X-Ratelimit-Remaining")), (200, left));
        let key = client.get(path).json();
        let numbers = (&key["limit"], &key["used"], &key["remaining"]);
        assert_eq!(numbers, (&json!(5), &json!(used), &json!(left)), "{key}");
        assert_eq!(key["retry_after_ms"].is_null(), used < 7, "{key}");
    }
    assert_eq!(statuses(&gateway, "ann", 1), [429]);

    let gateway = counting("limit: 2/second, penalty: { after: 1/minute, ban: 1h }");
    let client = AdminClient::new(&gateway, READ);
    eventually("it is banned", || statuses(&gateway, "ann", 8).contains(&429));
    settles("the limit has room again", || {
        let key = client.get(path).json();
        assert!(key["banned_for_ms"].as_u64().is_some_and(|it| it > 3_000_000), "{key}");
        assert!(key["retry_after_ms"].as_u64() >= key["banned_for_ms"].as_u64(), "{key}");
        assert!(key["reset_after_ms"].as_u64() >= key["banned_for_ms"].as_u64(), "{key}");
        assert_eq!(key["remaining"], 0, "as the response fields say: {key}");
        key["used"] == 0
    });
    let response = gateway.client().get("/", &["X-Who: ann"]);
    assert_eq!((response.status, response.number("X-Ratelimit-Remaining")), (429, 0));
}

/// The plan is in the requests of a client, and the counter is that of the policy.
#[test]
fn clients_of_a_plan_are_reset_if_the_policy_is_unlimited() {
    let gateway = counting(
        "limit: unlimited, plans: { from: \"header:x-plan\", limits: { pro: 3/day, free: unlimited } }",
    );
    let client = AdminClient::new(&gateway, OPERATE);
    let mut user = gateway.client();
    let mut asked = || user.get("/", &["X-Who: ann", "X-Plan: pro"]).status;
    for query in ["", "?plan=pro"] {
        assert_eq!([(); 4].map(|()| asked()), [200, 200, 200, 429]);
        let refusals = client.get("/v1/refusals").json();
        assert_eq!(refusals["items"][0]["plan"], "pro", "{refusals}");
        assert_eq!(client.get("/v1/policies/each/keys/ann?plan=pro").json()["used"], 3);
        let path = format!("/v1/policies/each/keys/ann{query}");
        let reset = client.send("DELETE", &path, &[], "");
        assert_eq!(reset.status, 200, "{reset:?}");
        assert_eq!(client.get("/v1/policies/each/keys/ann?plan=pro").json()["used"], 0);
    }
    assert_eq!(client.get("/v1/policies/each/keys/ann").json()["limit"], "unlimited");
    let free = client.send("DELETE", "/v1/policies/each/keys/ann?plan=free", &[], "");
    assert_eq!(free.status, 409, "{free:?}");
    // A plan whose limit is not that of the policy has no part in a refusal by the policy's own.
    let gateway = counting("limit: 1/day");
    let client = AdminClient::new(&gateway, READ);
    assert_eq!(statuses(&gateway, "ann", 2), [200, 429]);
    let refusals = client.get("/v1/refusals").json();
    assert_eq!(refusals["items"][0].get("plan"), None, "{refusals}");
}

#[test]
fn the_heaviest_clients_are_listed_without_their_keys() {
    let gateway = gateway("", "");
    let admin = AdminClient::new(&gateway, READ);
    let mut client = gateway.client();
    for (name, requests) in [("ann-secret", 5), ("bob-secret", 2)] {
        for _ in 0..requests {
            client.get("/", &[&format!("X-Who: {name}")]);
        }
    }
    // The requests may lie in two minutes.
    let mut seen = String::new();
    settles("all clients are listed", || {
        let lists = [0, 1].map(|minutes| {
            let target = format!("/v1/top?policy=each&minutes={minutes}&limit=5");
            admin.get(&target).json()["policies"][0].clone()
        });
        seen = json!(lists).to_string();
        let sum = |name: &str| lists.iter().filter_map(|list| list[name].as_u64()).sum::<u64>();
        sum("requests") == 7 && sum("refused") == 2
    });
    assert!(seen.contains("\"text\":\"header x-who an…\""), "{seen}");
    assert!(!seen.contains("secret"), "{seen}");
    let all = admin.get("/v1/top").json();
    let names: Vec<_> =
        all["policies"].as_array().expect("a list").iter().map(|it| &it["policy"]).collect();
    assert_eq!(names, ["each", "open"]);
    for target in ["/v1/top?minutes=11", "/v1/top?limit=0", "/v1/top?limit=129", "/v1/top?q=1"] {
        assert_eq!(admin.get(target).status, 400, "{target}");
    }
}

/// The scrape runs beside the workers, and what a scraper does not read waits in its connection.
#[test]
fn scrapers_that_do_not_read_slow_no_request_down() {
    let gateway = gateway("", "");
    let admin = gateway.addresses()[1];
    let stuck: Vec<Client> = (0..30)
        .map(|_| {
            let mut client = Client::connect(admin);
            let head = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n");
            client.send(format!("{head}Authorization: Bearer {METRICS}\r\n\r\n").as_bytes());
            client
        })
        .collect();
    assert_eq!(statuses(&gateway, "ann", 3), [200; 3]);
    let other = AdminClient::new(&gateway, READ);
    assert_eq!(other.get("/v1/policies").status, 200);
    drop(stuck);
}

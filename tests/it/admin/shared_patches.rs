//! Policies that are changed at run time, on several nodes with one Redis.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::patches::{change, patch, tag, told};
use super::{AdminClient, OPERATE, settles, yaml};
use crate::support::redis::{Options, Redis};
use crate::support::{Gateway, StoreKind, eventually, now};

const EACH: &str = "/v1/policies/each";
/// A change is in force on all nodes within 2 s. The rest is for a busy machine.
const IN_FORCE: Duration = Duration::from_secs(3);

fn file(redis: &Redis) -> String {
    yaml(&format!("store: {{ redis: {{ url: \"{}\", timeout: 2s }} }}", redis.url()), "")
}

fn limits(gateways: &[Gateway]) -> Vec<u64> {
    gateways.iter().map(|gateway| told(gateway, "ann")).collect()
}

/// The nodes have this limit soon.
fn soon(gateways: &[Gateway], limit: u64) {
    let begin = now();
    eventually("all nodes have it", || limits(gateways).iter().all(|it| *it == limit));
    let took = now() - begin;
    assert!(took < IN_FORCE, "it took {took:?}");
}

#[test]
fn a_patch_on_one_of_three_nodes_holds_on_all_and_outlives_reloads_and_restarts() {
    let redis = Redis::start(Options::default());
    let file = file(&redis);
    let mut gateways: Vec<Gateway> = (0..3).map(|_| Gateway::start(&file)).collect();
    assert_eq!(limits(&gateways), [3; 3]);
    let clients: Vec<_> = gateways.iter().map(|it| AdminClient::new(it, OPERATE)).collect();
    let made = patch(&clients[0], r#"{"limit":"50/1d","for":"30m","reason":"a launch"}"#);
    assert_eq!(made.json()["changes_scope"], "cluster");
    assert_eq!(told(&gateways[0], "ann"), 50, "it holds at once where it was made");
    soon(&gateways, 50);
    let read = || redis.cli(&["INFO", "commandstats"]);
    assert!(read().contains("cmdstat_hget"), "the mark is read");
    // A reload that changes other things, and a node that starts again.
    gateways[1].reload(&file.replace("1M/day", "2M/day"));
    assert_eq!(told(&gateways[1], "ann"), 50);
    gateways[2] = Gateway::start(&file);
    assert_eq!(told(&gateways[2], "ann"), 50, "its first request");
    // A node whose definition is another one ignores it, and says so.
    gateways[1].reload(&file.replace("limit: 3/day", "limit: 4/day"));
    assert_eq!(told(&gateways[1], "ann"), 4);
    let policy = clients[1].get(EACH).json();
    assert!(policy["ignored"][0].as_str().is_some_and(|it| it.contains("another one")), "{policy}");
    let viewer = AdminClient::new(&gateways[2], OPERATE);
    let node = |condition: &dyn Fn(&Value) -> bool| {
        let nodes = viewer.get("/v1/nodes").json();
        nodes["items"].as_array().is_some_and(|items| items.iter().any(condition))
    };
    settles("the others see that", || {
        node(&|it| it["ignored_patches"][0]["policy"] == "each" && it["admin"].is_string())
    });
    gateways[1].reload(&file);
    assert_eq!(told(&gateways[1], "ann"), 50);
    // Two authors have seen the same state.
    let seen = &*tag(&clients[0]);
    let mut statuses = thread::scope(|scope| {
        let write =
            |client, body| scope.spawn(move || change(client, "PATCH", EACH, seen, body).status);
        let writes = [
            write(&clients[0], r#"{"limit":"60/1d","for":"30m"}"#),
            write(&clients[1], r#"{"limit":"60/1d","for":"30m","reason":"the same"}"#),
        ];
        writes.map(|it| it.join().expect("it answers"))
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412]);
    soon(&gateways, 60);
    patch(&clients[1], r#"{"limit":"70/1d","for":"1s"}"#);
    soon(&gateways, 3);
}

/// The entry had no values, and no later one tells them.
#[test]
fn a_patch_that_may_have_been_made_is_recorded_with_its_values() {
    let redis = Redis::start(Options::default());
    let gateway = Gateway::start(&file(&redis).replace("timeout: 2s", "timeout: 200ms"));
    let client = AdminClient::new(&gateway, OPERATE);
    let first = patch(&client, r#"{"limit":"50/1d"}"#);
    assert_eq!(first.status, 200, "{first:?}");
    // Writes wait, and reads do not.
    redis.cli(&["CLIENT", "PAUSE", "3000", "WRITE"]);
    let late = change(&client, "PATCH", EACH, "*", r#"{"limit":"60/1d"}"#);
    assert_eq!(late.status, 503, "{late:?}");
    assert!(late.text().contains("this one may have been made"), "{late:?}");
    let entry = client.get("/v1/audit").json()["items"][0].clone();
    assert_eq!((&entry["policy"], &entry["status"]), (&json!("each"), &json!(503)), "{entry}");
    assert_eq!(entry["before"]["limit"], json!("50/1d"), "{entry}");
    assert_eq!(entry["after"]["limit"], json!("60/1d"), "{entry}");
}

#[test]
fn while_redis_is_away_patches_stay_and_afterwards_they_are_written_again() {
    let mut redis = Redis::start(Options::default());
    let file = file(&redis).replace("timeout: 2s", "timeout: 20ms");
    let gateways: Vec<Gateway> = (0..2).map(|_| Gateway::start(&file)).collect();
    let client = AdminClient::new(&gateways[0], OPERATE);
    patch(&client, r#"{"limit":"50/1d"}"#);
    soon(&gateways, 50);
    redis.kill();
    let body = r#"{"limit":"60/1d"}"#;
    settles("changes are refused", || change(&client, "PATCH", EACH, "*", body).status == 503);
    for gateway in &gateways {
        let policy = AdminClient::new(gateway, OPERATE).get(EACH).json();
        assert_eq!(policy["limit"]["units"], json!(50), "{policy}");
    }
    assert_eq!(client.get("/v1/nodes").status, 503);
    // It has no persistence: what was in it is lost.
    redis.restart();
    settles("it is written again", || {
        redis.try_cli(&["HKEYS", "tollgate:meta:patches"]).is_ok_and(|keys| keys.contains("each"))
    });
    assert_eq!(client.get(EACH).json()["limit"]["units"], json!(50));
    settles("changes can be made", || {
        change(&client, "PATCH", EACH, "*", r#"{"limit":"55/1d"}"#).status == 200
    });
    soon(&gateways, 55);
    // A node without the policy cannot change it, and can remove the change.
    gateways[0].reload(&file.replace("each", "every"));
    assert_eq!(change(&client, "PATCH", EACH, "*", body).status, 404);
    let removed = change(&client, "DELETE", "/v1/policies/each/patch", "*", "");
    assert_eq!(removed.status, 200, "{}", removed.text());
    soon(&gateways[1..], 3);
}

/// The nodes of `store`, with one patch.
fn holds(store: &str) {
    let file = yaml(&format!("store: {{ redis: {{ {store} }} }}"), "");
    let gateways: Vec<Gateway> = (0..2).map(|_| Gateway::start(&file)).collect();
    let client = AdminClient::new(&gateways[0], OPERATE);
    patch(&client, r#"{"limit":"50/1d"}"#);
    soon(&gateways, 50);
    settles("both are listed", || {
        let nodes = client.get("/v1/nodes").json();
        let nodes = nodes["items"].as_array().cloned().unwrap_or_default();
        nodes.iter().filter(|node| node["patches"] == 1).count() == 2
    });
}

#[test]
fn a_patch_holds_in_a_cluster() {
    holds(&StoreKind::Cluster.redis().expect("it has one"));
}

#[test]
fn a_patch_holds_on_several_servers() {
    holds(&StoreKind::Sharded.redis().expect("it has one"));
}

//! The figures of several nodes in one answer.

use serde_json::{Value, json};

use super::{AdminClient, OPERATE, READ, gateway, section, settles, statuses, yaml};
use crate::support::Gateway;
use crate::support::redis::{Options, Redis};

const TOP: &str = "/v1/top?scope=cluster&policy=each";
const EACH: &str = "/v1/policies/each?scope=cluster";

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().filter_map(|it| it["id"].as_str()).collect()
}

#[test]
fn three_nodes_are_summed_while_one_of_them_is_asked() {
    let mut redis = Redis::start(Options::default());
    let file = yaml(&format!("store: {{ redis: {{ url: \"{}\" }} }}", redis.url()), "");
    let without_admin = file.replace(&section(""), "");
    let gateways: Vec<Gateway> =
        [&file, &file, &without_admin].into_iter().map(|it| Gateway::start(it)).collect();
    for (gateway, count) in gateways.iter().zip([1, 2, 4]) {
        statuses(gateway, "ann", count);
    }
    assert_eq!(statuses(&gateways[1], "bob", 1), [200]);
    let client = AdminClient::new(&gateways[0], READ);
    settles("the nodes know each other", || {
        client.get("/v1/nodes").json()["items"].as_array().is_some_and(|it| it.len() == 3)
    });
    let published = || redis.cli(&["KEYS", "tollgate:meta:figures:*"]);
    assert_eq!(published().trim(), "", "nothing is published without a watch");
    let mut top = client.get(TOP).json();
    assert_eq!((ids(&top["nodes"]).len(), ids(&top["missing"]).len()), (3, 0), "{top}");
    assert_eq!((&top["scope"], &top["source"]), (&json!("cluster"), &json!("store")));
    settles("all have shown their clients", || {
        top = client.get(TOP).json();
        top["policies"][0]["requests"] == 8
    });
    let list = &top["policies"][0];
    let ann = &list["clients"][0];
    assert_eq!((&list["refused"], &list["unlisted"]), (&json!(4), &json!(0)), "{list}");
    assert_eq!((&ann["text"], &ann["requests"]), (&json!("header x-who a…"), &json!(7)));
    assert_eq!((&ann["refused"], &ann["error"]), (&json!(4), &json!(0)));
    settles("the outcomes are the same", || {
        let total = &client.get(EACH).json()["outcomes"]["total"];
        // The node without an admin listener counts all since its start.
        (&total["admitted"], &total["refused"]) == (&json!(4), &json!(4))
    });
    let all = client.get("/v1/policies?scope=cluster").json();
    assert_eq!((ids(&all["nodes"]).len(), &all["elsewhere"]), (3, &json!([])), "{all}");
    // A client that only another node has seen is found by the id that was shown.
    let bob = list["clients"][1]["id"].as_str().expect("it is listed");
    let key = format!("/v1/policies/each/keys/~{bob}");
    assert_eq!(client.get(&key).json()["used"], 1);
    let operator = AdminClient::new(&gateways[0], OPERATE);
    assert_eq!(operator.send("DELETE", &key, &[], "").status, 200);
    assert_eq!(client.get(&key).json()["used"], 0);
    assert_eq!(client.get("/v1/policies/each/keys/~000000000000").status, 404);
    // A node of another version counts as missing.
    redis.cli(&["HSET", "tollgate:meta:nodes", "00000000000000ff", "1"]);
    redis.cli(&["SET", "tollgate:meta:figures:00000000000000ff", "{\"v\":2}"]);
    settles("it is missing", || ids(&client.get(TOP).json()["missing"]) == ["00000000000000ff"]);
    redis.kill();
    settles("the node says that it is alone", || {
        let top = client.get(TOP).json();
        top["source"] == "local" && ids(&top["nodes"]).len() == 1
    });
}

#[test]
fn a_node_with_counters_in_memory_is_alone() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, READ);
    for path in [TOP, EACH, "/v1/policies?scope=cluster"] {
        let answer = client.get(path).json();
        assert_eq!((&answer["scope"], ids(&answer["nodes"])), (&json!("node"), vec!["local"]));
    }
    assert_eq!(client.get("/v1/top?scope=node").json()["scope"], "node");
    // The default, written out.
    assert_eq!(client.get("/v1/top?scope=cluster&minutes=0").status, 200);
    for path in ["/v1/top?scope=all", "/v1/policies?scope=", "/v1/top?scope=cluster&minutes=1"] {
        assert_eq!(client.get(path).status, 400, "{path}");
    }
}

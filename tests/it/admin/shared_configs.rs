//! Nodes with one Redis whose configurations differ, in what may differ and in what must not.

use serde_json::{Value, json};

use super::{AdminClient, READ, is_well, settles, yaml};
use crate::support::Gateway;
use crate::support::redis::{Options, Redis};

/// In which sections each node differs from the one that is asked.
fn sections(viewer: &AdminClient) -> Vec<Value> {
    let nodes = viewer.get("/v1/nodes").json();
    let nodes = nodes["items"].as_array().cloned().unwrap_or_default();
    nodes.into_iter().map(|mut node| node["differs_in"].take()).collect()
}

/// The numbers of nodes that differ, by section.
fn counts(viewer: &AdminClient) -> Vec<String> {
    let metrics = viewer.get("/metrics").text();
    let counts = metrics.lines().filter_map(|line| {
        let count = line.strip_prefix("tollgate_nodes_with_other_config{section=")?;
        (!count.ends_with(" 0")).then(|| count.to_owned())
    });
    counts.collect()
}

/// The texts of the reasons that are about configurations.
fn reasons(viewer: &AdminClient) -> Vec<String> {
    let status = viewer.get("/v1/status").json();
    let reasons = status["reasons"].as_array().cloned().unwrap_or_default();
    let reasons = reasons.iter().filter(|it| it["code"] == "configurations_differ");
    reasons.filter_map(|it| it["text"].as_str().map(str::to_owned)).collect()
}

#[test]
fn only_a_difference_in_what_must_be_equal_is_a_reason_and_its_sections_are_named() {
    let redis = Redis::start(Options::default());
    let file = |timeout: &str| {
        let store =
            format!("store: {{ redis: {{ url: \"{}\", timeout: {timeout} }} }}", redis.url());
        yaml(&store, "")
    };
    let mut gateways = vec![Gateway::start(&file("2s"))];
    let viewer = |gateways: &[Gateway], index| AdminClient::new(&gateways[index], READ);
    let first = viewer(&gateways, 0);
    settles("the first is listed", || sections(&first) == [json!([])]);
    // The nodes have addresses and access logs of their own, and other ways to the store.
    gateways.push(Gateway::start(&file("3s")));
    let second = viewer(&gateways, 1);
    settles("both are listed", || sections(&second) == [json!([]), json!([])]);
    settles("they are compared", || {
        second.get("/metrics").text().contains("\ntollgate_nodes_not_compared 0")
    });
    is_well(&second);
    assert_eq!((counts(&second), reasons(&second)), (vec![], vec![]));

    let other = file("2s").replace("limit: 3/day", "limit: 4/day").replace("body: ok", "body: no");
    gateways.push(Gateway::start(&other));
    let third = viewer(&gateways, 2);
    settles("the difference is a reason", || reasons(&third).len() == 2);
    assert_eq!(counts(&third), ["\"policies\"} 2", "\"routes\"} 2"]);
    let text =
        "the section \"policies\" of the configuration differs on 2 nodes that share the store";
    assert_eq!(reasons(&third)[0], text);
    let mut differs = sections(&second);
    differs.sort_by_key(|it| it.as_array().map(Vec::len));
    assert_eq!(differs, [json!([]), json!([]), json!(["policies", "routes"])]);
    gateways[2].reload(&file("2s"));
    settles("it has ended", || reasons(&third).is_empty());
}

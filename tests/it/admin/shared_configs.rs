//! Nodes with one Redis whose configurations differ, in what may differ and in what must not.

use serde_json::{Value, json};

use super::{AdminClient, READ, settles, yaml};
use crate::support::Gateway;
use crate::support::redis::{Options, Redis};

/// What a node says of the others: the sections, the numbers of nodes by metric, and the reasons.
fn said(viewer: &AdminClient) -> (Vec<Value>, Vec<String>, Vec<String>) {
    let nodes = viewer.get("/v1/nodes").json();
    let nodes = nodes["items"].as_array().cloned().unwrap_or_default();
    let sections = nodes.into_iter().map(|mut node| node["differs_in"].take()).collect();
    let metrics = viewer.get("/metrics").text();
    let counts = metrics.lines().filter_map(|line| {
        let count = line.strip_prefix("tollgate_nodes_with_other_config{section=")?;
        (!count.ends_with(" 0")).then(|| count.to_owned())
    });
    let status = viewer.get("/v1/status").json();
    let reasons = status["reasons"].as_array().cloned().unwrap_or_default();
    let reasons = reasons.iter().filter(|it| it["code"] == "configurations_differ");
    let texts = reasons.filter_map(|it| it["text"].as_str().map(str::to_owned));
    (sections, counts.collect(), texts.collect())
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
    settles("the first is listed", || said(&viewer(&gateways, 0)).0 == [json!([])]);
    // The nodes have addresses and access logs of their own, and other ways to the store.
    gateways.push(Gateway::start(&file("3s")));
    let second = viewer(&gateways, 1);
    settles("both are listed and compared", || {
        let is_compared = second.get("/metrics").text().contains("\ntollgate_nodes_not_compared 0");
        is_compared && said(&second).0 == [json!([]), json!([])]
    });
    assert_eq!(said(&second), (vec![json!([]), json!([])], vec![], vec![]));
    settles("nothing is wrong", || second.get("/v1/status").json()["state"] == "ok");

    let other = file("2s").replace("limit: 3/day", "limit: 4/day").replace("body: ok", "body: no");
    gateways.push(Gateway::start(&other));
    let third = viewer(&gateways, 2);
    settles("the difference is a reason", || said(&third).2.len() == 2);
    let (_, counts, reasons) = said(&third);
    assert_eq!(counts, ["\"policies\"} 2", "\"routes\"} 2"]);
    let text =
        "the section \"policies\" of the configuration differs on 2 nodes that share the store";
    assert_eq!(reasons[0], text);
    let mut sections = said(&second).0;
    sections.sort_by_key(|it| it.as_array().map(Vec::len));
    assert_eq!(sections, [json!([]), json!([]), json!(["policies", "routes"])]);
    gateways[2].reload(&file("2s"));
    settles("it has ended", || said(&third).2.is_empty());
}

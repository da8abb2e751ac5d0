//! Gateways share their limits also while the slots of the state on which they agree move to other
//! nodes of a cluster.

use super::wait_for_store;
use crate::support::load::is_local;
use crate::support::redis::Cluster;
use crate::support::{Gateway, admin_text, eventually};

fn gateway(cluster: &Cluster) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [{{ name: a, role: read, \
             token: read-0123456789abcdef }}], hosts: [gateway.test] }}\n\
         store: {{ redis: {{ url: \"{}\", timeout: 2s }} }}\n\
         policies: {{ each: {{ key: \"header:x-client\", limit: 5/day }}, \
             probe: {{ key: ip, limit: 1M/day }} }}\n\
         routes:\n\
         - {{ path: /probe, policies: [probe], respond: {{ body: ok }} }}\n\
         - {{ path: \"/*\", policies: [each], respond: {{ body: ok }} }}\n\
         runtime: {{ workers: 1 }}\n",
        cluster.url()
    ))
}

fn status(gateway: &Gateway) -> serde_json::Value {
    let credential = "Authorization: Bearer read-0123456789abcdef";
    let text = admin_text(gateway.addresses()[1], "/v1/status", credential);
    serde_json::from_str(&text).expect("JSON")
}

/// A gateway that started then never learned the secret, and decided every policy alone. The others
/// said that Redis was away, and that the URL named a single server.
#[test]
fn gateways_share_limits_while_the_state_on_which_they_agree_moves() {
    let cluster = Cluster::start();
    let first = gateway(&cluster);
    wait_for_store(&first);
    let mut client = first.client();
    assert_eq!(client.get("/", &["X-Client: ann"]).number("X-Ratelimit-Remaining"), 4);
    for name in ["secret", "buckets", "nodes"] {
        cluster.begin_to_move(&format!("tollgate:meta:{name}"));
    }
    let second = gateway(&cluster);
    wait_for_store(&second);
    let mut clients = [second.client(), client];
    for (request, remaining) in [3, 2, 1, 0].into_iter().enumerate() {
        let response = clients[request % 2].get("/", &["X-Client: ann"]);
        assert!(!is_local(&response), "request {request}");
        assert_eq!(response.number("X-Ratelimit-Remaining"), remaining, "request {request}");
    }
    for client in &mut clients {
        assert_eq!(client.get("/", &["X-Client: ann"]).status, 429);
    }
    for node in [&first, &second] {
        eventually("heartbeats are read and written", || status(node)["nodes"] == 2);
        let status = status(node);
        let reasons = status["reasons"].as_array().expect("a list");
        assert!(reasons.iter().all(|reason| reason["code"] != "store_away"), "{status}");
        assert!(!node.log().contains("Redis is away"), "{}", node.log());
    }
}

//! `write_back` while Redis is unavailable: the policy's `on_store_failure` applies, as in
//! every mode.

use super::{PATIENT, node_of, wait_for_store};
use crate::support::load::{client_field, is_local};
use crate::support::redis::{Options, Redis};
use crate::support::{Gateway, Response, eventually};

const ANN: &str = "X-Client: ann";

/// Nodes in this mode that share their counters. Each one knows of those before it.
fn nodes(redis: &Redis, count: usize, policy: &str) -> Vec<Gateway> {
    let policies = format!("each: {{ key: \"header:x-client\", {policy} }}");
    let store = format!("url: \"{}\", mode: write_back, {PATIENT}", redis.url());
    let start = || {
        let node = node_of(&store, &policies, "[each]", 2);
        wait_for_store(&node);
        node
    };
    (0..count).map(|_| start()).collect()
}

fn ask(node: &Gateway, field: &str) -> Response {
    node.client().get("/", &[field])
}

#[test]
fn without_the_store_nodes_that_count_later_hold_their_shares_and_say_so() {
    let mut redis = Redis::start(Options::default());
    let nodes = nodes(&redis, 2, "limit: 80/day");
    redis.kill();
    // The second node has learned of the first at its start.
    let answers: Vec<_> = (0..90).map(|_| ask(&nodes[1], ANN)).collect();
    let admitted = answers.iter().filter(|it| it.status == 200).count();
    assert_eq!(admitted, 40, "half of the limit is its share");
    assert!(answers.iter().all(is_local), "{:?}", answers.iter().find(|it| !is_local(it)));
}

#[test]
fn without_the_store_nodes_that_count_later_refuse_if_the_policy_wants_it() {
    let mut redis = Redis::start(Options::default());
    let nodes = nodes(&redis, 2, "limit: 80/day, on_store_failure: deny");
    assert_eq!(ask(&nodes[0], ANN).status, 200);
    redis.kill();
    // This node knows nothing of the client.
    assert_eq!(ask(&nodes[0], &client_field(7)).status, 503);
    // A known client gets the units that this node may admit before it reports to the
    // store.
    let mut admitted = 0;
    eventually("it is refused", || {
        let response = ask(&nodes[0], ANN);
        admitted += usize::from(response.status == 200);
        response.status == 503
    });
    assert!(admitted <= 40, "{admitted}: half of the limit, for all nodes together");
}

#[test]
fn without_the_store_nodes_that_count_later_admit_if_the_policy_wants_it() {
    let mut redis = Redis::start(Options::default());
    let nodes = nodes(&redis, 1, "limit: 3/day, on_store_failure: allow");
    redis.kill();
    assert!((0..9).all(|_| ask(&nodes[0], ANN).status == 200));
}

//! Leases belong to a node, not to its workers; a policy with a penalty leases as well; and
//! the layout of keys can change while gateways run.

use std::time::Duration;

use super::{PATIENT, node_of, wait_for_store};
use crate::support::load::{client_field, is_local};
use crate::support::redis::{Options, Redis};
use crate::support::{Client, Gateway, eventually};

const ANN: &str = "X-Client: ann";

/// A node that leases, with this number of workers.
fn leasing(redis: &Redis, policy: &str, workers: usize) -> Gateway {
    let policies = format!("each: {{ key: \"header:x-client\", {policy} }}");
    let store = format!("url: \"{}\", mode: leased, {PATIENT}", redis.url());
    let node = node_of(&store, &policies, "[each]", workers);
    wait_for_store(&node);
    node
}

/// The number of script calls at Redis.
fn calls(redis: &Redis) -> u64 {
    let stat = redis.info("cmdstat_evalsha").expect("scripts were called");
    let calls = stat.split(',').find_map(|field| field.strip_prefix("calls="));
    calls.and_then(|calls| calls.parse().ok()).expect("it is a number")
}

/// Regression: each worker had its own ledger, with units that no other worker could use.
/// With 32 workers a client got half to two thirds of its limit.
#[test]
fn a_client_on_many_workers_gets_all_of_its_limit() {
    const CONNECTIONS: usize = 128;
    let redis = Redis::start(Options::default());
    let node = leasing(&redis, "limit: 100/minute", 32);
    let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| node.client()).collect();
    for client in 0..3 {
        let field = client_field(client);
        for turn in 0..100 {
            let response = clients[turn * 37 % CONNECTIONS].get("/", &[&field]);
            assert_eq!((response.status, is_local(&response)), (200, false), "{turn}");
        }
    }
}

/// Regression: each request asked Redis whether the client is banned.
#[test]
fn a_policy_with_a_penalty_leases_as_well() {
    let redis = Redis::start(Options::default());
    let policy = "limit: 1M/minute, penalty: { after: 10/minute, ban: 5m }";
    let node = leasing(&redis, policy, 1);
    let mut client = node.client();
    let before = calls(&redis);
    for _ in 0..2000 {
        assert_eq!(client.get("/", &[ANN]).status, 200);
    }
    let calls = calls(&redis) - before;
    assert!(calls <= 200, "{calls} calls for 2000 requests");
}

fn is_banned(client: &mut Client) -> bool {
    client.get("/", &[ANN]).status == 429
}

#[test]
fn a_ban_is_honoured_at_once_where_it_is_imposed_and_soon_elsewhere() {
    let redis = Redis::start(Options::default());
    // The window is a second: a client that is refused a second later is banned.
    let policy = "limit: 20/s, penalty: { after: 3/minute, ban: 60s }";
    let nodes = [(); 2].map(|()| leasing(&redis, policy, 2));
    let mut clients = nodes.each_ref().map(Gateway::client);
    // Both nodes know that there is no ban.
    clients.iter_mut().for_each(|client| assert!(!is_banned(client)));
    let refused = (0..500).filter(|_| is_banned(&mut clients[0])).count();
    assert!(refused >= 3, "{refused} were refused");
    std::thread::sleep(Duration::from_millis(2100));
    for client in &mut [nodes[0].client(), nodes[0].client(), nodes[1].client()] {
        assert!(is_banned(client), "its limit has room again, and it is banned");
    }
}

/// The first gateway stores the number of buckets. Another number may be stored while
/// gateways run: all of them use it within seconds.
#[test]
fn another_number_of_buckets_takes_effect_while_gateways_run() {
    let redis = Redis::start(Options::default());
    let policies = "each: { key: \"header:x-client\", limit: 2/day }";
    let store = format!("url: \"{}\", {PATIENT}", redis.url());
    let nodes = [(); 2].map(|()| {
        let node = node_of(&store, policies, "[each]", 1);
        wait_for_store(&node);
        node
    });
    let mut clients = nodes.each_ref().map(Gateway::client);
    let mut ask = |node: usize, client: usize| {
        let response = clients[node].get("/", &[&client_field(client)]);
        assert!(!is_local(&response));
        response.status
    };
    let used_up: Vec<_> = (0..8).collect();
    for &client in &used_up {
        assert_eq!([ask(0, client), ask(1, client), ask(0, client)], [200, 200, 429]);
    }
    assert_eq!(redis.cli(&["GET", "tollgate:meta:buckets"]), "16384");
    redis.cli(&["SET", "tollgate:meta:buckets", "262144"]);
    // One of 16 clients keeps its position. The counters of the others begin again.
    for node in [0, 1] {
        let mut client = 100 * (node + 1);
        eventually("the node goes by the new layout", || {
            client += 1;
            // One unit at each node: if they use different positions, one more is left.
            let statuses = [ask(node, client), ask(1 - node, client), ask(node, client)];
            let is_new = redis
                .cli(&["--scan", "--pattern", "tollgate:*"])
                .lines()
                .filter_map(|key| key.strip_prefix("tollgate:"))
                .filter(|key| !key.contains(':'))
                .any(|key| u64::from_str_radix(key, 36).is_ok_and(|bucket| bucket >= 16384));
            is_new && statuses == [200, 200, 429]
        });
    }
    let again = used_up.iter().filter(|client| ask(0, **client) == 200).count();
    assert!(again > 0, "none of them has moved");
}

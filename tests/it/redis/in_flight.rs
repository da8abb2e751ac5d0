//! Units in flight under a limit that many requests use: the next request uses the units of
//! one that has ended, and the units return to all nodes soon.

use super::{node_of, wait_for_store};
use crate::support::eventually;
use crate::support::redis::{Options, Redis};

/// The number of calls of the script.
fn calls(redis: &Redis) -> u32 {
    let stats = redis.cli(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn requests_one_after_the_other_ask_for_a_large_limit_once() {
    let redis = Redis::start(Options::default());
    let store = format!("url: \"{}\", timeout: 2s", redis.url());
    let policy = "each: { key: \"header:x-client\", limit: 1000, algorithm: concurrency }";
    let gateways = [(); 2].map(|()| node_of(&store, policy, "[each]", 1));
    gateways.iter().for_each(wait_for_store);
    let before = calls(&redis);
    let mut client = gateways[0].client();
    for _ in 0..200 {
        assert_eq!(client.get("/", &["X-Client: ann"]).status, 200);
    }
    let asked = calls(&redis) - before;
    // Without this there are two calls for each request. Some calls come from pauses of
    // this test.
    assert!((1..100).contains(&asked), "{asked} calls for 200 requests");
    let mut other = gateways[1].client();
    eventually("what was kept is free", || {
        other.get("/", &["X-Client: ann"]).field("X-Ratelimit-Remaining") == Some("999")
    });
}

#[test]
fn a_small_limit_is_asked_for_each_time() {
    let redis = Redis::start(Options::default());
    let store = format!("url: \"{}\", timeout: 2s", redis.url());
    let policy = "each: { key: \"header:x-client\", limit: 2, algorithm: concurrency }";
    let gateway = node_of(&store, policy, "[each]", 1);
    wait_for_store(&gateway);
    let before = calls(&redis);
    let mut client = gateway.client();
    for _ in 0..50 {
        assert_eq!(client.get("/", &["X-Client: ann"]).status, 200);
    }
    eventually("all is given back", || calls(&redis) - before >= 100);
}

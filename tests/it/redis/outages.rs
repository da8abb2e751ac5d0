//! What clients meet while Redis is away, and when it comes back: each policy
//! does as it says, and what was admitted meanwhile is not forgotten.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::{node, node_of, wait_for_store};
use crate::support::load::{is_local, who};
use crate::support::redis::{Cluster, Fault, Options, Redis, Wire};
use crate::support::{Client, Gateway, Origin, PATIENCE, Place, eventually, now};

/// Nothing listens there.
const NOWHERE: &str = "url: \"redis://127.0.0.1:9\"";

fn statuses<const COUNT: usize>(client: &mut Client, who: &str) -> [u16; COUNT] {
    [(); COUNT].map(|()| client.get("/", &[who]).status)
}

/// A node on a wire that has carried at least one decision.
fn wired(policy: &str) -> (Redis, Wire, Gateway) {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let gateway = node(&format!("url: \"{}\"", wire.url()), policy);
    wait_for_store(&gateway);
    (redis, wire, gateway)
}

/// Cuts the wire, and waits until the gateway has seen it.
fn cut(wire: &Wire, gateway: &Gateway) {
    wire.set(Fault::Cut);
    let mut client = gateway.client();
    eventually("the gateway judges alone", || is_local(&client.get("/probe", &[])));
}

#[test]
fn a_gateway_starts_without_its_store_and_finds_it_later() {
    let mut redis = Redis::start(Options::default());
    redis.kill();
    let gateway = node(&format!("url: \"{}\"", redis.url()), "limit: 3/day");
    let mut client = gateway.client();
    let response = client.get("/", &["X-Who: ann"]);
    assert_eq!((response.status, is_local(&response)), (200, true));
    redis.restart();
    wait_for_store(&gateway);
    let response = client.get("/", &["X-Who: bob"]);
    assert_eq!((response.status, response.number("X-Ratelimit-Remaining")), (200, 2));
}

#[test]
fn a_gateway_starts_without_its_cluster_and_finds_it_later() {
    let mut cluster = Cluster::start();
    cluster.nodes.iter_mut().for_each(Redis::kill);
    let gateway = node(&format!("url: \"{}\"", cluster.url()), "limit: 3/day");
    let response = gateway.client().get("/", &["X-Who: ann"]);
    assert_eq!((response.status, is_local(&response)), (200, true));
    cluster.nodes.iter_mut().for_each(Redis::restart);
    cluster.wait_until_whole();
    wait_for_store(&gateway);
}

#[test]
fn a_gateway_starts_though_its_store_says_nothing() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    wire.set(Fault::Swallow);
    let start = now();
    let gateway = node(&format!("url: \"{}\"", wire.url()), "limit: 3/day");
    let response = gateway.client().get("/", &["X-Who: ann"]);
    assert_eq!((response.status, is_local(&response)), (200, true));
    // Half a second, and what a busy machine adds. Connecting may take 20 s here.
    assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
    wire.set(Fault::None);
    wait_for_store(&gateway);
}

#[test]
fn a_gateway_that_starts_with_its_store_judges_by_it_from_the_first_request() {
    for place in [Place::Standalone, Place::Cluster, Place::Sharded] {
        let store = place.redis().expect("it is Redis");
        let policy = "each: { key: \"header:x-who\", limit: 3/day }";
        let gateway = node_of(&store, policy, "[each]", 4);
        for client in 0..20 {
            assert!(!is_local(&gateway.client().get("/", &[&who(client)])), "{place:?}");
        }
    }
}

/// How many of forty clients the gateway judges by its store.
fn judged_by_store(gateway: &Gateway) -> usize {
    let mut client = gateway.client();
    (0..40).filter(|it| !is_local(&client.get("/", &[&who(*it)]))).count()
}

/// It judged none by the other one.
#[test]
fn a_gateway_that_starts_without_one_of_its_shards_judges_by_the_others() {
    for away in 0..2 {
        let mut shards = [Redis::start(Options::default()), Redis::start(Options::default())];
        let urls = shards.each_ref().map(|it| format!("\"{}\"", it.url())).join(", ");
        let start = || node(&format!("shards: [{urls}]"), "limit: 9/day");
        let first = start();
        eventually("all are judged by the store", || judged_by_store(&first) == 40);
        shards[away].kill();
        let second = start();
        eventually("those of the other shard are", || (8..=32).contains(&judged_by_store(&second)));
        let counted = second.client().get("/", &["X-Who: client-0"]);
        assert_eq!(counted.status, 200, "it counts where the first has counted");
    }
}

/// All were told that nothing remains, and that they are over the limit.
#[test]
fn without_its_store_a_gateway_tells_its_share_of_a_soft_limit() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let store = format!("url: \"{}\"", wire.url());
    let others = [(); 3].map(|()| {
        let other = node(&store, "limit: 8/day");
        wait_for_store(&other);
        other
    });
    let gateway = node(&store, "limit: 8/day, soft: 100%");
    wait_for_store(&gateway);
    cut(&wire, &gateway);
    drop(others);
    let mut client = gateway.client();
    let told: Vec<_> = (0..5)
        .map(|_| {
            let response = client.get("/", &["X-Who: ann"]);
            let left = response.field("X-Ratelimit-Remaining").map(str::to_owned);
            let is_over = response.field("X-Ratelimit-Soft").is_some();
            (response.status, left.unwrap_or_default(), is_over)
        })
        .collect();
    let expected = [(200, "1", false), (200, "0", false), (200, "0", true), (200, "0", true)];
    let expected = expected.map(|(status, left, is_over)| (status, left.to_owned(), is_over));
    assert_eq!(told[..4], expected);
    assert_eq!(told[4].0, 429);
}

#[test]
fn without_its_store_a_gateway_holds_limits_alone_and_says_so() {
    let gateway = node(NOWHERE, "limit: 3/day");
    let mut client = gateway.client();
    for remaining in [2, 1, 0] {
        let response = client.get("/", &["X-Who: ann"]);
        assert_eq!((response.status, is_local(&response)), (200, true));
        assert_eq!(response.number("X-Ratelimit-Remaining"), remaining);
    }
    let refused = client.get("/", &["X-Who: ann"]);
    assert_eq!((refused.status, is_local(&refused)), (429, true));
}

#[test]
fn without_its_store_a_gateway_admits_what_a_policy_wants_admitted() {
    let gateway = node(NOWHERE, "limit: 3/day, on_store_failure: allow");
    let mut client = gateway.client();
    assert_eq!(statuses(&mut client, "X-Who: ann"), [200; 9]);
}

#[test]
fn without_its_store_a_gateway_refuses_what_a_policy_wants_refused() {
    let gateway = node(NOWHERE, "limit: 3/day, on_store_failure: deny");
    let refused = gateway.client().get("/", &["X-Who: ann"]);
    assert_eq!(refused.status, 503);
    assert!(refused.number("Retry-After") >= 1);
}

#[test]
fn without_their_store_two_gateways_hold_half_of_a_limit_each() {
    let mut redis = Redis::start(Options::default());
    let gateways = [(); 2].map(|()| {
        let gateway = node(&format!("url: \"{}\"", redis.url()), "limit: 10/day");
        wait_for_store(&gateway);
        gateway
    });
    redis.kill();
    // The second has met the first at its start; the first learns of it later.
    let mut client = gateways[1].client();
    let admitted = statuses::<9>(&mut client, "X-Who: ann").iter().filter(|s| **s == 200).count();
    assert_eq!(admitted, 5);
}

#[test]
fn what_is_known_to_be_over_its_limit_stays_refused_when_the_store_goes() {
    let (_redis, wire, gateway) = wired("limit: 3/day");
    let mut client = gateway.client();
    assert_eq!(statuses(&mut client, "X-Who: ann"), [200, 200, 200, 429]);
    cut(&wire, &gateway);
    assert_eq!(statuses(&mut client, "X-Who: ann"), [429; 3]);
}

/// A second later it was forgotten, and the share of the limit was admitted.
#[test]
fn what_is_known_to_be_over_its_limit_stays_refused_for_as_long_as_the_store_is_away() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let store = format!("url: \"{}\", timeout: 2s", wire.url());
    let policies = "each: { key: \"header:x-who\", limit: 3/day }";
    let gateway = node_of(&store, policies, "[each]", 4);
    wait_for_store(&gateway);
    let mut client = gateway.client();
    assert_eq!(statuses(&mut client, "X-Who: ann"), [200, 200, 200, 429]);
    cut(&wire, &gateway);
    thread::sleep(Duration::from_millis(1200));
    // Whichever worker a connection comes to.
    for _ in 0..12 {
        let refused = gateway.client().get("/", &["X-Who: ann"]);
        assert_eq!((refused.status, is_local(&refused)), (429, true));
    }
    let other = gateway.client().get("/", &["X-Who: bob"]);
    assert_eq!((other.status, is_local(&other)), (200, true));
}

/// Each outage gave the limit once more: 70 of 10 over six of them.
#[test]
fn however_often_the_store_goes_a_client_is_admitted_its_share_once() {
    let (_redis, wire, gateway) = wired("limit: 10/day");
    let mut client = gateway.client();
    let mut admitted = 0;
    for _outage in 0..6 {
        cut(&wire, &gateway);
        admitted += statuses::<15>(&mut client, "X-Who: ann").iter().filter(|s| **s == 200).count();
        wire.set(Fault::None);
        wait_for_store(&gateway);
    }
    assert_eq!(admitted, 10);
    // Debts are told in the end, however short the store was there.
    eventually("the store knows of all", || {
        let response = client.get("/", &["X-Who: ann"]);
        response.status == 429 && !is_local(&response)
    });
}

/// The store is back for a moment only, in which it is told of nothing, or breaks
/// off while it is told.
#[test]
fn debts_outlive_a_store_that_comes_and_goes() {
    let (_redis, wire, gateway) = wired("limit: 1000/day, algorithm: fixed_window");
    let mut client = gateway.client();
    let mut admitted = 0;
    for outage in 0..10 {
        cut(&wire, &gateway);
        admitted += statuses::<20>(&mut client, "X-Who: ann").iter().filter(|s| **s == 200).count();
        wire.set(Fault::None);
        thread::sleep(Duration::from_millis(40 * outage));
    }
    wait_for_store(&gateway);
    let mut counted = 0;
    let mut asked = 0;
    eventually("the store knows of almost all", || {
        let response = client.get("/", &["X-Who: ann"]);
        asked += 1;
        counted = 1000 - response.number("X-Ratelimit-Remaining");
        thread::sleep(Duration::from_millis(20));
        // A debt is lost that is under way when the wire is cut: one outage's in ten.
        !is_local(&response) && counted + 60 >= asked + u64::try_from(admitted).expect("few")
    });
    assert!(counted <= asked + u64::try_from(admitted).expect("few"), "{counted} of {admitted}");
}

/// Each probe finds such a store back. They were lost when it was told of them.
#[test]
fn debts_outlive_a_store_that_answers_and_counts_nothing() {
    let redis = Redis::start(Options::default());
    let policy = "limit: 1000/day, algorithm: fixed_window";
    let gateway = node(&format!("url: \"{}\"", redis.url()), policy);
    wait_for_store(&gateway);
    let memory = |bytes: &str| drop(redis.cli(&["CONFIG", "SET", "maxmemory", bytes]));
    memory("1");
    let mut client = gateway.client();
    let begin = now();
    let mut admitted = 0;
    while begin.elapsed() < Duration::from_secs(1) {
        let response = client.get("/", &["X-Who: ann"]);
        assert_eq!((response.status, is_local(&response)), (200, true));
        admitted += 1;
        thread::sleep(Duration::from_millis(20));
    }
    // Nobody asks meanwhile: each probe finds the store, and then it is told.
    thread::sleep(Duration::from_secs(3));
    memory("0");
    wait_for_store(&gateway);
    eventually("the store has counted all", || {
        let response = client.get("/", &["X-Who: ann"]);
        admitted += 1;
        thread::sleep(Duration::from_millis(20));
        !is_local(&response) && response.number("X-Ratelimit-Remaining") == 1000 - admitted
    });
}

/// A gateway whose responses tell what they have cost, and end when `ends` says so.
fn metering(wire: &Wire, ends: &Arc<AtomicBool>) -> Gateway {
    let ends = Arc::clone(ends);
    let origin = Origin::serving(move |stream, read| {
        while let Some(request) = read() {
            let is_large = request.line().contains("large");
            let cost = if is_large { 50_000 } else { 0 };
            let head = format!("HTTP/1.1 200 OK\r\nX-Tokens: {cost}\r\nContent-Length: 2\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(b"o"));
            while is_large && !ends.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(2));
            }
            let _ = stream.write_all(b"k");
        }
    });
    let cost = "cost: { reserve: 10, settle: { header: x-tokens } }";
    let policy =
        format!("key: \"header:x-who\", limit: 100000/day, algorithm: fixed_window, {cost}");
    let top =
        format!("store: {{ redis: {{ url: \"{}\" }} }}\nruntime: {{ workers: 1 }}", wire.url());
    Gateway::limiting_with(&origin, &policy, &top)
}

/// Waits until the gateway judges others by its store, or alone.
fn wait_for(gateway: &Gateway, alone: bool) {
    let mut client = gateway.client();
    eventually("the gateway has seen it", || is_local(&client.get("/", &["X-Who: bob"])) == alone);
}

/// Of the reserved 10 and the 50,000 only the 10 were counted.
fn settles_what_it_has_cost(begins_alone: bool) {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let ends = Arc::new(AtomicBool::new(false));
    let gateway = metering(&wire, &ends);
    wait_for(&gateway, false);
    if begins_alone {
        wire.set(Fault::Cut);
        wait_for(&gateway, true);
    }
    let mut large = gateway.client();
    large.send(b"GET /large HTTP/1.1\r\nHost: a\r\nX-Who: ann\r\n\r\n");
    thread::sleep(Duration::from_millis(100));
    wire.set(if begins_alone { Fault::None } else { Fault::Cut });
    wait_for(&gateway, !begins_alone);
    // A debt of what was reserved is told by now.
    thread::sleep(Duration::from_millis(300));
    ends.store(true, Ordering::Relaxed);
    assert_eq!(large.response("GET").status, 200);
    wire.set(Fault::None);
    wait_for(&gateway, false);
    let mut client = gateway.client();
    eventually("the store knows what it has cost", || {
        let response = client.get("/", &["X-Who: ann"]);
        !is_local(&response) && response.number("X-Ratelimit-Remaining") == 50_000 - 10
    });
}

#[test]
fn what_a_response_has_cost_is_counted_though_it_ends_while_the_store_is_away() {
    settles_what_it_has_cost(false);
}

#[test]
fn what_a_response_has_cost_is_counted_though_it_began_while_the_store_was_away() {
    settles_what_it_has_cost(true);
}

#[test]
fn what_was_admitted_without_the_store_is_owed_to_it() {
    let (_redis, wire, gateway) = wired("limit: 1000/day, algorithm: fixed_window");
    let mut client = gateway.client();
    let mut admitted = 0;
    let mut ask = |client: &mut Client| {
        let response = client.get("/", &["X-Who: ann"]);
        admitted += u64::from(response.status == 200);
        (response, admitted)
    };
    for _ in 0..4 {
        ask(&mut client);
    }
    cut(&wire, &gateway);
    for _ in 0..6 {
        assert!(is_local(&ask(&mut client).0));
    }
    wire.set(Fault::None);
    wait_for_store(&gateway);
    let (response, admitted) = {
        let mut last = ask(&mut client);
        eventually("the store knows of everything", || {
            last = ask(&mut client);
            last.0.number("X-Ratelimit-Remaining") <= 1000 - last.1
        });
        last
    };
    assert_eq!(response.number("X-Ratelimit-Remaining"), 1000 - admitted, "nothing counts twice");
}

#[test]
fn every_change_is_logged_once() {
    let (_redis, wire, gateway) = wired("limit: 1000/day");
    cut(&wire, &gateway);
    let mut client = gateway.client();
    assert_eq!(statuses(&mut client, "X-Who: ann"), [200; 50]);
    wire.set(Fault::None);
    wait_for_store(&gateway);
    let log = gateway.log();
    let warnings = log.lines().filter(|line| line.contains("WARN")).count();
    // That it is away, and why if that was not known at once; not for each worker.
    assert!((1..=2).contains(&warnings), "{log}");
    assert!(!log.contains("ERROR"), "{log}");
}

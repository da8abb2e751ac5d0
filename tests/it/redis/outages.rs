//! The behaviour while Redis is unavailable, and after it returns: each policy does what it
//! configures, and units that were admitted meanwhile are not lost.

use std::thread;
use std::time::Duration;

use super::{node, node_of, wait_for_store};
use crate::support::load::{client_field, is_local};
use crate::support::redis::{Cluster, Fault, Options, Redis, Wire};
use crate::support::{Client, Gateway, PATIENCE, StoreKind, eventually, now};

/// No program listens on this port.
const NOWHERE: &str = "url: \"redis://127.0.0.1:9\"";

pub(super) fn statuses<const COUNT: usize>(client: &mut Client, field: &str) -> [u16; COUNT] {
    [(); COUNT].map(|()| client.get("/", &[field]).status)
}

/// A node on a wire that has carried at least one decision.
pub(super) fn wired(policy: &str) -> (Redis, Wire, Gateway) {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let gateway = node(&format!("url: \"{}\"", wire.url()), policy);
    wait_for_store(&gateway);
    (redis, wire, gateway)
}

/// Cuts the wire, and waits until the gateway has noticed.
pub(super) fn cut(wire: &Wire, gateway: &Gateway) {
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
    let response = client.get("/", &["X-Client: ann"]);
    assert_eq!((response.status, is_local(&response)), (200, true));
    redis.restart();
    wait_for_store(&gateway);
    let response = client.get("/", &["X-Client: bob"]);
    assert_eq!((response.status, response.number("X-Ratelimit-Remaining")), (200, 2));
}

#[test]
fn a_gateway_starts_without_its_cluster_and_finds_it_later() {
    let mut cluster = Cluster::start();
    cluster.nodes.iter_mut().for_each(Redis::kill);
    let gateway = node(&format!("url: \"{}\"", cluster.url()), "limit: 3/day");
    let response = gateway.client().get("/", &["X-Client: ann"]);
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
    let response = gateway.client().get("/", &["X-Client: ann"]);
    assert_eq!((response.status, is_local(&response)), (200, true));
    // Half a second, and the additional time of a busy machine. Connecting may take 20 s.
    assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
    wire.set(Fault::None);
    wait_for_store(&gateway);
}

#[test]
fn a_gateway_that_starts_with_its_store_judges_by_it_from_the_first_request() {
    for kind in [StoreKind::Standalone, StoreKind::Cluster, StoreKind::Sharded] {
        let store = kind.redis().expect("it is Redis");
        let policy = "each: { key: \"header:x-client\", limit: 3/day }";
        let gateway = node_of(&store, policy, "[each]", 4);
        for client in 0..20 {
            assert!(!is_local(&gateway.client().get("/", &[&client_field(client)])), "{kind:?}");
        }
    }
}

/// The number of forty clients that the gateway judges with its store.
fn judged_by_store(gateway: &Gateway) -> usize {
    let mut client = gateway.client();
    (0..40).filter(|it| !is_local(&client.get("/", &[&client_field(*it)]))).count()
}

/// Regression: it judged no request by the other shard.
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
        let counted = second.client().get("/", &["X-Client: client-0"]);
        assert_eq!(counted.status, 200, "it counts where the first has counted");
    }
}

/// Regression: all responses stated that nothing remains and that the client is over the
/// limit.
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
            let response = client.get("/", &["X-Client: ann"]);
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
        let response = client.get("/", &["X-Client: ann"]);
        assert_eq!((response.status, is_local(&response)), (200, true));
        assert_eq!(response.number("X-Ratelimit-Remaining"), remaining);
    }
    let refused = client.get("/", &["X-Client: ann"]);
    assert_eq!((refused.status, is_local(&refused)), (429, true));
}

#[test]
fn without_its_store_a_gateway_admits_what_a_policy_wants_admitted() {
    let gateway = node(NOWHERE, "limit: 3/day, on_store_failure: allow");
    let mut client = gateway.client();
    assert_eq!(statuses(&mut client, "X-Client: ann"), [200; 9]);
}

#[test]
fn without_its_store_a_gateway_refuses_what_a_policy_wants_refused() {
    let gateway = node(NOWHERE, "limit: 3/day, on_store_failure: deny");
    let refused = gateway.client().get("/", &["X-Client: ann"]);
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
    // The second node has learned of the first at its start; the first learns of it later.
    let mut client = gateways[1].client();
    let admitted =
        statuses::<9>(&mut client, "X-Client: ann").iter().filter(|s| **s == 200).count();
    assert_eq!(admitted, 5);
}

#[test]
fn what_is_known_to_be_over_its_limit_stays_refused_when_the_store_goes() {
    let (_redis, wire, gateway) = wired("limit: 3/day");
    let mut client = gateway.client();
    assert_eq!(statuses(&mut client, "X-Client: ann"), [200, 200, 200, 429]);
    cut(&wire, &gateway);
    assert_eq!(statuses(&mut client, "X-Client: ann"), [429; 3]);
}

/// Regression: the refusal was forgotten after a second, and the share of the limit was
/// admitted.
#[test]
fn what_is_known_to_be_over_its_limit_stays_refused_for_as_long_as_the_store_is_away() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let store = format!("url: \"{}\", timeout: 2s", wire.url());
    let policies = "each: { key: \"header:x-client\", limit: 3/day }";
    let gateway = node_of(&store, policies, "[each]", 4);
    wait_for_store(&gateway);
    let mut client = gateway.client();
    assert_eq!(statuses(&mut client, "X-Client: ann"), [200, 200, 200, 429]);
    cut(&wire, &gateway);
    // A gateway repeats a refusal of Redis for up to 1.5 s after the last answer of Redis.
    thread::sleep(Duration::from_millis(1600));
    // The result is the same on every worker.
    for _ in 0..12 {
        let refused = gateway.client().get("/", &["X-Client: ann"]);
        assert_eq!((refused.status, is_local(&refused)), (429, true));
    }
    let other = gateway.client().get("/", &["X-Client: bob"]);
    assert_eq!((other.status, is_local(&other)), (200, true));
}

/// Regression: each outage gave the limit once more: 70 of 10 over six outages.
#[test]
fn however_often_the_store_goes_a_client_is_admitted_its_share_once() {
    let (_redis, wire, gateway) = wired("limit: 10/day");
    let mut client = gateway.client();
    let mut admitted = 0;
    for _outage in 0..6 {
        cut(&wire, &gateway);
        admitted +=
            statuses::<15>(&mut client, "X-Client: ann").iter().filter(|s| **s == 200).count();
        wire.set(Fault::None);
        wait_for_store(&gateway);
    }
    assert_eq!(admitted, 10);
    // Debts are finally reported, however short the store is available.
    eventually("the store knows of all", || {
        let response = client.get("/", &["X-Client: ann"]);
        response.status == 429 && !is_local(&response)
    });
}

/// Regression: the ban restarted when the store returned. With leases it did not apply at
/// once, because the store had just reported that there is none.
#[test]
fn a_ban_that_is_imposed_without_the_store_holds_at_once_and_is_told_for_what_is_left_of_it() {
    const BAN_S: u64 = 300;
    for mode in ["exact", "leased"] {
        let penalty = format!("penalty: {{ after: 3/minute, ban: {BAN_S}s }}");
        let policy = format!("limit: 20/s, store_mode: {mode}, {penalty}");
        let (redis, wire, gateway) = wired(&policy);
        let other = node(&format!("url: \"{}\"", redis.url()), &policy);
        wait_for_store(&other);
        let mut client = gateway.client();
        let mut elsewhere = other.client();
        assert_eq!(statuses(&mut client, "X-Client: ann"), [200; 2]);
        cut(&wire, &gateway);
        let is_banned = |client: &mut Client| {
            let response = client.get("/", &["X-Client: ann"]);
            (response.status == 429).then(|| response.number("Retry-After")).filter(|it| *it > 60)
        };
        eventually("it is banned", || is_banned(&mut client).is_some());
        let imposed = now();
        thread::sleep(Duration::from_millis(3100));
        assert!(is_banned(&mut client).is_some(), "{mode}: its limit has room again");
        let elapsed_s = imposed.elapsed().as_secs();
        wire.set(Fault::None);
        let mut wait_s = 0;
        eventually("the other gateway knows", || {
            // The requests are rare, so that the client is not refused for its limit.
            thread::sleep(Duration::from_millis(100));
            wait_s = is_banned(&mut elsewhere).unwrap_or(0);
            wait_s > 0
        });
        assert!(wait_s <= BAN_S + 1 - elapsed_s, "{mode}: {wait_s} s after {elapsed_s} s");
    }
}

#[test]
fn every_change_is_logged_once() {
    let (_redis, wire, gateway) = wired("limit: 1000/day");
    cut(&wire, &gateway);
    let mut client = gateway.client();
    assert_eq!(statuses(&mut client, "X-Client: ann"), [200; 50]);
    wire.set(Fault::None);
    wait_for_store(&gateway);
    let log = gateway.log();
    let warnings = log.lines().filter(|line| line.contains("WARN")).count();
    // The store is unavailable, and the reason if it was not known at once. Workers do not
    // log it separately.
    assert!((1..=2).contains(&warnings), "{log}");
    assert!(!log.contains("ERROR"), "{log}");
}

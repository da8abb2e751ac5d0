//! The limits over two gateways on one Redis equal those of one gateway.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use super::{PATIENT, node, node_of, wait_for_store};
use crate::support::load::is_local;
use crate::support::redis::{Options, Redis};
use crate::support::{Client, Gateway, Origin, eventually};

/// Two nodes on one Redis. The first one has created all shared data.
fn pair(redis: &Redis, policy: &str) -> [Gateway; 2] {
    [(); 2].map(|()| {
        let gateway = node(&format!("url: \"{}\"", redis.url()), policy);
        wait_for_store(&gateway);
        gateway
    })
}

/// Without a wait for the connection and the layout of counters, the gateway would judge
/// its first requests without the store.
#[test]
fn a_gateway_asks_its_store_from_the_first_request_on() {
    let redis = Redis::start(Options::default());
    let store = format!("url: \"{}\", {PATIENT}", redis.url());
    for _ in 0..3 {
        let gateway = node_of(&store, "each: { key: global, limit: 1M/day }", "[each]", 2);
        let mut clients = [(); 8].map(|()| gateway.client());
        for client in &mut clients {
            assert!(!is_local(&client.get("/", &[])));
        }
    }
}

#[test]
fn what_one_gateway_admits_counts_on_the_other() {
    let redis = Redis::start(Options::default());
    for algorithm in [
        "sliding_window",
        "sliding_window, buckets: 10",
        "sliding_log",
        "fixed_window",
        "token_bucket",
    ] {
        let gateways = pair(&redis, &format!("limit: 6/day, algorithm: {algorithm}"));
        let mut clients = gateways.each_ref().map(Gateway::client);
        let field = format!("X-Client: {}", algorithm.replace(", ", " "));
        for remaining in (0..6).rev() {
            let response = clients[remaining % 2].get("/", &[&field]);
            assert_eq!(response.status, 200, "{algorithm}");
            assert!(!is_local(&response));
            assert_eq!(response.number("X-Ratelimit-Remaining"), remaining as u64, "{algorithm}");
        }
        assert_eq!(clients.each_mut().map(|client| client.get("/", &[&field]).status), [429, 429]);
    }
}

#[test]
fn a_client_that_waits_as_one_gateway_says_is_admitted_by_the_other() {
    let redis = Redis::start(Options::default());
    for algorithm in ["sliding_window", "sliding_log", "fixed_window", "token_bucket"] {
        let gateways = pair(&redis, &format!("limit: 5/s, algorithm: {algorithm}"));
        let mut clients = gateways.each_ref().map(Gateway::client);
        let field = format!("X-Client: {algorithm}");
        let refused = (0..10_000).map(|turn| clients[turn % 2].get("/", &[&field]));
        let refused = refused.enumerate().find(|(_, response)| response.status == 429);
        let (turn, refused) = refused.expect("nobody is as slow as the limit");
        let wait_ms = refused.json()["retry-after-ms"].as_u64().expect("a number");
        thread::sleep(Duration::from_millis(wait_ms));
        let status = clients[(turn + 1) % 2].get("/", &[&field]).status;
        assert_eq!(status, 200, "{algorithm} after {wait_ms} ms");
    }
}

#[test]
fn a_request_that_one_policy_refuses_consumes_nothing_of_others() {
    let redis = Redis::start(Options::default());
    let store = format!("url: \"{}\", {PATIENT}", redis.url());
    let policies = "all: { key: global, limit: 5/day }, \
                    each: { key: \"header:x-client\", limit: 2/day }";
    let gateways = [(); 2].map(|()| node_of(&store, policies, "[all, each]", 2));
    gateways.iter().for_each(wait_for_store);
    let mut clients = gateways.each_ref().map(Gateway::client);
    let mut statuses =
        |field: &str| [0, 1, 0, 1].map(|node| clients[node].get("/", &[field]).status);
    assert_eq!(statuses("X-Client: ann"), [200, 200, 429, 429]);
    assert_eq!(statuses("X-Client: bob"), [200, 200, 429, 429]);
    assert_eq!(statuses("X-Client: eve"), [200, 429, 429, 429]);
}

#[test]
fn a_gateway_that_starts_again_finds_all_that_was_counted() {
    let redis = Redis::start(Options::default());
    let policy = "limit: 3/day";
    let [first, second] = pair(&redis, policy);
    assert_eq!([0; 2].map(|_| first.client().get("/", &["X-Client: ann"]).status), [200, 200]);
    drop((first, second));
    let [again, _] = pair(&redis, policy);
    let mut client = again.client();
    assert_eq!([0; 2].map(|_| client.get("/", &["X-Client: ann"]).status), [200, 429]);
}

#[test]
fn nothing_in_redis_identifies_the_clients() {
    let redis = Redis::start(Options::default());
    let [first, second] = pair(&redis, "limit: 3/day");
    for gateway in [&first, &second] {
        assert_eq!(gateway.client().get("/", &["X-Client: a-very-secret-name"]).status, 200);
    }
    for key in redis.cli(&["KEYS", "*"]).lines() {
        assert!(key.starts_with("tollgate:"), "{key} has no prefix");
        assert!(!key.contains("secret-name"), "{key}");
        let dump = redis.cli(&["DUMP", key]);
        assert!(!dump.contains("secret-name"), "{key}: {dump}");
    }
}

#[test]
fn a_gateway_with_another_secret_than_that_in_redis_says_so() {
    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    const WARNING: &str = "Redis has another secret than the configuration";
    let redis = Redis::start(Options::default());
    let [made, _] = pair(&redis, "limit: 10/day");
    let shared = redis.cli(&["GET", "tollgate:meta:secret"]);
    let with = |secret: &str| {
        let gateway =
            node(&format!("url: \"{}\", secret: \"{secret}\"", redis.url()), "limit: 10/day");
        wait_for_store(&gateway);
        gateway
    };
    let same = with(shared.trim());
    let other = with(SECRET);
    eventually("the log names the key", || {
        let log = other.log();
        log.contains(WARNING) && log.contains("key=tollgate:meta:secret")
    });
    let remaining = [&made, &same, &other].map(|gateway| {
        let response = gateway.client().get("/", &["X-Client: ann"]);
        response.field("X-Ratelimit-Remaining").map(str::to_owned)
    });
    assert_eq!(remaining.map(Option::unwrap_or_default), ["9", "8", "9"]);
    for gateway in [&made, &same, &other] {
        let log = gateway.log();
        assert!(!log.contains(SECRET) && !log.contains(shared.trim()), "{log}");
    }
    assert!(!made.log().contains(WARNING) && !same.log().contains(WARNING));
}

#[test]
fn gateways_with_other_prefixes_share_nothing() {
    let redis = Redis::start(Options::default());
    let clients = ["one", "two"].map(|prefix| {
        let gateway = node(&format!("url: \"{}\", prefix: {prefix}", redis.url()), "limit: 1/day");
        wait_for_store(&gateway);
        let mut client: Client = gateway.client();
        let statuses = [0; 2].map(|_| client.get("/", &["X-Client: ann"]).status);
        assert_eq!(statuses, [200, 429], "{prefix}");
        gateway
    });
    drop(clients);
    let keys = redis.cli(&["KEYS", "*"]);
    assert!(keys.lines().all(|key| key.starts_with("one:") || key.starts_with("two:")), "{keys}");
}

/// Two nodes that forward one request at a time to this origin.
fn one_at_a_time(redis: &Redis, origin: &Origin) -> [Gateway; 2] {
    let store = format!("store: {{ redis: {{ url: \"{}\", {PATIENT} }} }}", redis.url());
    [(); 2].map(|()| {
        let gateway =
            Gateway::limiting_with(origin, "key: ip, limit: 1, algorithm: concurrency", &store);
        let mut client = gateway.client();
        eventually("the gateway has its store", || {
            let response = client.get("/", &[]);
            response.status == 200 && !is_local(&response)
        });
        gateway
    })
}

/// An origin whose responses to a `POST` never end.
fn endless_for_posts() -> Origin {
    Origin::serving(|stream, read| {
        while let Some(request) = read() {
            let length = if request.line().starts_with("POST") { 9 } else { 2 };
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nok");
            let _ = stream.write_all(answer.as_bytes());
        }
    })
}

/// A client with a request in flight, as soon as the previous requests are known to have
/// ended.
fn in_flight(gateway: &Gateway) -> Client {
    let mut admitted = None;
    eventually("a request is in flight", || {
        let mut client = gateway.client();
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        if client.head().status == 200 {
            admitted = Some(client);
        }
        admitted.is_some()
    });
    admitted.expect("it is in flight")
}

#[test]
fn what_is_in_flight_on_one_gateway_counts_on_the_other() {
    let redis = Redis::start(Options::default());
    let origin = endless_for_posts();
    let [first, second] = one_at_a_time(&redis, &origin);
    let leaving = in_flight(&first);
    let mut client = second.client();
    assert_eq!(client.get("/", &[]).status, 429);
    drop(leaving);
    eventually("a unit is free", || client.get("/", &[]).status == 200);
}

#[test]
fn what_was_in_flight_on_a_gateway_that_crashed_is_free_after_a_while() {
    let redis = Redis::start(Options::default());
    let origin = endless_for_posts();
    let [first, second] = one_at_a_time(&redis, &origin);
    let _lost = in_flight(&first);
    first.signal("KILL");
    let mut client = second.client();
    assert_eq!(client.get("/", &[]).status, 429, "nobody knows yet");
    eventually("a unit is free", || client.get("/", &[]).status == 200);
}

/// The same happens if a master fails before its replica has received the units. A gateway
/// reports its units every five seconds.
#[test]
fn what_is_in_flight_is_told_again_to_a_store_that_has_lost_it() {
    let redis = Redis::start(Options::default());
    let origin = endless_for_posts();
    let [first, second] = one_at_a_time(&redis, &origin);
    let _held = in_flight(&first);
    redis.cli(&["FLUSHALL"]);
    let mut client = second.client();
    eventually("the unit is taken again", || client.get("/", &[]).status == 429);
    assert_eq!(client.get("/", &[]).status, 429, "and it stays so");
}

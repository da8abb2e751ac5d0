//! A Redis that closes connections, and a gateway whose process is paused. In both cases
//! the store has not failed.

use std::thread;
use std::time::Duration;

use super::{PATIENT, node, node_of, wait_for_store};
use crate::support::load::{Load, Plan, is_local};
use crate::support::redis::{Fault, Options, Redis, Wire};
use crate::support::{Gateway, eventually};

const DENY: &str = "each: { key: \"header:x-client\", limit: 1M/day, algorithm: fixed_window, \
                            on_store_failure: deny }";

fn close_all(redis: &Redis) {
    redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
}

fn denying(redis: &Redis, workers: usize) -> Gateway {
    let gateway = node_of(&format!("url: \"{}\", {PATIENT}", redis.url()), DENY, "[each]", workers);
    wait_for_store(&gateway);
    gateway
}

#[test]
fn no_request_fails_closed_because_redis_has_closed_idle_connections() {
    let redis = Redis::start(Options::default());
    let gateway = denying(&redis, 2);
    for round in 0..20 {
        close_all(&redis);
        let mut clients = [(); 8].map(|()| gateway.client());
        for client in &mut clients {
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Client: ann\r\n\r\n");
        }
        let statuses = clients.each_mut().map(|client| client.response("GET").status);
        assert_eq!(statuses, [200; 8], "round {round}");
    }
}

#[test]
fn no_request_fails_closed_while_redis_closes_connections_that_are_in_use() {
    let redis = Redis::start(Options::default());
    let gateway = denying(&redis, 2);
    let plan = Plan {
        addresses: vec![gateway.address()],
        connections: 8,
        path: "/",
        clients: 40,
        rest: Duration::from_millis(1),
    };
    let load = Load::start(&plan);
    for _ in 0..30 {
        thread::sleep(Duration::from_millis(50));
        close_all(&redis);
        // A call is sent again once, so a request must not meet two closed connections.
        load.settle();
    }
    let samples = load.stop();
    let failed = samples.iter().filter(|sample| sample.status != 200).count();
    assert_eq!(failed, 0, "of {}", samples.len());
}

#[test]
fn an_idle_gateway_connects_again_as_soon_as_redis_closes_its_connection() {
    let redis = Redis::start(Options::default());
    let gateway = denying(&redis, 1);
    let connections = || redis.cli(&["CLIENT", "LIST", "TYPE", "normal"]).lines().count();
    let before = connections();
    let begin = crate::support::now();
    const ROUNDS: u32 = 5;
    for _ in 0..ROUNDS {
        close_all(&redis);
        eventually("it has connected again", || connections() == before);
    }
    // Unused connections are checked once a second, which would be too late.
    assert!(begin.elapsed() < Duration::from_millis(400) * ROUNDS, "{:?}", begin.elapsed());
    drop(gateway);
}

/// The gateway's process is paused while Redis answers, for longer than a decision may
/// wait. The answer is read before the timeout is checked.
#[test]
fn an_answer_that_has_come_while_the_gateway_stood_still_decides() {
    const TIMEOUT: Duration = Duration::from_millis(400);
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let store = format!("url: \"{}\", timeout: {}ms", wire.url(), TIMEOUT.as_millis());
    let policy = "each: { key: \"header:x-client\", limit: 1000/day }";
    let gateway = node_of(&store, policy, "[each]", 1);
    wait_for_store(&gateway);
    wire.set(Fault::Delay(TIMEOUT / 2));
    let mut client = gateway.client();
    for round in 0..5 {
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Client: ann\r\n\r\n");
        // The request has been sent to Redis, and its answer is on the way.
        thread::sleep(TIMEOUT / 4);
        gateway.signal("STOP");
        thread::sleep(TIMEOUT * 2);
        gateway.signal("CONT");
        let response = client.response("GET");
        assert_eq!((response.status, is_local(&response)), (200, false), "round {round}");
    }
}

/// Under `local`, too, a closed idle connection is no reason to judge without the store, or
/// to count a request twice.
#[test]
fn a_request_that_a_closed_connection_did_not_send_is_judged_by_redis() {
    let redis = Redis::start(Options::default());
    let gateway = node(&format!("url: \"{}\"", redis.url()), "limit: 1000/day");
    wait_for_store(&gateway);
    let mut client = gateway.client();
    for asked in 1..=20 {
        close_all(&redis);
        let response = client.get("/", &["X-Client: ann"]);
        assert!(!is_local(&response), "request {asked}");
        assert_eq!(response.number("X-Ratelimit-Remaining"), 1000 - asked);
    }
}

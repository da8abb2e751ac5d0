//! Reports to Redis when it is available again: the units that were admitted meanwhile, and
//! the costs that responses stated. Each is reported once and completely.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::outages::{cut, statuses, wired};
use super::{node, wait_for_store};
use crate::support::load::is_local;
use crate::support::redis::{Fault, Options, Redis, Wire};
use crate::support::{Client, Gateway, Origin, eventually, now};

/// The store is available for a moment, in which it gets no report, or fails during a
/// report.
#[test]
fn debts_outlive_a_store_that_comes_and_goes() {
    let (_redis, wire, gateway) = wired("limit: 1000/day, algorithm: fixed_window");
    let mut client = gateway.client();
    let mut admitted = 0;
    for outage in 0..10 {
        cut(&wire, &gateway);
        admitted +=
            statuses::<20>(&mut client, "X-Client: ann").iter().filter(|s| **s == 200).count();
        wire.set(Fault::None);
        thread::sleep(Duration::from_millis(40 * outage));
    }
    wait_for_store(&gateway);
    let mut counted = 0;
    let mut asked = 0;
    eventually("the store knows of almost all", || {
        let response = client.get("/", &["X-Client: ann"]);
        asked += 1;
        counted = 1000 - response.number("X-Ratelimit-Remaining");
        thread::sleep(Duration::from_millis(20));
        // A debt that is in progress when the wire is cut is lost: that of one outage in
        // ten.
        !is_local(&response) && counted + 60 >= asked + u64::try_from(admitted).expect("few")
    });
    assert!(counted <= asked + u64::try_from(admitted).expect("few"), "{counted} of {admitted}");
}

/// Regression: each probe finds such a store available, and debts were lost in the report
/// to it.
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
        let response = client.get("/", &["X-Client: ann"]);
        assert_eq!((response.status, is_local(&response)), (200, true));
        admitted += 1;
        thread::sleep(Duration::from_millis(20));
    }
    // No requests are sent: a probe finds the store, and then the node reports.
    thread::sleep(Duration::from_secs(3));
    memory("0");
    wait_for_store(&gateway);
    eventually("the store has counted all", || {
        let response = client.get("/", &["X-Client: ann"]);
        admitted += 1;
        thread::sleep(Duration::from_millis(20));
        !is_local(&response) && response.number("X-Ratelimit-Remaining") == 1000 - admitted
    });
}

/// A gateway that reserves so many units for a request. The response to `/held/N` states the cost N,
/// and ends when `ends` is set. Other requests cost nothing in the end.
fn metering(wire: &Wire, ends: &Arc<AtomicBool>, reserve: u64) -> Gateway {
    let ends = Arc::clone(ends);
    let origin = Origin::serving(move |stream, read| {
        while let Some(request) = read() {
            let path = request.line().split(' ').nth(1).unwrap_or_default().to_owned();
            let held = path.strip_prefix("/held/");
            let cost = held.unwrap_or("0");
            let head = format!("HTTP/1.1 200 OK\r\nX-Tokens: {cost}\r\nContent-Length: 2\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(b"o"));
            while held.is_some() && !ends.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(2));
            }
            let _ = stream.write_all(b"k");
        }
    });
    let cost = format!("cost: {{ reserve: {reserve}, settle: {{ header: x-tokens }} }}");
    let policy =
        format!("key: \"header:x-client\", limit: 100000/day, algorithm: fixed_window, {cost}");
    let top =
        format!("store: {{ redis: {{ url: \"{}\" }} }}\nruntime: {{ workers: 1 }}", wire.url());
    Gateway::limiting_with(&origin, &policy, &top)
}

/// Waits until the gateway judges other requests with its store, or without it.
fn wait_for(gateway: &Gateway, alone: bool) {
    let mut client = gateway.client();
    eventually("the gateway has seen it", || {
        is_local(&client.get("/", &["X-Client: bob"])) == alone
    });
}

/// Regression: of the reserved 10 units and the cost of 50,000, only the 10 were counted.
fn settles_what_it_has_cost(begins_alone: bool) {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let ends = Arc::new(AtomicBool::new(false));
    let gateway = metering(&wire, &ends, 10);
    wait_for(&gateway, false);
    if begins_alone {
        wire.set(Fault::Cut);
        wait_for(&gateway, true);
    }
    let mut large = gateway.client();
    large.send(b"GET /held/50000 HTTP/1.1\r\nHost: a\r\nX-Client: ann\r\n\r\n");
    thread::sleep(Duration::from_millis(100));
    wire.set(if begins_alone { Fault::None } else { Fault::Cut });
    wait_for(&gateway, !begins_alone);
    // The debt of the reservation has been reported by now.
    thread::sleep(Duration::from_millis(300));
    ends.store(true, Ordering::Relaxed);
    assert_eq!(large.response("GET").status, 200);
    wire.set(Fault::None);
    wait_for(&gateway, false);
    let mut client = gateway.client();
    eventually("the store knows what it has cost", || {
        let response = client.get("/", &["X-Client: ann"]);
        !is_local(&response) && response.number("X-Ratelimit-Remaining") == 50_000 - 10
    });
}

/// Regression: such units stayed charged until the end of the day.
#[test]
fn what_a_response_has_not_cost_is_given_back_though_it_ends_while_the_store_is_away() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let ends = Arc::new(AtomicBool::new(false));
    let gateway = metering(&wire, &ends, 4000);
    wait_for(&gateway, false);
    let mut held = [(); 5].map(|()| gateway.client());
    for client in &mut held {
        client.send(b"GET /held/100 HTTP/1.1\r\nHost: a\r\nX-Client: ann\r\n\r\n");
        assert!(!is_local(&client.head()), "the store has counted the reservation");
    }
    wire.set(Fault::Cut);
    wait_for(&gateway, true);
    ends.store(true, Ordering::Relaxed);
    for client in &mut held {
        assert_eq!(client.exactly(2), b"ok");
    }
    wire.set(Fault::None);
    wait_for(&gateway, false);
    let mut client = gateway.client();
    eventually("the store knows what they have cost", || {
        let response = client.get("/", &["X-Client: ann"]);
        !is_local(&response) && response.number("X-Ratelimit-Remaining") == 100_000 - 500 - 4000
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
fn units_that_were_admitted_without_the_store_are_reported_to_it() {
    let (_redis, wire, gateway) = wired("limit: 1000/day, algorithm: fixed_window");
    let mut client = gateway.client();
    let mut admitted = 0;
    let mut ask = |client: &mut Client| {
        let response = client.get("/", &["X-Client: ann"]);
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

/// The first question after an outage finds what was admitted meanwhile.
#[test]
fn a_debt_is_reported_before_the_first_question_about_its_client() {
    for mode in ["exact", "leased", "write_back"] {
        let policy = format!("limit: 20/day, algorithm: fixed_window, store_mode: {mode}");
        let (_redis, wire, gateway) = wired(&policy);
        let mut client = gateway.client();
        let mut admitted = 0;
        let mut ask = || {
            let response = client.get("/", &["X-Client: ann"]);
            admitted += u32::from(response.status == 200);
            (response, admitted)
        };
        (0..10).for_each(|_| drop(ask()));
        // In `write_back` a report that is under way at the cut is not sent again.
        thread::sleep(Duration::from_millis(1500));
        cut(&wire, &gateway);
        while ask().0.status == 200 {}
        wire.set(Fault::None);
        let begun = now();
        eventually("Redis refuses", || {
            let (response, _) = ask();
            !is_local(&response)
                && response.status == 429
                && begun.elapsed() > Duration::from_secs(2)
        });
        assert!(ask().1 <= 20, "{mode}: {admitted}");
    }
}

/// Units that Redis has counted are not lost.
#[test]
fn what_a_gateway_has_admitted_alone_and_not_told_is_lost_when_it_crashes() {
    let policy = "limit: 1000/day, algorithm: fixed_window";
    let (redis, wire, gateway) = wired(policy);
    let mut client = gateway.client();
    assert_eq!(statuses(&mut client, "X-Client: ann"), [200; 4]);
    cut(&wire, &gateway);
    assert_eq!(statuses(&mut client, "X-Client: ann"), [200; 6]);
    gateway.signal("KILL");
    wire.set(Fault::None);
    let other = node(&format!("url: \"{}\"", redis.url()), policy);
    wait_for_store(&other);
    let response = other.client().get("/", &["X-Client: ann"]);
    assert_eq!(response.number("X-Ratelimit-Remaining"), 1000 - 4 - 1);
}

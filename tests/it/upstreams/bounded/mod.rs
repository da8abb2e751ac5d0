//! Upstreams with `max_connections`, and the queue of the requests that wait for a connection.

mod counting;
mod protocols;
mod queue;
mod sockets;

use std::fmt::Write as _;
use std::time::Duration;

use counting::Counting;

use crate::support::{Client, Gateway, Origin, admin_text, eventually, now};

const TOKEN: &str = "metrics-0123456789abcdef";
const ONE_WORKER: &str = "runtime: { workers: 1 }";
const TWO_WORKERS: &str = "runtime: { workers: 2 }";

fn yaml(endpoints: &[String], upstream: &str, route: &str, top: &str) -> String {
    let mut list = String::new();
    for endpoint in endpoints {
        write!(list, "{endpoint:?}, ").expect("a string takes everything");
    }
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [{list}], {upstream} }} }}\n\
         routes: [{{ path: \"/*\", upstream: app, {route} }}]\n\
         client: {{ trusted_proxies: [127.0.0.0/8] }}\n\
         admin: {{ address: \"127.0.0.1:0\", hosts: [gateway.test], \
                   tokens: [{{ name: m, role: read, token: {TOKEN} }}] }}\n\
         {top}\n"
    )
}

fn gateway(origin: &Counting, upstream: &str, top: &str) -> Gateway {
    Gateway::start(&yaml(&[origin.url()], upstream, "", top))
}

/// The value of a series. None: there is none.
fn series(gateway: &Gateway, name: &str) -> Option<f64> {
    let credential = format!("Authorization: Bearer {TOKEN}");
    let text = admin_text(gateway.addresses()[1], "/metrics", &credential);
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn waiting(gateway: &Gateway) -> Option<f64> {
    series(gateway, "tollgate_upstream_waiting{upstream=\"app\"}")
}

/// Waits until so many requests wait for a connection.
fn until_waiting(gateway: &Gateway, count: u32) {
    eventually("so many requests wait", || waiting(gateway) == Some(f64::from(count)));
}

/// Sends a request of the client at this address, and does not read the response.
fn asking(gateway: &Gateway, path: &str, address: &str) -> Client {
    let mut client = gateway.client();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {address}\r\n\r\n");
    client.send(request.as_bytes());
    client
}

/// 500 clients at once, on two workers, and never more than 10 connections.
#[test]
fn connections_are_bounded_and_all_requests_are_answered() {
    let origin = Counting::answering(10, Duration::from_millis(2));
    let fields = "max_connections: 10, queue: { length: 1000, timeout: 60s }";
    let gateway = gateway(&origin, fields, TWO_WORKERS);
    let mut clients: Vec<_> = (0..500).map(|_| gateway.client()).collect();
    for _ in 0..3 {
        clients.iter_mut().for_each(|client| client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
    }
    assert!(!origin.is_exceeded());
    assert_eq!(origin.requests().len(), 1500);
    assert_eq!(waiting(&gateway), Some(0.0));
    let open = series(&gateway, "tollgate_upstream_open_connections{upstream=\"app\"}");
    assert!(open.is_some_and(|open| (1.0..=10.0).contains(&open)), "{open:?}");
    let waited = series(&gateway, "tollgate_upstream_queue_seconds_count{upstream=\"app\"}");
    assert!(waited.is_some_and(|waited| waited >= 490.0), "{waited:?}");
}

/// Requests for which there is no room are refused, and the others are answered.
#[test]
fn a_full_queue_refuses_at_once() {
    let origin = Counting::gated(2);
    let fields = "max_connections: 2, queue: { length: 3, timeout: 60s }";
    let gateway = gateway(&origin, fields, TWO_WORKERS);
    let mut first: Vec<_> = (0..2).map(|_| asking(&gateway, "/a", "192.0.2.1")).collect();
    eventually("both connections are in use", || origin.requests().len() == 2);
    first.extend((0..3).map(|_| asking(&gateway, "/b", "192.0.2.1")));
    until_waiting(&gateway, 3);
    let refused = asking(&gateway, "/c", "192.0.2.2").response("GET");
    assert_eq!(refused.status, 503);
    assert!(refused.number("Retry-After") >= 1);
    let detail = "all connections to the upstream are in use, and too many requests wait for one";
    assert_eq!(
        (&refused.json()["detail"], &refused.json()["source"]),
        (&detail.into(), &"upstream".into())
    );
    let credential = format!("Authorization: Bearer {TOKEN}");
    eventually("the status has a reason", || {
        admin_text(gateway.addresses()[1], "/v1/status", &credential)
            .contains("upstream_queue_refuses")
    });
    origin.open();
    first.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
    assert!(!origin.is_exceeded());
    let refusals = "tollgate_upstream_queue_refused_total{cause=\"full\",upstream=\"app\"}";
    assert_eq!(series(&gateway, refusals), Some(1.0));
    let lines = gateway.access_lines(6);
    assert!(lines.iter().any(|line| line["outcome"] == "upstream_queue_full"), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line["queue_us"].as_u64() > Some(0)).count(), 3);
}

#[test]
fn a_request_waits_no_longer_than_the_queue_allows() {
    let origin = Counting::gated(1);
    let fields = "max_connections: 1, queue: { timeout: 200ms }";
    let gateway = gateway(&origin, fields, ONE_WORKER);
    let mut first = asking(&gateway, "/a", "192.0.2.1");
    eventually("the connection is in use", || origin.requests().len() == 1);
    let begun = now();
    let refused = asking(&gateway, "/b", "192.0.2.1").response("GET");
    assert!(now() - begun >= Duration::from_millis(200));
    assert_eq!(refused.status, 503);
    assert!(refused.number("Retry-After") >= 1);
    assert_eq!(refused.json()["detail"], "no connection to the upstream became free in time");
    origin.open();
    assert_eq!(first.response("GET").status, 200);
    let refusals = "tollgate_upstream_queue_refused_total{cause=\"timeout\",upstream=\"app\"}";
    assert_eq!(series(&gateway, refusals), Some(1.0));
    let lines = gateway.access_lines(2);
    let refused = lines.iter().find(|line| line["outcome"] == "upstream_queue_timeout");
    let waited = refused.and_then(|line| line["queue_us"].as_u64());
    assert!(waited.is_some_and(|us| us >= 200_000), "{lines:?}");
    assert!(gateway.log().contains("max_connections"), "{}", gateway.log());
}

/// The time in the queue is a part of the time of the request.
#[test]
fn the_time_of_the_route_includes_the_queue() {
    let origin = Counting::gated(1);
    let fields = "max_connections: 1, queue: { timeout: 60s }";
    let route = "timeouts: { request: 300ms }";
    let yaml = yaml(&[origin.url()], fields, route, ONE_WORKER);
    // The first request has no such bound, and holds the connection.
    let yaml = yaml.replace("routes: [", "routes: [{ path: /a, upstream: app }, ");
    let gateway = Gateway::start(&yaml);
    let _first = asking(&gateway, "/a", "192.0.2.1");
    eventually("the connection is in use", || origin.requests().len() == 1);
    let second = asking(&gateway, "/b", "192.0.2.1").response("GET");
    assert_eq!(second.status, 504);
    until_waiting(&gateway, 0);
    assert_eq!(origin.requests(), ["/a"]);
}

/// An idle connection of another worker is closed for a request that waits.
#[test]
fn an_idle_connection_of_another_worker_starves_no_request() {
    let origin = Counting::answering(1, Duration::ZERO);
    let fields = "max_connections: 1, queue: { timeout: 20s }";
    let gateway = gateway(&origin, fields, TWO_WORKERS);
    for _ in 0..60 {
        assert_eq!(asking(&gateway, "/", "192.0.2.1").response("GET").status, 200);
    }
    assert!(!origin.is_exceeded());
}

#[test]
fn a_reload_changes_the_number_and_connections_that_are_open_still_count() {
    let origin = Counting::gated(3);
    let queue = "queue: { timeout: 60s }";
    let of = |max: u32| {
        let fields = format!("max_connections: {max}, {queue}");
        yaml(&[origin.url()], &fields, "", TWO_WORKERS)
    };
    let gateway = Gateway::start(&of(1));
    let mut clients = vec![asking(&gateway, "/1", "192.0.2.1")];
    eventually("the connection is in use", || origin.requests().len() == 1);
    clients.extend((0..5).map(|_| asking(&gateway, "/2", "192.0.2.1")));
    until_waiting(&gateway, 5);
    gateway.reload(&of(3));
    eventually("two more connections are in use", || origin.requests().len() == 3);
    until_waiting(&gateway, 3);
    clients.push(asking(&gateway, "/3", "192.0.2.1"));
    until_waiting(&gateway, 4);
    gateway.reload(&of(2));
    origin.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
    for _ in 0..10 {
        assert_eq!(asking(&gateway, "/4", "192.0.2.1").response("GET").status, 200);
    }
    assert!(!origin.is_exceeded());
    let open = series(&gateway, "tollgate_upstream_open_connections{upstream=\"app\"}");
    assert!(open.is_some_and(|open| open <= 2.0), "{open:?}");
}

/// Regression: the number of a configuration that could not run stayed in force until a restart.
#[test]
fn a_reload_that_fails_changes_no_number() {
    let origin = Counting::gated(3);
    let queue = "queue: { timeout: 60s }";
    let of = |max: u32| {
        let fields = format!("max_connections: {max}, {queue}");
        yaml(&[origin.url()], &fields, "", TWO_WORKERS)
    };
    let gateway = Gateway::start(&of(3));
    let mut clients = vec![asking(&gateway, "/1", "192.0.2.1")];
    eventually("the connection is in use", || origin.requests().len() == 1);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound");
    let more = format!("listeners: [{{ address: \"{address}\" }}, {{");
    gateway.rewrite(&of(1).replacen("listeners: [{", &more, 1));
    eventually("it is refused", || gateway.log().contains("another program has this port"));
    clients.push(asking(&gateway, "/2", "192.0.2.1"));
    eventually("another connection is in use", || origin.requests().len() == 2);
    gateway.reload(&of(3));
    clients.push(asking(&gateway, "/3", "192.0.2.1"));
    eventually("three connections are in use", || origin.requests().len() == 3);
    clients.push(asking(&gateway, "/4", "192.0.2.1"));
    until_waiting(&gateway, 1);
    origin.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
    assert!(!origin.is_exceeded());
}

/// A number of connections that the process cannot have is in the log.
#[test]
fn more_connections_than_files_are_warned_of() {
    let gateway = Gateway::with_files(256, &Origin::hello(), "max_connections: 5000");
    eventually("the log warns", || {
        gateway.log().contains("max_connections of upstreams adds up to 5000")
    });
}

/// The reload with the number itself warns, and not the one after it.
#[test]
fn a_reload_warns_of_more_connections_than_files() {
    let gateway = Gateway::with_files(256, &Origin::hello(), "max_connections: 10");
    let yaml = std::fs::read_to_string(gateway.file()).expect("a file");
    let yaml = yaml.replace("max_connections: 10", "max_connections: 6000");
    std::fs::write(gateway.file(), yaml).expect("a file");
    eventually("the gateway reloads", || gateway.log().contains(" reloaded file="));
    let log = gateway.log();
    assert!(log.contains("max_connections of upstreams adds up to 6000"), "{log}");
}

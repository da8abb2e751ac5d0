//! Connections that are idle between two requests: after a second they keep little memory, and
//! clients notice nothing of that.

use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use crate::support::{Client, Gateway, eventually};

/// A time after which an idle connection has given back its memory.
const RESTED: Duration = Duration::from_millis(1500);

/// A gateway that responds with `ok`, and looks at its connections every 50 ms.
fn answering(timeouts: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", \
           timeouts: {{ request_head: 200ms, {timeouts} }} }}]\n\
         routes: [{{ path: \"/*\", respond: {{ body: ok }} }}]\n\
         runtime: {{ workers: 1 }}\n"
    ))
}

/// A client whose connection is idle, and keeps little memory.
fn rested(gateway: &Gateway) -> Client {
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    thread::sleep(RESTED);
    client
}

#[test]
fn an_idle_connection_takes_little_memory() {
    const CONNECTIONS: usize = 1000;
    let gateway = answering("");
    let before_kib = gateway.private_kib();
    let mut clients = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let mut client = gateway.client();
        assert_eq!(client.get("/", &[]).status, 200);
        clients.push(client);
    }
    // It was 29 KiB when the HTTP library kept its buffers. docs/performance.md has what it is in
    // a release build.
    eventually("the connections give back their memory", || {
        gateway.private_kib().saturating_sub(before_kib) < 8 * CONNECTIONS
    });
    for client in clients.iter_mut().take(20) {
        assert_eq!(client.get("/", &[]).status, 200);
    }
}

/// The table of counters has room for a million keys. It takes memory as keys come.
#[test]
fn a_gateway_starts_small() {
    let gateway = answering("");
    assert!(gateway.private_kib() < 8 * 1024, "{} KiB", gateway.private_kib());
}

#[test]
fn further_requests_are_answered_however_they_arrive() {
    let gateway = answering("");
    let [mut whole, mut split, mut two, mut bad] = [0; 4].map(|_| {
        let mut client = gateway.client();
        assert_eq!(client.get("/", &[]).status, 200);
        client
    });
    thread::sleep(RESTED);
    assert_eq!(whole.get("/", &[]).status, 200);
    assert_eq!(whole.get("/", &[]).status, 200);
    two.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!([0; 2].map(|_| two.response("GET").status), [200; 2]);
    split.send(b"GET / HT");
    assert_eq!(split.response("GET").status, 408);
    bad.send(b"GET / HTTP/9\r\n\r\n");
    assert_eq!(bad.response("GET").status, 400);
    thread::sleep(RESTED);
    assert_eq!(whole.get("/", &[]).status, 200);
}

#[test]
fn an_idle_connection_ends_with_its_client_or_in_time() {
    let gateway = answering("keep_alive: 2s");
    let mut leaving = rested(&gateway);
    let mut silent = gateway.client();
    assert_eq!(silent.get("/", &[]).status, 200);
    leaving.shutdown(Shutdown::Write);
    assert!(leaving.is_closed());
    assert!(silent.is_closed());
}

#[test]
fn a_drain_closes_an_idle_connection_after_its_last_request() {
    let mut gateway = answering("");
    let [mut silent, mut asking] = [0; 2].map(|_| rested(&gateway));
    gateway.terminate();
    thread::sleep(Duration::from_millis(200));
    let last = asking.get("/", &[]);
    assert_eq!((last.status, last.field("connection")), (200, Some("close")));
    assert!(asking.is_closed() && silent.is_closed());
    assert_eq!(gateway.wait().code(), Some(0));
}

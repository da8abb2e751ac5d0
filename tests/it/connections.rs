//! Connections of clients: bounded in time and number, and none at the cost of others.

use std::io;
use std::io::Write as _;
use std::thread;

use crate::support::{Client, Gateway, Origin, PATIENCE, eventually};

/// Answers `ok` itself; `listener` has more fields of the listener.
fn answering(listener: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", {listener} }}]\n\
         routes: [{{ path: \"/*\", respond: {{ body: ok }} }}]\n\
         runtime: {{ workers: 1 }}\n"
    ))
}

#[test]
fn a_head_that_does_not_come_in_time_is_given_up() {
    let gateway = answering("timeouts: { request_head: 200ms }");
    for beginning in ["GET / HT", "GET / HTTP/1.1\r\nHost: a\r\nX-Half: "] {
        let mut client = gateway.client();
        client.send(beginning.as_bytes());
        assert_eq!(client.response("GET").status, 408, "{beginning:?}");
        assert!(client.is_closed());
    }
}

/// Each byte comes soon after the one before, but the head never ends.
#[test]
fn a_head_that_trickles_is_given_up_as_well() {
    let gateway = answering("timeouts: { request_head: 200ms }");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: ");
    for _ in 0..100 {
        client.send(b"x");
        thread::sleep(PATIENCE / 2000);
    }
    assert_eq!(client.response("GET").status, 408);
    assert!(client.is_closed());
}

#[test]
fn a_second_head_has_the_same_time_as_the_first() {
    let gateway = answering("timeouts: { request_head: 200ms }");
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    client.send(b"GET / HT");
    assert_eq!(client.response("GET").status, 408);
    assert!(client.is_closed());
}

/// It once had the time of an idle connection instead.
#[test]
fn a_head_behind_another_request_has_the_same_time() {
    let gateway = answering("timeouts: { request_head: 200ms, keep_alive: 1h }");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT");
    assert_eq!(client.response("GET").status, 200);
    assert_eq!(client.response("GET").status, 408);
    assert!(client.is_closed());
}

#[test]
fn a_connection_that_waits_for_too_long_is_closed() {
    let gateway = answering("timeouts: { keep_alive: 200ms }");
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    assert!(client.is_closed());
}

/// Nobody asked for anything, so nobody is answered.
#[test]
fn a_connection_on_which_nothing_ever_comes_is_closed() {
    let gateway = answering("timeouts: { request_head: 200ms }");
    let mut client = gateway.client();
    assert_eq!(client.rest(), b"");
}

#[test]
fn time_spent_on_a_request_is_not_idle() {
    let origin = Origin::serving(|stream, read| {
        while read().is_some() {
            thread::sleep(PATIENCE / 40);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
            thread::sleep(PATIENCE / 40);
            let _ = stream.write_all(b"ok");
        }
    });
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", \
           timeouts: {{ request_head: 200ms, keep_alive: 200ms }} }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\n",
        origin.address()
    ));
    let response = gateway.client().get("/", &[]);
    assert_eq!((response.status, response.text().as_str()), (200, "ok"));
}

#[test]
fn connections_beyond_the_bound_wait_for_their_turn() {
    let gateway = answering("max_connections: 1");
    let mut first = gateway.client();
    assert_eq!(first.get("/", &[]).status, 200);
    let mut second = gateway.client();
    let mut third = gateway.client();
    for client in [&mut second, &mut third] {
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }
    assert_eq!(first.get("/", &[]).status, 200, "whoever is in is served");
    drop(first);
    for client in [&mut second, &mut third] {
        assert_eq!(client.response("GET").status, 200);
    }
}

#[test]
fn thousands_of_idle_connections_cost_the_others_nothing() {
    let gateway = answering("timeouts: { request_head: 1h }");
    let idle: io::Result<Vec<Client>> =
        (0..2000).map(|_| Client::try_connect(gateway.address())).collect();
    let idle = idle.expect("`ulimit -n` is at least 4096");
    let mut client = gateway.client();
    for _ in 0..10 {
        assert_eq!(client.get("/", &[]).status, 200);
    }
    assert_eq!(idle.len(), 2000);
}

/// They take all that they may, which is not all that there is.
#[test]
fn a_crowd_leaves_files_for_what_others_ask() {
    let origin = Origin::hello();
    let gateway = Gateway::with_files(256, &origin, "");
    eventually("the log says so", || gateway.log().contains("room for 132 clients"));
    let mut first = gateway.client();
    let crowd: Vec<Client> = (0..600).map(|_| gateway.client()).collect();
    eventually("as many have come as may", || gateway.open_files() > 132);
    // None of its connections to the origin is there yet.
    assert_eq!(first.get("/", &[]).status, 200);
    assert!(!gateway.log().contains("cannot accept"), "{}", gateway.log());
    drop(crowd);
    assert_eq!(gateway.client().get("/", &[]).status, 200);
}

#[test]
fn thousands_of_requests_fit_one_connection() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    for _ in 0..3000 {
        assert_eq!(client.get("/", &[]).text(), "hello");
    }
}

#[test]
fn a_client_that_asks_to_close_is_closed() {
    let gateway = answering("");
    let mut client = gateway.client();
    let response = client.get("/", &["Connection: close"]);
    assert_eq!(response.status, 200);
    assert!(client.is_closed());
}

/// Its responses fill every buffer on the way; the others are served all the same.
#[test]
fn a_client_that_reads_nothing_slows_nobody() {
    let origin = Origin::serving(|stream, read| {
        while read().is_some() {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n";
            let mut written = stream.write_all(head);
            for _ in 0..100 {
                written = written.and_then(|()| stream.write_all(&[b'x'; 1_000_000]));
            }
        }
    });
    let gateway = Gateway::forwarding(&origin, "", "", "runtime: { workers: 1 }");
    let mut greedy = gateway.client();
    greedy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(greedy.head().status, 200);
    let mut other = gateway.client();
    other.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(other.head().status, 200);
}

/// A refused client may be about to send more than anybody wants to read.
#[test]
fn a_refused_upload_is_answered_though_nobody_reads_it() {
    let gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         policies: { p: { key: ip, limit: 1/day } }\n\
         routes: [{ path: \"/*\", policies: [p], respond: { body: ok } }]\n",
    );
    assert_eq!(gateway.client().get("/", &[]).status, 200);
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n");
    let sent = client.try_send(&vec![b'x'; 50_000_000]);
    assert_eq!(client.response("POST").status, 429);
    // A reset could take the answer away before it has been read.
    assert!(sent.is_ok(), "{sent:?}");
}

#[test]
fn a_refused_request_with_a_small_body_keeps_its_connection() {
    let gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         policies: { p: { key: ip, limit: 1/day } }\n\
         routes: [{ path: \"/*\", policies: [p], respond: { body: ok } }]\n",
    );
    let mut client = gateway.client();
    assert_eq!(client.request("POST", "/", &[], b"small").status, 200);
    for _ in 0..3 {
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nsmall");
        assert_eq!(client.response("POST").status, 429);
    }
}

/// A client that asked for much and reads nothing once kept its place at the
/// upstream for ever, and the others out.
#[test]
fn a_client_that_does_not_read_gives_up_its_place() {
    let origin = Origin::serving(|stream, read| {
        let endless = read().is_some_and(|request| request.line().contains("/endless"));
        let head = if endless { "" } else { "Content-Length: 0\r\n" };
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n");
        while endless && stream.write_all(&[b'x'; 64 * 1024]).is_ok() {}
    });
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", timeouts: {{ request_body: 200ms }} }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"], max_in_flight: 1 }} }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\n\
         runtime: {{ workers: 1 }}\n",
        origin.address()
    ));
    let mut deaf = gateway.client();
    deaf.send(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(deaf.head().status, 200);
    assert_eq!(gateway.client().get("/", &[]).status, 503);
    eventually("the deaf client's place is free", || gateway.client().get("/", &[]).status == 200);
}

//! Connections to origins: kept, reused, found closed; and the choice of the endpoint.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use crate::support::{Gateway, Origin, PATIENCE, eventually};

const ONE_WORKER: &str = "runtime: { workers: 1 }";

/// An origin that responds to one request on each connection, closes it without having
/// announced it, and counts the closed connections.
fn closing_after_one() -> (Origin, Arc<AtomicUsize>) {
    let closed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&closed);
    let origin = Origin::serving(move |stream, read| {
        if read().is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
            let _ = stream.shutdown(std::net::Shutdown::Both);
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (origin, closed)
}

#[test]
fn a_connection_serves_many_requests() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", ONE_WORKER);
    for _ in 0..3 {
        let mut client = gateway.client();
        for _ in 0..20 {
            assert_eq!(client.get("/", &[]).status, 200);
            assert_eq!(client.request("POST", "/", &[], b"body").status, 200);
        }
    }
    assert_eq!(origin.received().len(), 120);
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_connection_is_not_kept_if_max_idle_is_zero() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "keep_alive: { max_idle: 0 }", ONE_WORKER);
    let mut client = gateway.client();
    for _ in 0..3 {
        assert_eq!(client.get("/", &[]).status, 200);
    }
    assert_eq!(origin.connections(), 3);
}

/// Regression: 256 connections were kept, and clients above that number paid for a new connection
/// with most of their requests.
#[test]
fn as_many_connections_are_kept_as_were_used_at_once() {
    const CLIENTS: usize = 300;
    let all_are_there = Arc::new(Barrier::new(CLIENTS));
    let origin = Origin::answering(move |_| {
        all_are_there.wait();
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned()
    });
    // Of so many connections at once some take their time on a busy machine.
    let gateway = Gateway::forwarding(&origin, "", "timeouts: { connect: 30s }", ONE_WORKER);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| gateway.client()).collect();
    let mut opened_by_a_round = || {
        let before = origin.connections();
        let request = b"GET / HTTP/1.1\r\nHost: gateway.test\r\n\r\n";
        clients.iter_mut().for_each(|client| client.send(request));
        clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
        origin.connections() - before
    };
    assert_eq!(opened_by_a_round(), CLIENTS);
    // A round that takes seconds on a busy machine finds some of them closed for their age.
    let opened: Vec<_> = (0..10).map(|_| opened_by_a_round()).take_while(|it| *it > 0).collect();
    assert!(opened.len() < 10, "each round opened connections: {opened:?}");
}

#[test]
fn a_connection_that_the_origin_closes_is_not_used_again() {
    let origin = Origin::serving(|stream, read| {
        if read().is_some() {
            let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
            let _ = stream.write_all(answer);
            // A request that arrived now would be lost.
            let _ = read();
        }
    });
    let gateway = Gateway::forwarding(&origin, "", "", ONE_WORKER);
    let mut client = gateway.client();
    for _ in 0..5 {
        let response = client.request("POST", "/", &[], b"body");
        assert_eq!((response.status, response.field("Connection")), (200, None));
    }
    assert_eq!((origin.received().len(), origin.connections()), (5, 5));
}

/// An idle connection may be closed at any time. No client gets an error for it.
#[test]
fn a_closed_idle_connection_fails_no_request() {
    let (origin, closed) = closing_after_one();
    let gateway = Gateway::forwarding(&origin, "", "", ONE_WORKER);
    let mut client = gateway.client();
    for (index, method) in ["GET", "GET", "POST", "POST", "PUT", "DELETE"].iter().enumerate() {
        let body: &[u8] = if *method == "POST" { b"body" } else { b"" };
        let response = client.request(method, "/", &[], body);
        assert_eq!((response.status, response.text().as_str()), (200, "hello"), "{method} {index}");
        eventually("the origin closes", || closed.load(Ordering::SeqCst) == index + 1);
    }
    assert_eq!(origin.received().len(), 6, "nothing was sent twice");
}

/// The origin reads a second request on the idle connection and closes it without a
/// response. Only idempotent requests are sent again.
#[test]
fn only_idempotent_requests_are_sent_again() {
    for (method, status, received) in [("GET", 200, 3), ("POST", 502, 2)] {
        let first = AtomicUsize::new(0);
        let origin = Origin::serving(move |stream, read| {
            let is_first = first.fetch_add(1, Ordering::SeqCst) == 0;
            while read().is_some() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
                if is_first {
                    read();
                    return;
                }
            }
        });
        let gateway = Gateway::forwarding(&origin, "", "", ONE_WORKER);
        let mut client = gateway.client();
        assert_eq!(client.get("/", &[]).status, 200);
        let body: &[u8] = if method == "POST" { b"body" } else { b"" };
        assert_eq!(client.request(method, "/", &[], body).status, status, "{method}");
        assert_eq!(origin.received().len(), received, "{method}");
    }
}

/// Unread bytes on an idle connection could be taken for the next response.
#[test]
fn bytes_after_a_response_are_not_taken_for_the_next() {
    let origin = Origin::answering(|request| {
        let path = request.line().split(' ').nth(1).unwrap_or_default();
        let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}{evil}", path.len())
    });
    let gateway = Gateway::forwarding(&origin, "", "", ONE_WORKER);
    let mut client = gateway.client();
    for path in ["/a", "/b", "/c"] {
        assert_eq!(client.get(path, &[]).text(), path);
    }
}

/// Some servers send a response when they close a connection that is idle for too long.
#[test]
fn a_response_without_a_request_is_dropped() {
    let said = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&said);
    let origin = Origin::serving(move |stream, read| {
        if read().is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
            thread::sleep(PATIENCE / 400);
            let _ = stream.write_all(b"HTTP/1.1 408 Too Late\r\nConnection: close\r\n\r\n");
            let _ = stream.shutdown(std::net::Shutdown::Both);
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let gateway = Gateway::forwarding(&origin, "", "", ONE_WORKER);
    let mut client = gateway.client();
    for (index, method) in ["GET", "POST", "GET"].iter().enumerate() {
        assert_eq!(client.request(method, "/", &[], b"").status, 200, "{method}");
        eventually("the origin says more", || said.load(Ordering::SeqCst) == index + 1);
    }
}

#[test]
fn a_body_where_none_is_allowed_is_not_taken_for_a_response() {
    let origin = Origin::answering(|_| {
        "HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
            .to_owned()
    });
    let gateway = Gateway::forwarding(&origin, "", "", ONE_WORKER);
    let mut client = gateway.client();
    for _ in 0..3 {
        let response = client.request("HEAD", "/", &[], b"");
        assert_eq!((response.status, response.field("Content-Length")), (200, Some("42")));
    }
    assert_eq!(origin.connections(), 3);
}

#[test]
fn an_idle_connection_is_not_used_after_its_timeout() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "keep_alive: { idle: 100ms }", ONE_WORKER);
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    thread::sleep(PATIENCE / 100);
    assert_eq!(client.get("/", &[]).status, 200);
    assert_eq!(origin.connections(), 2);
}

/// Without further requests.
#[test]
fn an_idle_connection_is_closed_after_its_timeout() {
    let (sender, closed) = std::sync::mpsc::channel();
    let origin = Origin::serving(move |stream, read| {
        read();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let _ = sender.send(read().is_none());
    });
    let gateway = Gateway::forwarding(&origin, "", "keep_alive: { idle: 100ms }", ONE_WORKER);
    assert_eq!(gateway.client().get("/", &[]).status, 200);
    assert_eq!(closed.recv_timeout(PATIENCE), Ok(true));
}

/// However requests end, the file descriptors of their connections are closed.
#[test]
fn no_file_descriptor_stays_open() {
    let origin = Origin::serving(|stream, read| {
        while let Some(request) = read() {
            if request.line().contains("/silent") {
                read();
                return;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
    });
    let gateway = Gateway::forwarding(&origin, "", "keep_alive: { max_idle: 0 }", ONE_WORKER);
    assert_eq!(gateway.client().get("/", &[]).status, 200);
    let mut before = 0;
    eventually("the first connection is closed", || {
        let now = gateway.open_sockets();
        std::mem::replace(&mut before, now) == now
    });
    for n in 0..40 {
        let mut client = gateway.client();
        assert_eq!(client.get("/", &[]).status, 200);
        client.send(format!("POST /silent/{n} HTTP/1.1\r\nHost: a\r\n").as_bytes());
        client.send(b"Content-Length: 10\r\n\r\nhalf");
    }
    eventually("all is closed", || gateway.open_sockets() <= before);
}

#[test]
fn endpoints_take_turns() {
    let origins = [Origin::hello(), Origin::hello(), Origin::hello()];
    let endpoints: Vec<_> =
        origins.iter().map(|origin| format!("\"http://{}\"", origin.address())).collect();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [{}], balance: round_robin }} }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\n{ONE_WORKER}\n",
        endpoints.join(", ")
    ));
    let mut client = gateway.client();
    for _ in 0..30 {
        assert_eq!(client.get("/", &[]).status, 200);
    }
    let received = origins.each_ref().map(|origin| origin.received().len());
    assert_eq!(received, [10, 10, 10]);
}

#[test]
fn an_endpoint_may_have_a_name_and_a_weight() {
    let heavy = Origin::hello();
    let light = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams:\n  app:\n    balance: round_robin\n    endpoints:\n    \
           - {{ url: \"http://localhost:{}\", weight: 3 }}\n    \
           - {{ url: \"http://127.0.0.1:{}\" }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\n{ONE_WORKER}\n",
        heavy.address().port(),
        light.address().port(),
    ));
    let mut client = gateway.client();
    for _ in 0..8 {
        assert_eq!(client.get("/", &[]).status, 200);
    }
    assert_eq!((heavy.received().len(), light.received().len()), (6, 2));
}

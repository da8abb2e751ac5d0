//! Connections of clients: bounded in time and number, without effect on each other.

use std::io;
use std::io::Write as _;
use std::thread;
use std::time::Duration;

use crate::support::{Backend, Client, Gateway, Origin, PATIENCE, Speaks, eventually};

/// A gateway that responds with `ok`. `listener`: further fields of the listener.
fn answering(listener: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", {listener} }}]\n\
         routes: [{{ path: \"/*\", respond: {{ body: ok }} }}]\n\
         runtime: {{ workers: 1 }}\n"
    ))
}

#[test]
fn a_head_that_arrives_too_late_gets_408() {
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

/// Its limit was once the one of an idle connection.
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
fn an_idle_connection_is_closed_in_time() {
    let gateway = answering("timeouts: { keep_alive: 200ms }");
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    assert!(client.is_closed());
}

/// Without a request there is no response.
#[test]
fn a_connection_without_a_request_is_closed() {
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

/// During the first request of a connection the gateway does not read at once what comes next.
#[test]
fn a_request_that_comes_during_the_first_one_is_answered() {
    for delay in [Duration::ZERO, PATIENCE / 200, PATIENCE / 20] {
        let origin = Origin::serving(move |stream, read| {
            while read().is_some() {
                thread::sleep(delay);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        });
        // Without ticks.
        let timeouts = "timeouts: { request_head: 1h, request_body: 1h, keep_alive: 1h }";
        let gateway = Gateway::on_one_worker(origin.address(), timeouts);
        let mut client = gateway.client();
        client.send(b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
        thread::sleep(delay / 2);
        client
            .send(b"GET /second HTTP/1.1\r\nHost: a\r\n\r\nGET /third HTTP/1.1\r\nHost: a\r\n\r\n");
        for _ in 0..3 {
            assert_eq!(client.response("GET").status, 200);
        }
        assert_eq!(client.get("/", &[]).status, 200, "the connection stays open");
        let lines: Vec<String> = origin.received().iter().map(|it| it.line().to_owned()).collect();
        let paths = ["/first", "/second", "/third", "/"];
        assert!(lines.iter().map(|it| it.split(' ').nth(1).unwrap()).eq(paths), "{lines:?}");
    }
}

/// The gateway looks for that from time to time while the backend has not responded.
#[test]
fn a_client_that_leaves_during_its_first_request_ends_it() {
    let mut origin = Backend::start(Speaks::Http1);
    let timeouts = "timeouts: { request_head: 1h, request_body: 1h, keep_alive: 1h }";
    let gateway = Gateway::on_one_worker(origin.address(), timeouts);
    let mut client = gateway.client();
    client.send(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n");
    drop(client);
    eventually("the request ends at the backend", || origin.abandoned() == 1);
    origin.stop();
}

#[test]
fn connections_above_the_bound_wait() {
    let gateway = answering("max_connections: 1");
    let mut first = gateway.client();
    assert_eq!(first.get("/", &[]).status, 200);
    let mut second = gateway.client();
    let mut third = gateway.client();
    for client in [&mut second, &mut third] {
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }
    assert_eq!(first.get("/", &[]).status, 200, "the open connection is served");
    drop(first);
    for client in [&mut second, &mut third] {
        assert_eq!(client.response("GET").status, 200);
    }
}

#[test]
fn thousands_of_idle_connections_do_not_slow_others() {
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

/// Idle clients may use three quarters of the files.
#[test]
fn idle_clients_leave_files_for_upstreams() {
    let origin = Origin::hello();
    let gateway = Gateway::with_files(256, &origin, "");
    eventually("the log says so", || gateway.log().contains("room for 132 clients"));
    let mut first = gateway.client();
    let crowd: Vec<Client> = (0..600).map(|_| gateway.client()).collect();
    eventually("as many connections are open as allowed", || gateway.open_sockets() > 132);
    // The gateway has no connection to the origin yet.
    assert_eq!(first.get("/", &[]).status, 200);
    assert!(!gateway.log().contains("cannot accept"), "{}", gateway.log());
    drop(crowd);
    assert_eq!(gateway.client().get("/", &[]).status, 200);
}

#[test]
fn one_connection_serves_thousands_of_requests() {
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

/// If the connection were closed while bytes are unread, the system would reset it.
#[test]
fn bytes_behind_the_last_request_of_a_client_do_not_cost_it_the_response() {
    let gateway = answering("");
    for extra in [0, 2, 300_000] {
        let mut client = gateway.client();
        let head = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        client.send((head.to_owned() + &"\r\n".repeat(extra / 2)).as_bytes());
        thread::sleep(PATIENCE / 200);
        assert_eq!(client.response("GET").body, b"ok", "{extra} bytes");
        assert!(client.is_closed_in_order(), "{extra} bytes");
    }
}

/// Its responses fill all buffers. Others are still served.
#[test]
fn a_client_that_reads_nothing_does_not_slow_others() {
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

/// A refused client may still be sending a large body.
#[test]
fn a_refused_upload_is_answered_without_being_read() {
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
    // A reset could discard the response before the client reads it.
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

/// Such a client once kept its request in flight at the upstream without end, so that
/// others were refused.
#[test]
fn a_client_that_does_not_read_releases_its_request_in_flight() {
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
    let mut stalled = gateway.client();
    stalled.send(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(stalled.head().status, 200);
    assert_eq!(gateway.client().get("/", &[]).status, 503);
    eventually("the request of the stalled client has ended", || {
        gateway.client().get("/", &[]).status == 200
    });
}

//! The stop: requests in progress are finished, and no other is begun.

use std::io::Write as _;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::support::frames::{
    ACK, DATA, Frames, INITIAL_WINDOW_SIZE, PING, WINDOW_UPDATE, frame, get, more,
};
use crate::support::{Client, Gateway, Origin, PATIENCE, admin_text, eventually, now};

/// With several workers, a connection that one of them refuses would show nothing about
/// the others.
const ONE_WORKER: &str = "runtime: { workers: 1 }";

/// An origin that sends half of a response, and the rest on request.
fn waiting() -> (Origin, mpsc::Sender<()>) {
    let (go, may_go) = mpsc::channel();
    let may_go = Mutex::new(may_go);
    let origin = Origin::serving(move |stream, read| {
        while read().is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf ");
            let told = may_go.lock().map(|may_go| may_go.recv_timeout(PATIENCE));
            if told.is_ok_and(|told| told.is_ok()) {
                let _ = stream.write_all(b"rest");
            }
        }
    });
    (origin, go)
}

/// A client whose request has reached the origin.
fn begun(gateway: &Gateway, origin: &Origin) -> Client {
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request arrives", || origin.received().len() == 1);
    client
}

fn refuses_connections(gateway: &Gateway) -> bool {
    Client::try_connect(gateway.address()).is_err()
}

#[test]
fn a_request_in_progress_is_finished_and_no_other_accepted() {
    let (origin, go) = waiting();
    let mut gateway = Gateway::forwarding(&origin, "", "", ONE_WORKER);
    let mut client = begun(&gateway, &origin);
    gateway.terminate();
    eventually("new connections are refused", || refuses_connections(&gateway));
    go.send(()).expect("the origin waits");
    assert_eq!(client.response("GET").text(), "half rest");
    assert!(client.is_closed());
    assert_eq!(gateway.wait().code(), Some(0));
    assert_eq!(gateway.access_lines(1)[0]["outcome"], "admitted");
}

#[test]
fn a_stop_waits_for_no_response_to_a_banned_client() {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 1/hour, penalty: { after: 1/hour, ban: 6h, delay: 30s }";
    let admin = "admin: { address: \"127.0.0.1:0\", hosts: [gateway.test], tokens: [\
                 { name: r, role: read, token: read-0123456789abcdef0123 }] }";
    let mut gateway = Gateway::limiting_with(&origin, policy, &format!("{admin}\n{ONE_WORKER}"));
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the response is held back", || {
        let credential = "Authorization: Bearer read-0123456789abcdef0123";
        let metrics = admin_text(gateway.addresses()[1], "/metrics", credential);
        metrics.contains("\ntollgate_held_bans 1\n")
    });
    let begun = now();
    gateway.terminate();
    let refused = client.response("GET");
    assert_eq!(refused.status, 429);
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert!(client.is_closed());
    assert_eq!(gateway.wait().code(), Some(0));
    assert_eq!(gateway.access_lines(2)[1]["outcome"], "banned");
}

/// The file of a secret is on a file system that does not answer.
#[test]
fn a_slow_reload_does_not_delay_the_stop() {
    let text = |body: &str| {
        format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             routes: [{{ path: \"/*\", respond: {{ body: \"{body}\" }} }}]\n{ONE_WORKER}\n"
        )
    };
    let mut gateway = Gateway::start_with_dead_mount(&text("hello"));
    gateway.rewrite(&text("${file:dead/secret}"));
    eventually("it waits for the file", || gateway.waits_for_dead_mount());
    assert_eq!(gateway.client().get("/", &[]).text(), "hello");
    gateway.terminate();
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn a_response_that_begins_after_the_stop_closes_its_connection() {
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let origin = Origin::serving(move |stream, read| {
        read();
        let _ = may_go.lock().map(|may_go| may_go.recv_timeout(PATIENCE));
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let mut gateway = Gateway::forwarding(&origin, "", "", ONE_WORKER);
    let mut client = begun(&gateway, &origin);
    gateway.terminate();
    eventually("new connections are refused", || refuses_connections(&gateway));
    go.send(()).expect("the origin waits");
    let response = client.response("GET");
    let connection = response.field("Connection").map(str::to_lowercase);
    assert_eq!((response.status, connection.as_deref()), (200, Some("close")));
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn idle_connections_do_not_delay_the_stop() {
    let mut gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\", timeouts: { request_head: 1h, keep_alive: 1h } }]\n\
         routes: [{ path: \"/*\", respond: { body: ok } }]\n\
         runtime: { drain: 1h }\n",
    );
    let mut used = gateway.client();
    assert_eq!(used.get("/", &[]).status, 200);
    let mut fresh = gateway.client();
    // A response to a later connection shows that the new one was accepted.
    assert_eq!(gateway.client().get("/", &["Connection: close"]).status, 200);
    gateway.terminate();
    assert!(used.is_closed() && fresh.is_closed());
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn an_interrupt_stops_like_a_termination() {
    let mut gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         routes: [{ path: \"/*\", respond: { body: ok } }]\n",
    );
    gateway.signal("INT");
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn a_request_that_outlasts_the_drain_is_aborted() {
    let (origin, _go) = waiting();
    let mut gateway = Gateway::forwarding(&origin, "", "", "runtime: { drain: 200ms }");
    let mut client = begun(&gateway, &origin);
    gateway.terminate();
    assert_eq!(client.head().status, 200);
    assert_eq!(client.rest(), b"half ", "the body is incomplete");
    assert_eq!(gateway.wait().code(), Some(0));
    eventually("the log says why", || gateway.log().contains("drain"));
}

/// The body of such a response ends with its connection, so an end would make it complete.
#[test]
fn a_response_that_outlasts_the_drain_is_not_complete_for_a_client_of_http_1_0() {
    let origin = Origin::serving(|stream, read| {
        while read().is_some() {
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
        }
    });
    let mut gateway = Gateway::forwarding(&origin, "", "", "runtime: { drain: 200ms }");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.0\r\n\r\n");
    eventually("the request arrives", || origin.received().len() == 1);
    gateway.terminate();
    let error = client.try_response("GET").expect_err("an end is no end");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(gateway.wait().code(), Some(0));
}

/// A client of HTTP/2 sends window updates while it reads. The system answered them with a reset when
/// the gateway had closed the connection, and what the client had not read was lost.
#[test]
fn the_last_response_of_http_2_can_be_read_to_its_end() {
    const BYTES: usize = 2_000_000;
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let origin = Origin::serving(move |stream, read| {
        read();
        let _ = may_go.lock().map(|may_go| may_go.recv_timeout(PATIENCE));
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n");
        let _ = stream.write_all(&vec![b'x'; BYTES]);
    });
    let mut gateway = Gateway::forwarding(&origin, "", "", ONE_WORKER);
    let large = 1 << 30;
    let mut client = Frames::with_settings(gateway.address(), &[(INITIAL_WINDOW_SIZE, large)]);
    client.limit_unread(16 * 1024);
    client.send(&[frame(WINDOW_UPDATE, 0, 0, &large.to_be_bytes()), get(1, "/")].concat());
    eventually("the request arrives", || origin.received().len() == 1);
    gateway.terminate();
    let mut read = 0;
    let mut is_complete = false;
    while let Some(next) = client.next().expect("in time") {
        match next.kind {
            // It is behind the message that the connection ends.
            PING if next.flags == 0 => {
                client.send(&frame(PING, ACK, 0, &next.payload));
                go.send(()).expect("the origin waits");
            }
            DATA => {
                read += next.payload.len();
                is_complete = next.ends_stream();
                // The gateway has sent all of it before the client has read it.
                thread::sleep(Duration::from_millis(2));
                client.send(&more(1, 1));
            }
            _ => {}
        }
    }
    assert_eq!((read, is_complete), (BYTES, true));
    drop(client);
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn a_second_signal_stops_at_once() {
    let (origin, _go) = waiting();
    let mut gateway = Gateway::forwarding(&origin, "", "", "runtime: { drain: 1h }");
    let _client = begun(&gateway, &origin);
    gateway.terminate();
    eventually("it is stopping", || gateway.log().contains("stopping"));
    gateway.terminate();
    gateway.wait();
}

/// The log is written in batches; the last one must be written too.
#[test]
fn the_access_log_is_complete_when_the_process_ends() {
    let mut gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         routes: [{ path: \"/*\", respond: { body: ok } }]\n",
    );
    let mut client = gateway.client();
    for _ in 0..100 {
        assert_eq!(client.get("/", &[]).status, 200);
    }
    gateway.terminate();
    gateway.wait();
    assert_eq!(gateway.access_text(1).lines().count(), 100);
}

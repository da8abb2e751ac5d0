//! Stopping: what is under way is finished, nothing else is begun.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;
use std::sync::{Mutex, mpsc};

use crate::support::{Client, Gateway, Origin, PATIENCE, eventually};

/// With several, a connection that one of them did not accept any more says
/// nothing of the others.
const ONE_WORKER: &str = "runtime: { workers: 1 }";

/// An origin that answers half, and the rest when it is told to.
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

/// A client whose request has arrived at the origin.
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
fn a_request_under_way_is_finished_and_no_other_accepted() {
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

/// The file of a secret is a pipe into which nothing is written.
#[test]
fn a_reload_that_takes_its_time_does_not_delay_the_stop() {
    let origin = Origin::hello();
    let mut gateway = Gateway::forwarding(&origin, "", "", ONE_WORKER);
    let pipe = gateway.file().with_file_name("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
    assert!(made.success());
    gateway.rewrite(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         routes: [{ path: \"/*\", respond: { body: \"${file:pipe}\" } }]\n",
    );
    // Returns when the other end is being read.
    let _unwritten = OpenOptions::new().write(true).open(pipe).expect("a pipe");
    assert_eq!(gateway.client().get("/", &[]).text(), "hello");
    gateway.terminate();
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn a_client_whose_answer_has_not_begun_is_told_that_the_connection_ends() {
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
fn idle_connections_hold_nothing_up() {
    let mut gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\", timeouts: { request_head: 1h, keep_alive: 1h } }]\n\
         routes: [{ path: \"/*\", respond: { body: ok } }]\n\
         runtime: { drain: 1h }\n",
    );
    let mut used = gateway.client();
    assert_eq!(used.get("/", &[]).status, 200);
    let mut fresh = gateway.client();
    // Whoever is served after the fresh connection shows that it was accepted.
    assert_eq!(gateway.client().get("/", &["Connection: close"]).status, 200);
    gateway.terminate();
    assert!(used.is_closed() && fresh.is_closed());
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn an_interrupt_is_as_good_as_a_termination() {
    let mut gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         routes: [{ path: \"/*\", respond: { body: ok } }]\n",
    );
    gateway.signal("INT");
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn what_takes_longer_than_the_drain_is_cut_off() {
    let (origin, _go) = waiting();
    let mut gateway = Gateway::forwarding(&origin, "", "", "runtime: { drain: 200ms }");
    let mut client = begun(&gateway, &origin);
    gateway.terminate();
    assert_eq!(client.head().status, 200);
    assert_eq!(client.rest(), b"half ", "no end is made up");
    assert_eq!(gateway.wait().code(), Some(0));
    eventually("the log says why", || gateway.log().contains("drain"));
}

#[test]
fn a_second_signal_ends_everything_at_once() {
    let (origin, _go) = waiting();
    let mut gateway = Gateway::forwarding(&origin, "", "", "runtime: { drain: 1h }");
    let _client = begun(&gateway, &origin);
    gateway.terminate();
    eventually("it is stopping", || gateway.log().contains("stopping"));
    gateway.terminate();
    gateway.wait();
}

/// The log is written in batches: none may be left behind.
#[test]
fn the_access_log_is_whole_when_the_process_ends() {
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

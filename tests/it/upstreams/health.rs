//! Endpoints that fail and recover, as noticed by checks and by requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{config, gateway, gateway_with};
use crate::support::frames::{ACK, HEADERS, MAX_CONCURRENT_STREAMS, SETTINGS, head, ok, settings};
use crate::support::{Backend, Endpoint, Gateway, Origin, Reserved, Speaks, eventually};

const TWO_WORKERS: &str = "runtime: { workers: 2 }";
const QUICK: &str = "slow_start: 0s, health: { path: /healthz, interval: 100ms, rise: 2, fall: 2 }";

/// An origin whose health the test switches.
fn switched() -> (Origin, Arc<AtomicBool>) {
    let is_well = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&is_well);
    let origin = Origin::answering(move |request| {
        let is_check = request.line().starts_with("GET /healthz ");
        let is_bad = is_check && !switch.load(Ordering::SeqCst);
        let status = if is_bad { "500 Ill" } else { "200 OK" };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
    });
    (origin, is_well)
}

fn requests(origin: &Origin) -> usize {
    origin.received().iter().filter(|request| !request.line().contains("/healthz")).count()
}

/// A gateway with two endpoints, of which the first is down.
struct OneDown {
    ill: Origin,
    is_well: Arc<AtomicBool>,
    _well: Origin,
    endpoints: [String; 2],
    gateway: Gateway,
}

impl OneDown {
    fn start() -> Self {
        let ((ill, is_well), well) = (switched(), Origin::hello());
        let endpoints = [ill.address(), well.address()].map(|address| format!("http://{address}"));
        let gateway = gateway_with(&endpoints, QUICK, "", TWO_WORKERS);
        is_well.store(false, Ordering::SeqCst);
        eventually("it is down", || gateway.log().contains("an endpoint is down"));
        Self { ill, is_well, _well: well, endpoints, gateway }
    }
}

fn ask(gateway: &Gateway, times: usize) {
    for _ in 0..times {
        assert_eq!(gateway.client().get("/", &[]).status, 200);
    }
}

#[test]
fn an_endpoint_whose_checks_fail_gets_nothing_until_they_succeed() {
    let OneDown { ill, is_well, gateway, .. } = &OneDown::start();
    let before = requests(ill);
    ask(gateway, 20);
    assert_eq!(requests(ill), before);
    assert!(gateway.log().contains("cause=\"the status is 500\""));
    is_well.store(true, Ordering::SeqCst);
    eventually("it is back", || gateway.log().contains("an endpoint is back"));
    eventually("it has requests", || {
        ask(gateway, 5);
        requests(ill) > before
    });
    assert_eq!(gateway.log().matches("an endpoint is").count(), 2, "each is told once");
}

#[test]
fn a_reload_of_other_settings_leaves_an_endpoint_out_of_service() {
    let OneDown { ill, endpoints, gateway, .. } = &OneDown::start();
    let before = requests(ill);
    for max_idle in 1..=5 {
        let upstream = format!("keep_alive: {{ max_idle: {max_idle} }}, {QUICK}");
        gateway.reload(&config(endpoints, &upstream, "", TWO_WORKERS));
        ask(gateway, 20);
    }
    assert_eq!(requests(ill), before);
}

/// A request that may be repeated goes to the only endpoint in service again, at once.
#[test]
fn an_endpoint_out_of_service_gets_no_repeated_request() {
    let (ill, is_well) = switched();
    let count = AtomicUsize::new(0);
    let well = Origin::answering(move |request| {
        let is_asked = !request.line().contains("/healthz");
        let fails = is_asked && count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        let status = if fails { "503 Busy" } else { "200 OK" };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
    });
    let endpoints = [ill.address(), well.address()].map(|address| format!("http://{address}"));
    for bounds in ["", "max_connections: 10, queue: { length: 9, timeout: 60s }, "] {
        is_well.store(true, Ordering::SeqCst);
        let upstream = format!("{bounds}{QUICK}");
        let gateway = gateway_with(&endpoints, &upstream, "retries: { on: [503] }", TWO_WORKERS);
        is_well.store(false, Ordering::SeqCst);
        eventually("it is down", || gateway.log().contains("an endpoint is down"));
        let before = requests(&ill);
        ask(&gateway, 10);
        assert_eq!(requests(&ill), before, "{bounds}");
    }
}

/// A worker has open connections of HTTP/2 to both endpoints. Requests wait for a stream of the one that
/// is in service. Each check has a connection of its own, whose only request has the stream 1.
#[test]
fn an_endpoint_out_of_service_shares_no_connection() {
    let is_well = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&is_well);
    let ill = Endpoint::answering(move |_, frame| match frame.kind {
        HEADERS if switch.load(Ordering::SeqCst) => ok(frame.stream),
        HEADERS => head(frame.stream, &[(":status", "503")], true),
        _ => Vec::new(),
    });
    let well = Endpoint::answering(|_, frame| match frame.kind {
        SETTINGS if frame.flags & ACK == 0 => settings(&[(MAX_CONCURRENT_STREAMS, 1)]),
        HEADERS => {
            thread::sleep(Duration::from_millis(50));
            ok(frame.stream)
        }
        _ => Vec::new(),
    });
    let bounds = "balance: round_robin, max_connections: 1, queue: { length: 9, timeout: 60s }";
    let gateway = gateway(&[ill.url(), well.url()], &format!("{bounds}, {QUICK}"), "");
    let later = || ill.frames().iter().filter(|it| it.kind == HEADERS && it.stream > 1).count();
    eventually("it has a connection", || {
        ask(&gateway, 1);
        later() > 0
    });
    is_well.store(false, Ordering::SeqCst);
    eventually("it is down", || gateway.log().contains("an endpoint is down"));
    let before = later();
    let mut clients: Vec<_> = (0..6).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert!(clients.iter_mut().all(|client| client.response("GET").status == 200));
    assert_eq!(later(), before);
}

#[test]
fn if_all_endpoints_are_unhealthy_all_get_requests() {
    let (origin, is_well) = switched();
    let gateway = gateway(&[format!("http://{}", origin.address())], QUICK, "");
    is_well.store(false, Ordering::SeqCst);
    eventually("it is down", || gateway.log().contains("an endpoint is down"));
    ask(&gateway, 5);
}

#[test]
fn checks_use_the_protocol_of_the_endpoint() {
    let mut backend = Backend::start(Speaks::Http2 { max_streams: 10 });
    let gateway = gateway(&[format!("h2c://{}", backend.address())], QUICK, "");
    let is_checked = || backend.seen().iter().any(|request| request.uri.ends_with("/healthz"));
    eventually("it is asked", is_checked);
    backend.stop();
    eventually("it is down", || gateway.log().contains("an endpoint is down"));
    backend.restart();
    eventually("it is back", || gateway.log().contains("an endpoint is back"));
    ask(&gateway, 5);
}

#[test]
fn an_endpoint_at_which_requests_fail_is_ejected_for_a_time() {
    let is_well = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_well);
    let ill = Origin::answering(move |_| {
        let status = if switch.load(Ordering::SeqCst) { "200 OK" } else { "503 Ill" };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
    });
    let other = Origin::hello();
    let endpoints = [ill.address(), other.address()].map(|address| format!("http://{address}"));
    let upstream = "balance: round_robin, slow_start: 0s, \
                    eject: { consecutive_errors: 3, for: 1500ms, max_percent: 50% }";
    let gateway = gateway_with(&endpoints, upstream, "", TWO_WORKERS);
    let status = || gateway.client().get("/", &[]).status;
    eventually("it is ejected", || {
        status();
        gateway.log().contains("an endpoint is ejected")
    });
    is_well.store(true, Ordering::SeqCst);
    let before = ill.received().len();
    assert!((0..10).all(|_| status() == 200));
    assert_eq!(ill.received().len(), before);
    eventually("it has requests again", || {
        status();
        ill.received().len() > before
    });
    assert_eq!(gateway.log().matches("an endpoint is ejected").count(), 1, "it is told once");
}

#[test]
fn an_endpoint_that_cannot_be_connected_to_is_ejected_and_no_request_fails() {
    let closed = Reserved::new();
    let other = Origin::hello();
    let endpoints = [closed.address(), other.address()].map(|address| format!("http://{address}"));
    let gateway = gateway(&endpoints, "eject: { consecutive_errors: 2 }", "");
    eventually("it is ejected", || {
        ask(&gateway, 5);
        gateway.log().contains("an endpoint is ejected")
    });
}

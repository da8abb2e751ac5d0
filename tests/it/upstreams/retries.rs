//! Requests that fail at one endpoint and are answered by another.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::gateway;
use crate::support::{Backend, Gateway, Origin, Reserved, Speaks, eventually};

fn http(address: std::net::SocketAddr) -> String {
    format!("http://{address}")
}

/// Responds with this status the first `times` times, and then with 200.
fn answering_first(status: &'static str, times: usize) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::answering(move |_| {
        let is_early = count.fetch_add(1, Ordering::SeqCst) < times;
        let status = if is_early { status } else { "200 OK" };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
    })
}

/// Reads a request and closes without a response the first `times` times.
fn closing_first(times: usize) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::serving(move |stream, read| {
        while read().is_some() {
            if count.fetch_add(1, Ordering::SeqCst) < times {
                return;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    })
}

/// No byte was sent to a closed port, so every request can go to another endpoint.
#[test]
fn a_request_to_a_closed_port_goes_to_another_endpoint() {
    let origin = Origin::hello();
    let closed = [Reserved::new(), Reserved::new()];
    let endpoints = [closed[0].address(), origin.address(), closed[1].address()].map(http);
    for balance in ["least_requests", "round_robin", "random", "{ hash: header:x-key }"] {
        let gateway = gateway(&endpoints, &format!("balance: {balance}"), "");
        let mut client = gateway.client();
        for n in 0..20 {
            let key = format!("X-Key: {n}");
            assert_eq!(client.get("/", &[&key]).status, 200, "{balance}");
            assert_eq!(client.request("POST", "/", &[&key], b"body").status, 200, "{balance}");
        }
    }
    assert!(origin.received().iter().all(|it| it.line().starts_with("GET") || it.body == b"body"));
}

#[test]
fn failures_that_the_route_names_are_retried() {
    for (on, origin) in [
        ("reset", closing_first(2)),
        ("502", answering_first("502 Bad Gateway", 2)),
        ("503", answering_first("503 Service Unavailable", 2)),
        ("504", answering_first("504 Gateway Timeout", 2)),
    ] {
        let gateway = Gateway::forwarding(&origin, &format!("retries: {{ on: [{on}] }}"), "", "");
        assert_eq!(gateway.client().get("/", &[]).status, 200, "{on}");
        assert_eq!(origin.received().len(), 3, "{on}");
    }
}

#[test]
fn failures_that_the_route_does_not_name_are_not_retried() {
    let gateway_to = |origin: &Origin, retries: &str| Gateway::forwarding(origin, retries, "", "");
    let origin = answering_first("503 Service Unavailable", 9);
    for (retries, method, status, received) in [
        ("retries: { on: [reset, 502, 504] }", "GET", 503, 1),
        ("retries: {}", "POST", 503, 2),
        ("retries: { attempts: 1 }", "GET", 503, 4),
        ("max_body: 10MB", "GET", 503, 5),
    ] {
        let gateway = gateway_to(&origin, retries);
        assert_eq!(gateway.client().request(method, "/", &[], b"").status, status, "{retries}");
        assert_eq!(origin.received().len(), received, "{retries} {method}");
    }
    let origin = closing_first(1);
    let gateway = gateway_to(&origin, "retries: { on: [503] }");
    assert_eq!(gateway.client().get("/", &[]).status, 502);
    assert_eq!(origin.received().len(), 1);
}

/// Regression: on a kept connection, a route with one more attempt sent a request three times.
#[test]
fn a_request_on_a_kept_connection_is_sent_no_more_often_than_its_route_says() {
    let count = AtomicUsize::new(0);
    let origin = Origin::serving(move |stream, read| {
        while read().is_some() {
            let status = match count.fetch_add(1, Ordering::SeqCst) {
                0 => "200 OK",
                1 => return,
                _ => "503 Service Unavailable",
            };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
        }
    });
    let retries = "retries: { attempts: 1, on: [reset, 503] }";
    let gateway = Gateway::forwarding(&origin, retries, "", "runtime: { workers: 1 }");
    let mut client = gateway.client();
    assert_eq!([client.get("/", &[]).status, client.get("/", &[]).status], [200, 503]);
    assert_eq!(origin.received().len(), 1 + 2);
    let attempts = gateway.access_lines(2).into_iter().map(|line| line["attempts"].clone());
    assert_eq!(attempts.collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_small_body_is_sent_again_completely() {
    for (bytes, status, received) in [(60_000, 200, 2), (70_000, 502, 1)] {
        let origin = closing_first(1);
        let gateway = Gateway::forwarding(&origin, "retries: {}", "", "");
        let body: Vec<u8> = (0..bytes).map(|n: usize| n.to_le_bytes()[0]).collect();
        assert_eq!(gateway.client().request("PUT", "/", &[], &body).status, status, "{bytes}");
        let got = origin.received();
        assert_eq!(got.len(), received, "{bytes}");
        assert!(got.iter().all(|request| request.body == body));
    }
}

#[test]
fn a_chunked_body_is_sent_again_too() {
    let origin = closing_first(1);
    let gateway = Gateway::forwarding(&origin, "retries: {}", "", "");
    let mut client = gateway.client();
    client.send(b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(b"3\r\nabc\r\n");
    client.send(b"4\r\ndefg\r\n0\r\n\r\n");
    assert_eq!(client.response("PUT").status, 200);
    assert_eq!(origin.received().iter().filter(|it| it.body == b"abcdefg").count(), 2);
}

#[test]
fn another_endpoint_is_preferred() {
    let bad = answering_first("503 Service Unavailable", 999);
    let good = Origin::hello();
    let endpoints = [bad.address(), good.address()].map(http);
    let gateway = gateway(&endpoints, "balance: round_robin", "retries: { attempts: 1 }");
    let mut client = gateway.client();
    for _ in 0..10 {
        assert_eq!(client.get("/", &[]).status, 200);
    }
    assert_eq!((bad.received().len(), good.received().len()), (5, 10));
}

/// However many requests fail, only a share of them is sent twice.
#[test]
fn retries_stay_within_their_budget() {
    let origin = answering_first("503 Service Unavailable", usize::MAX);
    let gateway = gateway(&[http(origin.address())], "", "retries: { budget: 10% }");
    let mut client = gateway.client();
    let started = crate::support::now();
    for _ in 0..200 {
        assert_eq!(client.get("/", &[]).status, 503);
    }
    let seconds = usize::try_from(started.elapsed().as_secs()).unwrap() + 1;
    let retries = origin.received().len() - 200;
    assert!((10..=30 + seconds).contains(&retries), "{retries} retries in {seconds} s");
}

/// Without `retries` an idempotent request is sent once more, and no other.
#[test]
fn a_dropped_request_is_sent_again_if_it_is_idempotent() {
    for (drops, method, status, received) in
        [(1, "GET", 200, 2), (2, "GET", 502, 2), (1, "POST", 502, 1)]
    {
        let origin = closing_first(drops);
        let gateway = Gateway::forwarding(&origin, "", "", "");
        let answer = gateway.client().request(method, "/", &[], b"");
        assert_eq!(answer.status, status, "{method} {drops}");
        assert_eq!(origin.received().len(), received, "{method} {drops}");
    }
}

/// Backends stop and start one after another, as in an update: no idempotent request
/// fails, although there are no health checks.
#[test]
fn a_rolling_restart_fails_no_request() {
    for speaks in [Speaks::Http1, Speaks::Http2 { max_streams: 100 }] {
        let scheme = if matches!(speaks, Speaks::Http1) { "http" } else { "h2c" };
        let mut backends = [Backend::start(speaks.clone()), Backend::start(speaks)];
        let endpoints = backends.each_ref().map(|it| format!("{scheme}://{}", it.address()));
        let gateway = gateway(&endpoints, "", "");
        let load = crate::support::load::Load::start(&crate::support::load::Plan {
            addresses: vec![gateway.address()],
            connections: 4,
            path: "/",
            clients: 1,
            rest: std::time::Duration::from_micros(200),
        });
        for _ in 0..3 {
            for backend in &mut backends {
                let seen = backend.seen().len();
                eventually("it has requests", || backend.seen().len() > seen + 20);
                backend.stop();
                backend.restart();
            }
        }
        let samples = load.stop();
        let failed = samples.iter().filter(|sample| sample.status != 200).count();
        let log = std::fs::read_to_string(gateway.access_log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| !line.contains(":200,")).collect();
        assert_eq!(failed, 0, "of {} requests by {scheme}: {lines:?}", samples.len());
    }
}

/// The fields about the client are written with a head of HTTP/1.1, and are among the fields of
/// HTTP/2. A request that is sent over both has them once.
#[test]
fn each_attempt_tells_the_client_once_in_both_versions() {
    let http1 = Backend::start(Speaks::Http1);
    let http2 = Backend::start(Speaks::Http2 { max_streams: 10 });
    let endpoints = [format!("http://{}", http1.address()), format!("h2c://{}", http2.address())];
    let gateway = gateway(&endpoints, "", "retries: { on: [503], attempts: 3 }");
    let fields = ["X-Forwarded-For: 203.0.113.9", "X-Forwarded-Host: evil.test", "Via: 1.0 cdn"];
    for _ in 0..4 {
        assert_eq!(gateway.client().get("/503", &fields).status, 503);
    }
    for backend in [&http1, &http2] {
        let seen = backend.seen();
        assert!(seen.len() >= 4, "each request is sent to both: {}", seen.len());
        for request in seen {
            let all = |name| request.headers.get_all(name).iter().collect::<Vec<_>>();
            assert_eq!(all("x-forwarded-for"), ["127.0.0.1"]);
            assert_eq!(all("x-forwarded-proto"), ["http"]);
            assert_eq!(all("x-forwarded-host"), ["gateway.test"]);
            assert_eq!(all("x-forwarded-port").len(), 1);
            assert_eq!(all("via"), ["1.0 cdn", "1.1 tollgate"]);
        }
    }
}

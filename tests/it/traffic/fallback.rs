//! Routes with a second upstream for requests whose first one fails.

use std::io::Write as _;
use std::net::SocketAddr;

use super::{endpoint, gateway, metric, saying};
use crate::support::frames::{HEADERS, head};
use crate::support::{Endpoint, Gateway, Origin, Reserved};

const FALLBACKS: &str = "tollgate_upstream_fallbacks_total";

fn start(first: SocketAddr, second: &Origin, on: &str, route: &str) -> Gateway {
    let upstreams = [("app", endpoint(first)), ("spare", endpoint(second.address()))];
    let route = format!("upstream: app, fallback: {{ upstream: spare, on: [{on}] }}, {route}");
    gateway(&upstreams, &route, "runtime: { workers: 1 }")
}

fn failing(status: &'static str) -> Origin {
    Origin::answering(move |_| format!("HTTP/1.1 {status}\r\nContent-Length: 6\r\n\r\nfailed"))
}

/// Reads each request and closes the connection.
fn closing() -> Origin {
    Origin::serving(|_, read| {
        read();
    })
}

/// Nothing was sent, so every request may go to the fallback, and none takes from the budget.
#[test]
fn all_requests_to_a_closed_port_go_to_the_fallback() {
    let closed = Reserved::new();
    let spare = saying("spare");
    let gateway = start(closed.address(), &spare, "connect", "");
    let mut client = gateway.client();
    for n in 0..40 {
        let method = if n % 2 == 0 { "GET" } else { "POST" };
        let body: &[u8] = if n % 2 == 0 { b"" } else { b"some body" };
        let response = client.request(method, "/x", &["X-A: b"], body);
        assert_eq!((response.status, response.text()), (200, "spare".to_owned()), "{n}");
    }
    let received = spare.received();
    assert_eq!(received.len(), 40);
    assert!(received.iter().all(|it| it.fields("x-a") == ["b"] && it.line().contains(" /x ")));
    assert!(received.iter().all(|it| it.fields("x-forwarded-for") == ["127.0.0.1"]));
    assert!(
        received
            .iter()
            .filter(|it| it.line().starts_with("POST"))
            .all(|it| it.body == b"some body")
    );
    let line = &gateway.access_lines(40)[39];
    assert_eq!((&line["upstream"], &line["attempts"]), (&"spare".into(), &2.into()));
    let labels = ["upstream=\"app\"", "cause=\"connect\"", "result=\"sent\""];
    assert_eq!(metric(&gateway, FALLBACKS, &labels), 40.0);
}

#[test]
fn only_causes_that_the_route_names_lead_to_the_fallback() {
    let spare = saying("spare");
    for (on, status, got) in [
        ("\"503\"", "503 Service Unavailable", 200),
        ("connect, \"500\"", "500 Internal Server Error", 200),
        ("\"599\"", "599 Odd", 200),
        ("connect, reset, \"502\"", "503 Service Unavailable", 503),
        ("\"503\"", "404 Not Found", 404),
    ] {
        let app = failing(status);
        let gateway = start(app.address(), &spare, on, "");
        assert_eq!(gateway.client().get("/", &[]).status, got, "{on} {status}");
        assert_eq!(app.received().len(), 1);
    }
    for (on, got) in [("reset", 200), ("connect, \"502\"", 502)] {
        let app = closing();
        assert_eq!(start(app.address(), &spare, on, "").client().get("/", &[]).status, got, "{on}");
    }
}

#[test]
fn a_request_that_was_sent_goes_to_the_fallback_only_if_it_may_be_sent_again() {
    let app = failing("503 Service Unavailable");
    let spare = saying("spare");
    let small = vec![b'x'; 60_000];
    let large = vec![b'x'; 70_000];
    for (route, method, body, got) in [
        ("", "PUT", &small, 200),
        ("", "PUT", &large, 503),
        ("", "POST", &small, 503),
        ("retries: { methods: [POST], attempts: 1, on: [connect] }", "POST", &small, 200),
    ] {
        let gateway = start(app.address(), &spare, "\"503\"", route);
        let response = gateway.client().request(method, "/", &[], body);
        assert_eq!(response.status, got, "{route} {method} {}", body.len());
    }
    assert!(spare.received().iter().all(|it| it.body == small));
}

/// The retries come first, and the fallback gets one attempt.
#[test]
fn the_fallback_follows_the_last_retry_and_is_the_end() {
    let app = failing("503 Service Unavailable");
    let spare = failing("503 Service Unavailable");
    let gateway = start(app.address(), &spare, "\"503\"", "retries: { attempts: 2 }");
    assert_eq!(gateway.client().get("/", &[]).status, 503);
    assert_eq!((app.received().len(), spare.received().len()), (3, 1));
    assert_eq!(gateway.access_lines(1)[0]["attempts"], 4);
}

/// The first ten requests and a fifth of the others may be sent twice, and one each second.
#[test]
fn fallbacks_of_requests_that_were_sent_stay_in_the_retry_budget() {
    let app = failing("503 Service Unavailable");
    let spare = saying("spare");
    let gateway = start(app.address(), &spare, "\"503\"", "");
    let mut client = gateway.client();
    let statuses: Vec<_> = (0..200).map(|_| client.get("/", &[]).status).collect();
    let over = statuses.iter().filter(|status| **status == 503).count();
    assert!(statuses[..10].iter().all(|status| *status == 200));
    assert!(over > 0, "the budget has no effect");
    let count = |result: &str| {
        metric(&gateway, FALLBACKS, &["cause=\"503\"", &format!("result=\"{result}\"")])
    };
    assert_eq!(count("over_budget"), f64::from(u32::try_from(over).unwrap()));
    assert_eq!(count("sent"), f64::from(u32::try_from(200 - over).unwrap()));
    // Whoever wants all of them says so.
    let retries = "retries: { attempts: 1, on: [connect], budget: 100% }";
    let gateway = start(app.address(), &spare, "\"503\"", retries);
    let mut client = gateway.client();
    assert!((0..200).all(|_| client.get("/", &[]).status == 200));
}

/// The fields about the client are there once, whatever the protocols are.
#[test]
fn the_fallback_of_an_upstream_with_http2_gets_the_same_fields() {
    let spare = saying("spare");
    let app = Endpoint::answering(|_, frame| match frame.kind {
        HEADERS => head(frame.stream, &[(":status", "503")], true),
        _ => Vec::new(),
    });
    let upstreams =
        [("app", format!("endpoints: [\"{}\"]", app.url())), ("spare", endpoint(spare.address()))];
    let route = "upstream: app, fallback: { upstream: spare, on: [\"503\"] }";
    let gateway = gateway(&upstreams, route, "");
    assert_eq!(gateway.client().get("/", &[]).text(), "spare");
    let received = &spare.received()[0];
    assert_eq!(received.fields("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(received.fields("via").len(), 1);
}

/// A body of which the first upstream has read a part is sent to the fallback as a whole.
#[test]
fn a_body_goes_to_the_fallback_from_its_beginning() {
    let spare = saying("spare");
    let app = Origin::serving(|stream, _| {
        let mut byte = [0; 1];
        let _ = std::io::Read::read(stream, &mut byte);
        let _ = stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    });
    let gateway = start(app.address(), &spare, "\"503\", reset", "");
    let body: Vec<u8> = (0..50_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    assert_eq!(gateway.client().request("PUT", "/", &[], &body).status, 200);
    assert_eq!(spare.received()[0].body, body);
}

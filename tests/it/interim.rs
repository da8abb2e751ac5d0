//! Interim responses: those of a backend, such as 103, and the gateway's own 100.

use std::io::Write as _;
use std::sync::mpsc;

use crate::support::{Gateway, Origin};

const HINT: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\
                    Connection: x-hop\r\nX-Hop: 1\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Sends `before` and then 200.
fn saying(before: &'static str) -> Origin {
    Origin::answering(move |_| format!("{before}{OK}"))
}

#[test]
fn early_hints_reach_the_client_before_the_response() {
    let (answer, may_answer) = mpsc::channel();
    let may_answer = std::sync::Mutex::new(may_answer);
    let origin = Origin::serving(move |stream, read| {
        while read().is_some() {
            let _ = stream.write_all(HINT.as_bytes());
            let _ = may_answer.lock().expect("no thread panics with it").recv();
            let _ = stream.write_all(OK.as_bytes());
        }
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    for _ in 0..2 {
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let hint = client.head();
        assert_eq!((hint.status, hint.field("link")), (103, Some("</a.css>; rel=preload")));
        assert_eq!((hint.field("x-hop"), hint.field("connection")), (None, None));
        answer.send(()).expect("the origin waits");
        assert_eq!(client.response("GET").text(), "ok");
    }
}

#[test]
fn hints_come_between_the_responses_to_pipelined_requests() {
    let origin = saying(HINT);
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20).as_bytes());
    for _ in 0..20 {
        assert_eq!(client.head().status, 103);
        assert_eq!(client.response("GET").text(), "ok");
    }
}

/// Interim responses lose the fields that the gateway writes into final responses, those
/// that the route edits, and cookies.
#[test]
fn hints_lose_the_fields_of_the_gateway() {
    let origin = saying(
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX-Ratelimit-Limit: 9\r\n\
         X-Ratelimit-Remaining: 9\r\nRateLimit-Policy: \"a\";q=9\r\nRateLimit: \"a\";r=9\r\n\
         Retry-After: 9\r\nX-Request-Id: forged\r\nSet-Cookie: a=1\r\nX-Removed: 1\r\n\
         X-Set: 1\r\nX-Other: 1\r\n\r\n",
    );
    let route = "response_headers: { set: { x-set: a }, remove: [x-removed] }";
    let gateway = Gateway::forwarding(&origin, route, "", "");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let hint = client.head();
    let names: Vec<&str> = hint.fields.iter().map(|(name, _)| &**name).collect();
    assert_eq!((hint.status, &names[..]), (103, &["link", "x-other"][..]));
    assert_eq!(client.response("GET").status, 200);
}

#[test]
fn a_client_of_http_1_0_gets_no_hints() {
    let origin = saying(HINT);
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("GET").status, 200);
}

#[test]
fn a_flood_of_hints_is_bounded() {
    let origin = Origin::answering(|_| format!("{}{OK}", HINT.repeat(1000)));
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut hints = 0;
    while client.head().status == 103 {
        hints += 1;
    }
    assert_eq!(hints, 16);
}

#[test]
fn a_100_of_the_backend_is_not_relayed() {
    let origin = saying("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n");
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status, 102);
    assert_eq!(client.response("GET").status, 200);
}

#[test]
fn a_hint_before_invalid_bytes_is_followed_by_a_failure() {
    let origin = Origin::answering(|_| format!("{HINT}\u{1}\u{2}\r\n\r\n"));
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status, 103);
    assert_eq!(client.response("GET").status, 502);
}

#[test]
fn a_100_is_sent_when_the_body_is_read() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(client.head().status, 100);
    client.send(b"hello");
    assert_eq!(client.response("POST").status, 200);
    assert_eq!(origin.received()[0].body, b"hello");
}

#[test]
fn no_100_is_sent_for_a_body_that_is_not_read() {
    let gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         routes: [{ path: \"/*\", respond: { body: ok } }]\n",
    );
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(client.response("POST").status, 200);
    assert!(client.is_closed());
}

//! Requests that are sent again without `retries`: those that an endpoint has not
//! processed, and those that are idempotent.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::gateway;
use crate::support::frames::{DATA, HEADERS, NO_ERROR, REFUSED_STREAM, go_away, more, ok, reset};
use crate::support::{Endpoint, Gateway, Origin, eventually};

/// The ways in which an endpoint says that it has not processed a stream.
#[derive(Clone, Copy, Debug)]
enum Says {
    GoAway,
    Refused,
}

impl Says {
    fn about(self, stream: u32) -> Vec<u8> {
        match self {
            Self::GoAway => go_away(stream - 1, NO_ERROR),
            Self::Refused => reset(stream, REFUSED_STREAM),
        }
    }
}

/// An endpoint that responds to the first `after` requests, and says of the next `times`
/// that it has not processed them.
fn refusing(says: Says, after: usize, times: usize) -> Endpoint {
    let count = AtomicUsize::new(0);
    Endpoint::answering(move |_, frame| match frame.ends_stream() {
        true => match count.fetch_add(1, Ordering::SeqCst) {
            number if number >= after && number < after + times => says.about(frame.stream),
            _ => ok(frame.stream),
        },
        // A window for the largest body of a test.
        false if frame.kind == HEADERS => more(frame.stream, 100_000),
        false => Vec::new(),
    })
}

fn bytes(endpoint: &Endpoint) -> usize {
    let frames = endpoint.frames();
    frames.iter().filter(|frame| frame.kind == DATA).map(|frame| frame.payload.len()).sum()
}

/// Over an idle and over a new connection, with all methods, with and without a body.
#[test]
fn a_request_that_was_not_processed_is_sent_again() {
    for says in [Says::GoAway, Says::Refused] {
        for kept in [0, 1] {
            for (method, body) in [("POST", &b"a body"[..]), ("POST", b""), ("GET", b"")] {
                let case = format!("{says:?} {kept} {method} {}", body.len());
                let endpoint = refusing(says, kept, 1);
                let gateway = gateway(&[endpoint.url()], "", "");
                let mut client = gateway.client();
                for _ in 0..kept {
                    assert_eq!(client.get("/", &[]).status, 200, "{case}");
                }
                assert_eq!(client.request(method, "/", &[], body).status, 200, "{case}");
                assert_eq!(endpoint.count(HEADERS), kept + 2, "{case}");
                assert_eq!(bytes(&endpoint), 2 * body.len(), "{case}");
            }
        }
    }
}

/// A connection that ends gracefully stays open for its requests. The next request notices
/// the end before any byte of it is sent.
#[test]
fn a_connection_that_ends_gracefully_fails_no_request() {
    let count = AtomicUsize::new(0);
    let endpoint =
        Endpoint::answering(move |connection, frame| match (frame.ends_stream(), connection) {
            (false, _) => Vec::new(),
            (true, 0) if count.fetch_add(1, Ordering::SeqCst) == 0 => Vec::new(),
            (true, 0) => [ok(frame.stream), go_away(frame.stream, NO_ERROR)].concat(),
            (true, _) => ok(frame.stream),
        });
    let gateway = gateway(&[endpoint.url()], "", "");
    let mut waiting = gateway.client();
    waiting.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it is under way", || endpoint.count(HEADERS) == 1);
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    assert_eq!(client.request("POST", "/", &[], b"a body").status, 200);
    assert_eq!((endpoint.count(HEADERS), bytes(&endpoint)), (3, 6), "it was sent once");
}

/// `retries` says which methods may be processed twice. It does not matter for a request
/// that was not processed.
#[test]
fn a_request_that_was_not_processed_needs_no_retries_setting() {
    let endpoint = refusing(Says::GoAway, 1, 1);
    let gateway = gateway(&[endpoint.url()], "", "retries: { on: [503] }");
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    assert_eq!(client.request("POST", "/", &[], b"a body").status, 200);
}

#[test]
fn a_body_that_exceeds_the_buffer_is_sent_once() {
    for (length, status, sent) in [(60_000, 200, 2), (70_000, 502, 1)] {
        let endpoint = refusing(Says::Refused, 0, 1);
        let gateway = gateway(&[endpoint.url()], "", "");
        let body = vec![b'x'; length];
        assert_eq!(gateway.client().request("POST", "/", &[], &body).status, status, "{length}");
        assert_eq!(endpoint.count(HEADERS), sent, "{length}");
    }
}

#[test]
fn a_request_that_is_never_processed_is_sent_twice() {
    for says in [Says::GoAway, Says::Refused] {
        for method in ["GET", "POST"] {
            let endpoint = refusing(says, 0, usize::MAX);
            let gateway = gateway(&[endpoint.url()], "", "");
            let answer = gateway.client().request(method, "/", &[], b"");
            assert_eq!(answer.status, 502, "{says:?} {method}");
            assert_eq!(endpoint.count(HEADERS), 2, "{says:?} {method}");
        }
    }
}

/// Responds to one request, and closes each connection on which another one arrives.
fn closing_after_the_first() -> Origin {
    let is_answered = AtomicUsize::new(0);
    Origin::serving(move |stream, read| {
        while read().is_some() && is_answered.fetch_add(1, Ordering::SeqCst) == 0 {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    })
}

/// The idle connection is closed, and then the new one is closed too.
#[test]
fn without_retries_a_request_is_sent_twice_at_the_most() {
    let origin = closing_after_the_first();
    let gateway = Gateway::forwarding(&origin, "", "", "runtime: { workers: 1 }");
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    assert_eq!(client.get("/", &[]).status, 502);
    assert_eq!(origin.received().len(), 1 + 2);
}

/// However many requests find their connection closed, only a share of them is sent twice.
#[test]
fn automatic_retries_stay_within_the_budget() {
    let origin = Origin::serving(|_, read| drop(read()));
    let gateway = Gateway::forwarding(&origin, "", "", "runtime: { workers: 1 }");
    let mut client = gateway.client();
    let started = crate::support::now();
    for _ in 0..200 {
        assert_eq!(client.get("/", &[]).status, 502);
    }
    let seconds = usize::try_from(started.elapsed().as_secs()).unwrap() + 1;
    let repetitions = origin.received().len() - 200;
    assert!((10..=50 + seconds).contains(&repetitions), "{repetitions} in {seconds} s");
}

//! Endpoints that speak HTTP/2.

use std::{iter, thread};

use futures_util::future::join_all;
use http::Version;

use super::gateway;
use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, Frame, Frames, HEADERS, NO_ERROR, Outcome, RST_STREAM, block,
    frame, get, repeated, reset,
};
use crate::support::http::{Http, block_on, nothing, request};
use crate::support::{Backend, Endpoint, Speaks, eventually};

fn backend(max_streams: u32) -> (Backend, [String; 1]) {
    let backend = Backend::start(Speaks::Http2 { max_streams });
    let endpoint = format!("h2c://{}", backend.address());
    (backend, [endpoint])
}

#[test]
fn a_request_is_sent_as_http_2() {
    let (backend, endpoints) = backend(100);
    let gateway = gateway(&endpoints, "", "");
    let mut client = gateway.client();
    let fields = ["Connection: x-hop, keep-alive", "X-Hop: 1", "Keep-Alive: 5", "X-End: 1"];
    assert_eq!(client.request("POST", "/a?b=c", &fields, b"body").text(), "body");
    assert_eq!(client.get("/", &[]).status, 200);
    let seen = &backend.seen()[0];
    assert_eq!(seen.version, Version::HTTP_2);
    assert_eq!(seen.uri, "http://gateway.test/a?b=c", "the client's host, and its target");
    assert_eq!(seen.headers["x-end"], "1");
    assert_eq!(seen.headers["content-length"], "4");
    for gone in ["host", "connection", "x-hop", "keep-alive", "transfer-encoding"] {
        assert!(!seen.headers.contains_key(gone), "{gone}: {:?}", seen.headers);
    }
    assert_eq!(backend.connections(), 1);
}

#[test]
fn bodies_and_trailers_pass_both_ways() {
    let (backend, endpoints) = backend(100);
    let gateway = gateway(&endpoints, "", "");
    let mut client = gateway.client();
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    assert!(client.request("POST", "/", &[], &large).body == large);
    client.send(
        b"POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\
          Trailer: grpc-status\r\nConnection: close, TE\r\n\r\n2\r\nhi\r\n0\r\ngrpc-status: 0\r\n\r\n",
    );
    let answer = String::from_utf8(client.rest()).unwrap();
    let seen = backend.seen().pop().unwrap();
    assert_eq!((&seen.body[..], &seen.headers["te"]), (&b"hi"[..], &"trailers".parse().unwrap()));
    assert_eq!(seen.trailers.unwrap()["grpc-status"], "0");
    assert!(answer.to_lowercase().contains("\r\ngrpc-status: 0\r\n"), "{answer}");
}

#[test]
fn a_response_may_have_as_many_fields_as_over_http_1() {
    let (_backend, endpoints) = backend(100);
    let gateway = gateway(&endpoints, "", "");
    let mut client = gateway.client();
    let response = client.get("/fields/150", &[]);
    assert_eq!((response.status, response.field("x-field-149")), (200, Some("1")));
    let response = client.get("/fields/257", &[]);
    assert_eq!(response.status, 502);
    assert!(response.text().contains("more than 256 fields or 64 KiB"), "{}", response.text());
    assert_eq!(client.get("/", &[]).status, 200, "the connection stays");
}

/// The library would leave fields out of what it takes for too large.
#[test]
fn a_head_and_trailers_may_be_as_large_as_over_http_1() {
    let endpoint = Endpoint::answering(|_, request| {
        let status = frame(HEADERS, END_HEADERS, request.stream, &[0x88]);
        let last = |fields: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, request.stream, fields);
        let names: Vec<_> = (0..257).map(|number| format!("x-{number}")).collect();
        let many = names.iter().map(|name| (&**name, "1")).collect::<Vec<_>>();
        match (request.kind, request.stream) {
            (HEADERS, 1) => [status, last(&repeated(20))].concat(),
            (HEADERS, 3) => [status, last(&repeated(30))].concat(),
            (HEADERS, 5) => [status, last(&block(&many))].concat(),
            (HEADERS, 7) => last(&[&[0x88][..], &repeated(30)].concat()),
            _ => Vec::new(),
        }
    });
    let gateway = gateway(&[endpoint.url()], "", "");
    for (trailers, is_whole) in [("small", true), ("large", false), ("many", false)] {
        let mut client = Frames::connect(gateway.address());
        client.send(&get(1, "/"));
        let is_last = |it: &Frame| it.stream == 1 && (it.ends_stream() || it.kind == RST_STREAM);
        let last = iter::from_fn(|| client.next().expect("it answers in time")).find(is_last);
        let last = last.expect("the stream ends");
        assert_eq!(last.kind == HEADERS, is_whole, "{trailers}: {:?}", last.kind);
        assert_eq!(last.kind == RST_STREAM, !is_whole, "{trailers}: {:?}", last.kind);
    }
    let response = gateway.client().get("/", &[]);
    assert_eq!(response.status, 502);
    assert!(response.text().contains("more than 256 fields or 64 KiB"), "{}", response.text());
    assert_eq!(endpoint.connections(), 1);
}

/// END_STREAM has not come, so a part of the response is not the whole (RFC 9113, section 8.1).
#[test]
fn a_response_that_is_reset_without_an_error_is_incomplete() {
    let endpoint = Endpoint::answering(|_, request| {
        let part = [
            frame(HEADERS, END_HEADERS, request.stream, &[0x88]),
            frame(DATA, 0, request.stream, b"a part"),
            reset(request.stream, NO_ERROR),
        ];
        if request.kind == HEADERS { part.concat() } else { Vec::new() }
    });
    let gateway = gateway(&[endpoint.url()], "", "");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.try_response("GET");
    assert!(!matches!(&answer, Ok(Some(it)) if it.status == 200), "{answer:?}");
    let mut client = Frames::connect(gateway.address());
    client.send(&get(1, "/"));
    let mut outcome = client.outcome(1);
    if outcome == Outcome::Status(200) {
        outcome = client.outcome(1);
    }
    assert!(matches!(outcome, Outcome::Reset(code) if code != NO_ERROR), "{outcome:?}");
}

/// Concurrent requests share a connection. Another one is opened only when it is full.
#[test]
fn many_requests_share_few_connections() {
    for (max_streams, connections) in [(100, 1..=1), (2, 4..=8)] {
        let (backend, endpoints) = backend(max_streams);
        let gateway = gateway(&endpoints, "", "");
        assert_eq!(gateway.client().get("/", &[]).status, 200);
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| assert_eq!(gateway.client().get("/slow", &[]).status, 200));
                // The number of streams is known after the endpoint's settings.
                thread::sleep(std::time::Duration::from_millis(10));
            }
        });
        let opened = backend.connections();
        assert!(connections.contains(&opened), "{opened} for {max_streams} streams");
    }
}

/// More concurrent requests than all connections carry: they wait, and none is lost.
#[test]
fn concurrent_requests_wait_for_the_available_streams() {
    let (backend, endpoints) = backend(2);
    let gateway = gateway(&endpoints, "", "");
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        let asked = (0..60).map(|_| http.ask(request("GET", "/slow", nothing())));
        for answer in join_all(asked).await {
            assert_eq!(answer.unwrap().status, 200);
        }
    });
    assert_eq!(backend.seen().len(), 60);
}

#[test]
fn a_client_that_disconnects_cancels_only_its_request() {
    let (backend, endpoints) = backend(100);
    let gateway = gateway(&endpoints, "", "");
    assert_eq!(gateway.client().get("/", &[]).status, 200);
    let mut client = gateway.client();
    client.send(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n");
    thread::sleep(std::time::Duration::from_millis(50));
    drop(client);
    eventually("the stream is reset", || backend.abandoned() == 1);
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
    thread::sleep(std::time::Duration::from_millis(50));
    drop(client);
    eventually("the upload is reset", || backend.abandoned() == 2);
    assert_eq!(gateway.client().get("/", &[]).status, 200);
    assert_eq!(backend.connections(), 1);
}

#[test]
fn an_idle_connection_is_closed_after_its_timeout() {
    let (backend, endpoints) = backend(100);
    let gateway = gateway(&endpoints, "keep_alive: { idle: 100ms }", "");
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    let before = gateway.open_sockets();
    eventually("it is closed", || gateway.open_sockets() < before);
    assert_eq!(client.get("/", &[]).status, 200);
    assert_eq!(backend.connections(), 2);
}

#[test]
fn an_endpoint_without_http_2_is_a_bad_gateway() {
    let origin = crate::support::Origin::hello();
    let gateway = gateway(&[format!("h2c://{}", origin.address())], "", "");
    let response = gateway.client().get("/", &[]);
    assert_eq!((response.status, response.json()["source"].as_str()), (502, Some("upstream")));
}

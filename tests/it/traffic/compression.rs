//! Routes that compress responses.

use std::io::{Read, Write as _};
use std::sync::{Mutex, mpsc};

use flate2::read::GzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

use super::{endpoint, gateway, metric};
use crate::support::{Client, Gateway, Origin, PATIENCE, Response, eventually};

const GZIP: &str = "Accept-Encoding: gzip";
const COMPRESSED: &str = "tollgate_compressed_total";

/// Answers with this head and 4,000 bytes of text.
fn text(fields: &'static str) -> Origin {
    Origin::answering(move |request| {
        let body = "Some text. ".repeat(400)[..4000].to_owned();
        let body = if request.line().starts_with("HEAD") { "" } else { &body };
        format!("HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n{fields}\r\n\r\n{body}")
    })
}

fn start(origin: &Origin, compress: &str) -> Gateway {
    let route = format!("upstream: app, compress: {compress}");
    gateway(&[("app", endpoint(origin.address()))], &route, "runtime: { workers: 1 }")
}

fn decompressed(response: &Response) -> String {
    let mut text = String::new();
    GzDecoder::new(&*response.body).read_to_string(&mut text).expect("it is gzip");
    text
}

#[test]
fn a_client_that_accepts_gzip_gets_it_and_others_get_the_same_text() {
    let origin =
        text("Content-Type: text/plain; charset=utf-8\r\nETag: \"a\"\r\nAccept-Ranges: bytes");
    let gateway = start(&origin, "{}");
    let mut client = gateway.client();
    let plain = client.get("/", &[]);
    assert_eq!(plain.field("content-encoding"), None);
    assert_eq!((plain.field("etag"), plain.field("content-length")), (Some("\"a\""), Some("4000")));
    let compressed = client.get("/", &[GZIP]);
    assert_eq!(compressed.field("content-encoding"), Some("gzip"));
    assert_eq!(compressed.field("etag"), Some("W/\"a\""));
    assert_eq!(
        (compressed.field("content-length"), compressed.field("accept-ranges")),
        (None, None)
    );
    for response in [&plain, &compressed] {
        assert_eq!(response.field("vary"), Some("accept-encoding"));
    }
    assert!(compressed.body.len() < 400, "{} bytes", compressed.body.len());
    assert_eq!(decompressed(&compressed), plain.text());
    let head = client.request("HEAD", "/", &[GZIP], b"");
    assert_eq!((head.status, head.field("vary")), (200, Some("accept-encoding")));
    // What it says is true of the response to GET.
    assert_eq!((head.field("etag"), head.field("content-length")), (Some("W/\"a\""), None));
    let head = client.request("HEAD", "/", &[], b"");
    assert_eq!((head.field("etag"), head.field("content-length")), (Some("\"a\""), Some("4000")));
    // The log has what was sent.
    let lines = gateway.access_lines(4);
    assert_eq!(
        (&lines[0]["bytes"], &lines[1]["bytes"]),
        (&4000.into(), &compressed.body.len().into())
    );
    assert_eq!(metric(&gateway, COMPRESSED, &["result=\"gzip\""]), 1.0);
    // The upstream is asked as the client asks.
    assert_eq!(origin.received()[1].fields("accept-encoding"), ["gzip"]);
}

#[test]
fn of_two_encodings_the_client_chooses() {
    let origin = text("Content-Type: text/plain");
    let gateway = start(&origin, "{ encodings: [zstd, gzip] }");
    let mut client = gateway.client();
    let plain = client.get("/", &[]).text();
    for (accepted, encoding) in [
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("zstd;q=0.5, gzip", Some("gzip")),
        ("br", None),
    ] {
        let response = client.get("/", &[&format!("Accept-Encoding: {accepted}")]);
        assert_eq!(response.field("content-encoding"), encoding, "{accepted}");
        let text = match encoding {
            Some(encoding) => readable(encoding, &response.body),
            None => response.text(),
        };
        assert_eq!(text, plain, "{accepted}");
    }
    assert_eq!(metric(&gateway, COMPRESSED, &["result=\"zstd\""]), 1.0);
}

#[test]
fn responses_that_must_stay_as_they_are_stay_so() {
    for (fields, compress) in [
        ("Content-Type: image/png", "{}"),
        ("Content-Type: text/plain\r\nContent-Encoding: br", "{}"),
        ("Content-Type: text/plain\r\nCache-Control: no-transform", "{}"),
        ("Content-Type: text/plain\r\nContent-Digest: sha-256=:AA==:", "{}"),
        ("Content-Type: application/grpc", "{ types: [application/*] }"),
        ("Content-Type: text/plain", "{ min_size: 4001 }"),
        ("Content-Type: text/plain", "{ types: [text/html] }"),
    ] {
        let gateway = start(&text(fields), compress);
        let response = gateway.client().get("/", &[GZIP]);
        assert_ne!(response.field("content-encoding"), Some("gzip"), "{fields} {compress}");
        assert_eq!((response.field("vary"), response.body.len()), (None, 4000), "{fields}");
    }
}

#[test]
fn a_304_has_the_weak_validator_of_the_compressed_form() {
    let origin =
        Origin::answering(|_| "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n".to_owned());
    let gateway = start(&origin, "{}");
    let response = gateway.client().get("/", &[GZIP, "If-None-Match: W/\"a\""]);
    assert_eq!((response.status, response.field("etag")), (304, Some("W/\"a\"")));
    assert_eq!(response.field("vary"), Some("accept-encoding"));
}

#[test]
fn defaults_hold_for_routes_that_do_not_say_otherwise() {
    let yaml = "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         defaults: { compress: { min_size: 4 } }\n\
         routes:\n\
         - { path: \"/none\", respond: { body: a body }, compress: none }\n\
         - { path: \"/own\", respond: { body: a body }, compress: { min_size: 7 } }\n\
         - { path: \"/*\", respond: { body: a body } }\n";
    let gateway = Gateway::start(yaml);
    let mut client = gateway.client();
    for (path, encoding) in [("/none", None), ("/own", None), ("/x", Some("gzip"))] {
        assert_eq!(client.get(path, &[GZIP]).field("content-encoding"), encoding, "{path}");
    }
    assert_eq!(decompressed(&client.get("/x", &[GZIP])), "a body");
}

/// Acceptance 10 of the contract: each event comes before the next one was sent, and the cost in
/// the response is the same.
#[test]
fn events_come_singly_and_their_cost_is_measured() {
    ["gzip", "zstd"].into_iter().for_each(check_events);
}

fn check_events(encoding: &str) {
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let origin = Origin::serving(move |stream, read| {
        while read().is_some() {
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
            for event in ["data: one\n\n", "data: two\n\n", "data: {\"tokens\": 30}\n\n"] {
                let chunk = format!("{:x}\r\n{event}\r\n", event.len());
                let _ = stream.write_all(chunk.as_bytes());
                let _ = may_go.lock().map(|may_go| may_go.recv_timeout(PATIENCE));
            }
            let _ = stream.write_all(b"0\r\n\r\n");
        }
    });
    let top = "policies: { p: { key: ip, limit: 100/day, \
               cost: { reserve: 1, settle: { sse_json: /tokens } } } }";
    let route = "upstream: app, policies: [p], compress: { encodings: [zstd, gzip] }";
    let gateway = gateway(&[("app", endpoint(origin.address()))], route, top);
    let mut client = gateway.client();
    client.send(
        format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {encoding}\r\n\r\n").as_bytes(),
    );
    assert_eq!(client.head().field("content-encoding"), Some(encoding));
    let mut received = Vec::new();
    let mut expected = String::new();
    for event in ["data: one\n\n", "data: two\n\n", "data: {\"tokens\": 30}\n\n"] {
        expected.push_str(event);
        while readable(encoding, &received) != expected {
            received.extend(chunk(&mut client));
        }
        go.send(()).expect("the origin waits");
    }
    while let Ok(Some(more)) = client.chunk() {
        received.extend(more);
    }
    assert_eq!(readable(encoding, &received), expected);
    // The next request sees what the first one has cost.
    (0..3).for_each(|_| go.send(()).expect("the origin waits"));
    eventually("the cost is settled", || gateway.access_lines(1)[0]["bytes"] != 0);
    let response = client.get("/", &[]);
    assert_eq!(response.number("x-ratelimit-remaining"), 100 - 30 - 1);
}

fn chunk(client: &mut Client) -> Vec<u8> {
    client.chunk().expect("the body goes on").expect("it has not ended")
}

/// What can be decompressed of the beginning of a body.
fn readable(encoding: &str, compressed: &[u8]) -> String {
    let mut decoder: Box<dyn Read> = match encoding {
        "gzip" => Box::new(GzDecoder::new(compressed)),
        _ => Box::new(ZstdDecoder::new(compressed).expect("there is memory")),
    };
    let mut text = Vec::new();
    let mut byte = [0];
    while let Ok(1) = decoder.read(&mut byte) {
        text.push(byte[0]);
    }
    String::from_utf8(text).expect("it is text")
}

/// The bound of bodies that are compressed at the same time is that of the code.
#[test]
fn responses_beyond_the_bound_are_passed_on_as_they_are() {
    let origin = Origin::serving(|stream, read| {
        read();
        let _ = stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ntext\r\n",
        );
        // The body does not end before its client leaves.
        read();
    });
    let gateway = start(&origin, "{}");
    let mut clients: Vec<_> = (0..256)
        .map(|_| {
            let mut client = gateway.client();
            client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{GZIP}\r\n\r\n").as_bytes());
            assert_eq!(client.head().field("content-encoding"), Some("gzip"));
            client
        })
        .collect();
    let encoding = || {
        let mut client = gateway.client();
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{GZIP}\r\n\r\n").as_bytes());
        let head = client.head();
        assert_eq!((head.status, head.field("vary")), (200, Some("accept-encoding")));
        head.field("content-encoding").map(str::to_owned)
    };
    assert_eq!(encoding(), None);
    assert_eq!(metric(&gateway, COMPRESSED, &["result=\"busy\""]), 1.0);
    clients.pop();
    eventually("a place is free", || encoding().is_some());
}

/// Regression: if a body broke off at once, its client got nothing at all.
#[test]
fn a_compressed_body_that_breaks_off_gives_what_has_come() {
    // What is no chunk comes with the first one.
    let origin = Origin::answering(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked";
        format!("{head}\r\n\r\n5\r\nfirst\r\nno chunk\r\n")
    });
    let gateway = start(&origin, "{}");
    let mut client = gateway.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{GZIP}\r\n\r\n").as_bytes());
    let head = client.head();
    assert_eq!((head.status, head.field("content-encoding")), (200, Some("gzip")));
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = client.chunk() {
        body.extend(chunk);
    }
    let mut text = Vec::new();
    assert!(GzDecoder::new(&*body).read_to_end(&mut text).is_err(), "it is not whole");
    assert_eq!(text, b"first");
}

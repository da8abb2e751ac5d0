//! A body that was read is forwarded byte for byte, in its framing.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Frame;

use super::{ADMIN, JSON, body_memory, once_a_day, send, with_top};
use crate::support::http::{Http, block_on, request, streamed, whole};
use crate::support::{Backend, Gateway, Origin, Speaks, eventually};

/// Admits every model, and needs it.
const POLICY: &str = "key: \"json:/model\", missing_key: deny, limit: 1000/day";

fn gateway(origin: &Origin) -> Gateway {
    Gateway::start(&config(&format!("http://{}", origin.address()), "read_body: { max: 8MiB }"))
}

fn config(endpoint: &str, route: &str) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: \"{endpoint}\" }}\n\
         policies: {{ p: {{ {POLICY} }} }}\n\
         routes: [{{ path: /*, policies: [p], upstream: app, {route} }}]\n"
    )
}

/// A document of about this size, with blanks and escapes that must stay.
fn document(size: usize) -> Vec<u8> {
    let text: String = ('a'..='z').cycle().take(size).collect();
    format!(" {{ \"x\" : \"\\u00e9{text}\" ,\r\n \"model\":\"m\\/1\" }} \n").into_bytes()
}

#[test]
fn a_body_keeps_its_length_or_its_chunks() {
    let origin = Origin::hello();
    let gateway = gateway(&origin);
    let sizes = [0, 1, 1000, 1023, 1024, 5000, 70_000, 1_000_000, 5_000_000];
    let mut client = gateway.client();
    for size in sizes {
        let body = document(size);
        let response = client.request("POST", "/", &[JSON], &body);
        assert_eq!(response.status, 200, "{size}");
        let received = origin.received().pop().expect("it was forwarded");
        assert_eq!(received.fields("content-length"), [body.len().to_string()], "{size}");
        assert!(received.fields("transfer-encoding").is_empty() && received.body == body);
    }
    for size in sizes {
        let body = document(size);
        let chunks: Vec<&[u8]> = body.chunks(body.len().div_ceil(7)).collect();
        client.send(&super::chunked("Content-Type: application/json\r\n", &chunks));
        assert_eq!(client.response("POST").status, 200, "{size}");
        let received = origin.received().pop().expect("it was forwarded");
        assert_eq!(received.fields("transfer-encoding"), ["chunked"], "{size}");
        assert!(received.fields("content-length").is_empty() && received.body == body);
    }
    assert_eq!(client.request("GET", "/", &[], b"").status, 403, "the connection is in order");
}

#[test]
fn a_body_passes_between_both_versions_with_its_trailers() {
    for (scheme, speaks) in [("http", Speaks::Http1), ("h2c", Speaks::Http2 { max_streams: 9 })] {
        let backend = Backend::start(speaks);
        let endpoint = format!("{scheme}://{}", backend.address());
        let gateway = Gateway::start(&config(&endpoint, "read_body: { max: 8MiB }"));
        let body = document(200_000);
        block_on(async {
            let client = Http::prior_knowledge(gateway.address()).await;
            let plain =
                client.ask(request("POST", "/", whole(body.clone()))).await.expect("it passes");
            assert_eq!(plain.status, 200, "{endpoint}");
            let (frames, outgoing) = streamed();
            let mut request = request("POST", "/", outgoing);
            request.headers_mut().insert("trailer", "x-checksum".parse().expect("a value"));
            let answer = client.send(request);
            let sending = async {
                for piece in body.chunks(3000) {
                    let piece = Bytes::copy_from_slice(piece);
                    frames.send(Frame::data(piece)).await.expect("the body is read");
                }
                let mut trailers = http::HeaderMap::new();
                trailers.insert("x-checksum", "1".parse().expect("a value"));
                frames.send(Frame::trailers(trailers)).await.expect("the body is read");
                drop(frames);
            };
            let (answer, ()) = tokio::join!(answer, sending);
            let answer = answer.expect("it passes");
            assert_eq!(answer.status(), 200, "{endpoint}");
            drop(answer.into_body().collect().await);
        });
        let seen = backend.seen();
        assert_eq!(seen.len(), 2, "{endpoint}");
        for request in &seen {
            assert!(request.body == body, "{endpoint}");
        }
        assert!(seen[0].trailers.is_none(), "{endpoint}");
        let trailers = seen[1].trailers.as_ref().expect("trailers");
        assert_eq!(trailers["x-checksum"], "1", "{endpoint}");
    }
}

#[test]
fn trailers_of_chunks_pass() {
    let backend = Backend::start(Speaks::Http1);
    let endpoint = format!("http://{}", backend.address());
    let gateway = Gateway::start(&config(&endpoint, ""));
    let body = "{\"model\":1}";
    let request = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nTrailer: x-checksum\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\nx-checksum: 1\r\n\r\n",
        body.len()
    );
    assert_eq!(send(&gateway, request.as_bytes()).status, 200);
    let seen = backend.seen().pop().expect("it was forwarded");
    assert_eq!(seen.body, body.as_bytes());
    assert_eq!(seen.trailers.expect("trailers")["x-checksum"], "1");
}

#[test]
fn a_client_that_waits_is_told_to_continue() {
    let origin = Origin::hello();
    let gateway = gateway(&origin);
    let mut client = gateway.client();
    let body = b"{\"model\":1}";
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes());
    assert_eq!(client.head().status, 100);
    client.send(body);
    assert_eq!(client.response("POST").status, 200);
    let received = origin.received().pop().expect("it was forwarded");
    assert!(received.fields("expect").is_empty() && received.body == body);
}

#[test]
fn a_body_that_is_too_large_to_read_streams_if_the_route_says_so() {
    let origin = Origin::hello();
    let policy = "key: \"json:/model\", missing_key: skip";
    let gateway = once_a_day(&origin, policy, "read_body: { max: 4KiB, over: missing }");
    let body = document(300_000);
    let mut client = gateway.client();
    for _ in 0..2 {
        assert_eq!(client.request("POST", "/", &[JSON], &body).status, 200);
        client.send(&super::chunked("", &body.chunks(1000).collect::<Vec<_>>()));
        assert_eq!(client.response("POST").status, 200);
    }
    assert!(origin.received().iter().all(|request| request.body == body));
}

#[test]
fn a_held_body_is_sent_again() {
    let backend = Backend::start(Speaks::Http1);
    let endpoint = format!("http://{}", backend.address());
    let gateway = Gateway::start(&config(&endpoint, "retries: { on: [503], methods: [POST] }"));
    let body = document(20_000);
    let response = gateway.client().request("POST", "/503", &[JSON], &body);
    assert_eq!(response.status, 503);
    let seen = backend.seen();
    assert!(seen.len() > 1 && seen.iter().all(|request| request.body == body));
}

#[test]
fn the_memory_of_a_body_comes_back() {
    let origin = Origin::hello();
    let gateway = with_top(&origin, POLICY, "read_body: { max: 8MiB }", ADMIN);
    let mut client = gateway.client();
    for size in [10, 100_000, 3_000_000] {
        assert_eq!(client.request("POST", "/", &[JSON], &document(size)).status, 200);
    }
    assert_eq!(client.request("POST", "/", &[JSON], b"{").status, 400);
    drop(client);
    eventually("nothing is held", || body_memory(&gateway) == 0);
}

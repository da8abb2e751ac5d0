//! What is held of bodies has bounds: of a body, of all bodies, and in time.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{ADMIN, JSON, body_memory, once_a_day, post, with_top};
use crate::support::{Client, Gateway, Origin, eventually};

pub(super) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).expect("memory can be written to");
    encoder.finish().expect("memory can be written to")
}

pub(super) fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A client that has sent the beginning of a body, and waits.
fn slow(gateway: &Gateway, beginning: &[u8]) -> Client {
    let mut client = gateway.client();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
                Content-Length: 900000\r\n\r\n";
    client.send(&[head.as_bytes(), beginning].concat());
    client
}

/// Other requests over a new connection: with a body that is not read, and without one.
fn others_pass(gateway: &Gateway) {
    let mut client = gateway.client();
    let streamed = client.request("POST", "/", &["Content-Type: text/plain"], &[b'z'; 100_000]);
    assert_eq!((streamed.status, client.get("/", &[]).status), (200, 200));
}

#[test]
fn slow_bodies_stay_within_the_memory_for_bodies() {
    let origin = Origin::hello();
    let top = format!("{ADMIN}\nruntime: {{ body_memory: 1MiB, workers: 2 }}");
    let policy = "key: \"json:/model\", missing_key: skip";
    let gateway = with_top(&origin, policy, "", &top);
    others_pass(&gateway);
    let before = gateway.peak_kib();
    let beginning = [b"{\"x\":\"", &[b'y'; 3000][..]].concat();
    let mut clients: Vec<Client> = (0..1000).map(|_| slow(&gateway, &beginning)).collect();
    // A block of 3 KiB for each: most of them find no room.
    eventually("the memory is in use", || body_memory(&gateway) > 1_000_000);
    assert!(body_memory(&gateway) <= 1024 * 1024);
    let refused = post(&gateway, &[JSON], &[b"{\"x\":\"", &[b'y'; 30_000][..]].concat());
    assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")));
    let lines = gateway.access_lines(202);
    for line in lines.iter().filter(|line| line["status"] != 200) {
        assert_eq!((&line["outcome"], &line["status"]), (&"body_memory".into(), &503.into()));
    }
    others_pass(&gateway);
    // What they send further does not change the bound: of all, and of the process. A connection has
    // buffers too, which have bounds of their own.
    for _ in 0..8 {
        clients.iter_mut().for_each(|client| client.send(&[b'y'; 4000]));
        assert!(body_memory(&gateway) <= 1024 * 1024);
    }
    others_pass(&gateway);
    let grown = gateway.peak_kib() - before;
    assert!(grown < 64 * 1024, "{grown} KiB more than {before}");
    drop(clients);
    eventually("the memory is free", || body_memory(&gateway) == 0);
    assert_eq!(post(&gateway, &[JSON], b"{\"model\":\"m\"}").status, 200);
}

#[test]
fn a_body_that_grows_too_large_without_its_compression_is_refused() {
    let origin = Origin::hello();
    let policy = "key: \"json:/model\"";
    let top = format!("{ADMIN}\nruntime: {{ workers: 1 }}");
    let gateway = with_top(&origin, policy, "read_body: { max: 1MiB }", &top);
    let bomb = [b"{\"model\":\"", &vec![b'a'; 64 * 1024 * 1024][..], b"\"}"].concat();
    for (coding, body) in [("gzip", gzip(&bomb)), ("zstd", zstd(&bomb))] {
        assert!(body.len() < 1024 * 1024, "{coding}: {}", body.len());
        let response = post(&gateway, &[JSON, &format!("Content-Encoding: {coding}")], &body);
        assert_eq!(response.status, 413, "{coding}");
    }
    assert!(gateway.peak_kib() < 100 * 1024, "{} KiB", gateway.peak_kib());
    assert_eq!(post(&gateway, &[JSON], &bomb[..2_000_000]).status, 413);
    eventually("nothing is held", || body_memory(&gateway) == 0);
}

#[test]
fn a_route_may_allow_smaller_bodies_than_it_reads() {
    let origin = Origin::hello();
    let gateway = once_a_day(&origin, "key: \"json:/model\"", "max_body: 2KiB");
    let body = format!("{{\"model\":\"{}\"}}", "x".repeat(3000));
    assert_eq!(post(&gateway, &[JSON], body.as_bytes()).status, 413);
    assert_eq!(super::send(&gateway, &super::chunked("", &[body.as_bytes()])).status, 413);
    assert_eq!(post(&gateway, &[JSON], &body.as_bytes()[..500]).status, 400);
}

#[test]
fn a_client_that_stops_in_its_body_is_not_awaited_for_ever() {
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", timeouts: {{ request_body: 200ms }} }}]\n\
         {ADMIN}\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         policies: {{ p: {{ key: \"json:/model\", limit: 5/day }} }}\n\
         routes:\n\
         - {{ path: /short/*, policies: [p], upstream: app, timeouts: {{ request: 100ms }} }}\n\
         - {{ path: /*, policies: [p], upstream: app }}\n",
        origin.address()
    ));
    let mut client = slow(&gateway, b"{");
    assert_eq!(client.response("POST").status, 408);
    let mut client = gateway.client();
    client.send(b"POST /short/ HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{");
    let status = client.response("POST").status;
    assert!(matches!(status, 408 | 504), "{status}: whichever is first on a busy machine");
    let mut leaving = slow(&gateway, b"{");
    eventually("it is held", || body_memory(&gateway) > 0);
    leaving.shutdown(std::net::Shutdown::Both);
    eventually("nothing is held", || body_memory(&gateway) == 0);
    assert!(origin.received().is_empty());
}

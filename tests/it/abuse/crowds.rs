//! Many connections at once, silent or with endless heads, and one that never pauses.

use std::path::Path;
use std::thread;

use rustix::process::{Resource, getrlimit};

use super::{UNREMARKABLE, effect_of, gateway, withstands};
use crate::support::frames::{Frames, PREFACE, settings};
use crate::support::{Gateway, Origin};

/// Ten thousand, or fewer if the limit on open files is lower.
fn crowd() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let files = limit.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
    // Other tests use some of the files.
    (files / 2).min(10_000)
}

/// Opens many connections that send only this. A build without optimisation needs 14 KiB
/// for one of HTTP/1 and 33 KiB for one of HTTP/2.
fn assert_cheap(first: &[u8], most_mib: usize) {
    let origin = Origin::hello();
    let gateway = gateway(&origin, "max_connections: 20000, timeouts: { request_head: 1h }");
    let effect = effect_of(&gateway, || {
        let mut clients = Vec::new();
        for _ in 0..crowd() {
            let mut client = Frames::silent(gateway.address());
            client.send(first);
            clients.push(client);
        }
    });
    // The crowd comes as fast as the machine can open connections. A machine that is slow or busy
    // needs longer for that, and for all else. A client that is not served waits for the whole crowd.
    effect.is_small(most_mib, UNREMARKABLE.max(effect.attack / 4));
}

#[test]
fn many_silent_connections_need_little_memory() {
    assert_cheap(b"", 256);
}

#[test]
fn many_connections_that_begin_http_2_need_little_memory() {
    assert_cheap(&[PREFACE, &settings(&[])].concat(), 512);
}

#[test]
fn endless_heads_are_refused_and_need_little_memory() {
    let origin = Origin::hello();
    let gateway = gateway(&origin, "");
    let head = [b"GET / HTTP/1.1\r\nHost: a\r\nX-Large: ", &[b'x'; 1_000_000][..]].concat();
    withstands(&gateway, 32, || {
        for _ in 0..20 {
            let mut client = gateway.client();
            client.send(&head);
            client.rest();
        }
    });
}

/// A certificate that signs itself, and its key, in files of this directory.
fn certificate(directory: &Path) -> String {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let signed = signed.expect("it is a good name");
    let cert = directory.join("cert.pem");
    let key = directory.join("key.pem");
    std::fs::write(&cert, signed.cert.pem()).expect("a file");
    std::fs::write(&key, signed.signing_key.serialize_pem()).expect("a file");
    format!("tls: {{ certificates: [{{ cert: {cert:?}, key: {key:?} }}] }}")
}

#[test]
fn stalled_handshakes_are_closed() {
    let origin = Origin::hello();
    let directory = tempfile::tempdir().expect("a directory");
    let tls = certificate(directory.path());
    let gateway = Gateway::start(&format!(
        "listeners:\n- {{ address: \"127.0.0.1:0\" }}\n\
         - {{ address: \"127.0.0.1:0\", {tls}, timeouts: {{ handshake: 200ms }} }}\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\n\
         runtime: {{ workers: 1 }}\n",
        origin.address()
    ));
    // The header of a record with 512 bytes of a ClientHello.
    let begun = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    withstands(&gateway, 32, || {
        let stalling: Vec<_> = (0..200)
            .map(|number| {
                let mut client = Frames::silent(gateway.encrypted_address());
                client.send(&begun[..number % begun.len()]);
                client
            })
            .collect();
        thread::scope(|scope| {
            scope.spawn(|| stalling.into_iter().for_each(|mut client| assert!(client.ends())));
        });
    });
}

/// Each packet also contains a part of the next request.
#[test]
fn requests_that_never_end_with_a_packet_do_not_accumulate() {
    let origin = Origin::hello();
    let gateway = gateway(&origin, "");
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "x".repeat(30_000));
    let (begin, rest) = request.as_bytes().split_at(100);
    withstands(&gateway, 16, || {
        let mut client = gateway.client();
        client.send(begin);
        for _ in 0..1500 {
            client.send(&[rest, begin].concat());
            assert_eq!(client.response("GET").status, 200);
        }
    });
}

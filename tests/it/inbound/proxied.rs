//! The PROXY protocol: trusted load balancers, and only these, name the client.

use std::io::{Read as _, Write as _};
use std::thread;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::limiting;
use crate::support::http::{Http, block_on};
use crate::support::{Certificates, Gateway, Origin, TlsClient};

const TRUSTING: &str = "client: { trusted_proxies: [127.0.0.0/8] }";

fn start(origin: &Origin, listener: &str, top: &str) -> Gateway {
    let listener = format!("proxy_protocol: true, {listener}");
    let endpoint = format!("http://{}", origin.address());
    limiting(&listener, &endpoint, "key: ip, limit: 2/day", top)
}

/// Version 1: a client at this address that connected to port 443 of a load balancer.
fn text(client: &str) -> Vec<u8> {
    format!("PROXY TCP4 {client} 10.0.0.1 5000 443\r\n").into_bytes()
}

/// Version 2: the same, possibly with another command than PROXY.
fn binary(command: u8, client: [u8; 4]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([0x20 | command, 0x11, 0, 12]);
    header.extend(client);
    header.extend([10, 0, 0, 1, 0x13, 0x88, 0x01, 0xbb]);
    header
}

/// The status of a request after this header, on a connection of its own.
fn ask(gateway: &Gateway, header: &[u8], fields: &[&str]) -> u16 {
    let mut client = gateway.client();
    client.send(header);
    client.get("/", fields).status
}

#[test]
fn the_client_that_a_load_balancer_names_is_counted_and_forwarded() {
    let origin = Origin::hello();
    let gateway = start(&origin, "", TRUSTING);
    assert_eq!(ask(&gateway, &text("192.0.2.7"), &[]), 200);
    assert_eq!(ask(&gateway, &binary(1, [192, 0, 2, 7]), &[]), 200);
    assert_eq!(ask(&gateway, &text("192.0.2.7"), &[]), 429);
    assert_eq!(ask(&gateway, &binary(1, [192, 0, 2, 7]), &[]), 429);
    assert_eq!(ask(&gateway, &text("192.0.2.8"), &[]), 200, "another client");
    let forged = ["X-Forwarded-For: 192.0.2.9"];
    assert_eq!(
        ask(&gateway, &text("192.0.2.7"), &forged),
        429,
        "a client cannot choose its address"
    );
    let named = ["192.0.2.7", "192.0.2.7", "192.0.2.8"];
    let received = origin.received();
    assert_eq!(received.len(), named.len());
    for (request, client) in received.iter().zip(named) {
        assert_eq!(request.fields("x-forwarded-for"), [client]);
        assert_eq!(request.fields("x-forwarded-port"), ["443"]);
        assert_eq!(request.fields("x-forwarded-proto"), ["http"]);
    }
}

#[test]
fn a_header_may_come_in_pieces() {
    let origin = Origin::hello();
    let gateway = start(&origin, "", TRUSTING);
    for header in [text("192.0.2.7"), binary(1, [192, 0, 2, 7])] {
        let mut client = gateway.client();
        for byte in header {
            client.send(&[byte]);
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(client.get("/", &[]).status, 200);
    }
    assert_eq!(ask(&gateway, &text("192.0.2.7"), &[]), 429, "both were the same client");
}

#[test]
fn the_header_comes_before_tls_and_before_http_2() {
    let directory = tempfile::tempdir().unwrap();
    let made = Certificates::make(directory.path(), "gateway.test");
    let cert = made.server();
    let key = made.server_key();
    let origin = Origin::hello();
    let tls = format!("tls: {{ certificates: [{{ cert: {cert:?}, key: {key:?} }}] }}");
    let plain = start(&origin, "", TRUSTING);
    let secure = start(&origin, &tls, TRUSTING);
    block_on(async {
        for header in [text("192.0.2.7"), binary(1, [192, 0, 2, 7])] {
            let mut stream = TcpStream::connect(secure.address()).await.unwrap();
            stream.write_all(&header).await.unwrap();
            let client = TlsClient::offering(&made, &["h2"]);
            let stream = client.over(stream, "gateway.test").await.unwrap();
            assert_eq!(Http::http2(stream).await.unwrap().get("/").await.status, 200);

            let mut stream = TcpStream::connect(plain.address()).await.unwrap();
            stream.write_all(&header).await.unwrap();
            assert_eq!(Http::http2(stream).await.unwrap().get("/").await.status, 200);
        }
    });
    let received = origin.received();
    assert_eq!(received.len(), 4);
    for (request, protocol) in received.iter().zip(["https", "http"].into_iter().cycle()) {
        assert_eq!(request.fields("x-forwarded-for"), ["192.0.2.7"]);
        assert_eq!(request.fields("x-forwarded-proto"), [protocol]);
    }
}

#[test]
fn bytes_in_one_piece_with_the_header_are_read() {
    let origin = Origin::hello();
    let gateway = start(&origin, "", TRUSTING);
    for header in [text("192.0.2.7"), binary(1, [192, 0, 2, 7])] {
        let whole = [&header[..], b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
        let mut client = gateway.client();
        client.send(&whole);
        assert_eq!(client.response("GET").status, 200);

        // The preface, and SETTINGS without any.
        let whole = [&header[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"].concat();
        let mut stream = std::net::TcpStream::connect(gateway.address()).unwrap();
        stream.write_all(&whole).unwrap();
        let mut frame = [0; 9];
        stream.read_exact(&mut frame).unwrap();
        assert_eq!(frame[3], 4, "HTTP/2 begins with SETTINGS: {frame:?}");
    }
}

#[test]
fn only_trusted_load_balancers_may_connect() {
    let origin = Origin::hello();
    let gateway = start(&origin, "", "client: { trusted_proxies: [192.0.2.0/24] }");
    for first in [text("192.0.2.7"), binary(1, [192, 0, 2, 7]), Vec::new()] {
        let mut client = gateway.client();
        client.send(&first);
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.rest(), b"");
    }
    assert!(origin.received().is_empty());
}

#[test]
fn a_connection_without_a_valid_header_is_closed() {
    let origin = Origin::hello();
    let gateway = start(&origin, "timeouts: { handshake: 200ms }", TRUSTING);
    let mut too_long = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff".to_vec();
    too_long.resize(8 * 1024, 0);
    let mut endless = text("192.0.2.7");
    endless.splice(5..5, [b' '; 200]);
    for (what, first) in [
        ("no header", Vec::new()),
        ("a line that ends in LF alone", b"PROXY UNKNOWN \n".to_vec()),
        ("another protocol", b"PROXY UDP4 192.0.2.7 10.0.0.1 5000 443\r\n".to_vec()),
        ("no address", text("192.0.2")),
        ("version 3", b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0".to_vec()),
        ("a header that is too long", too_long),
        ("a line that is too long", endless),
    ] {
        let mut client = gateway.client();
        client.send(&first);
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.rest(), b"", "{what}");
    }
    for slow in [&text("192.0.2.7")[..20], &binary(1, [192, 0, 2, 7])[..20], b""] {
        let mut client = gateway.client();
        client.send(slow);
        assert!(client.is_closed(), "{slow:?}");
    }
    assert!(origin.received().is_empty());
    assert_eq!(ask(&gateway, &text("192.0.2.7"), &[]), 200, "others are served");
}

#[test]
fn a_load_balancer_that_connects_for_itself_is_the_client() {
    let origin = Origin::hello();
    let gateway = start(&origin, "", TRUSTING);
    assert_eq!(ask(&gateway, &binary(0, [192, 0, 2, 7]), &[]), 200);
    assert_eq!(ask(&gateway, b"PROXY UNKNOWN\r\n", &[]), 200);
    assert_eq!(ask(&gateway, b"PROXY UNKNOWN\r\n", &[]), 429, "they are one client");
    for request in origin.received() {
        assert_eq!(request.fields("x-forwarded-for"), ["127.0.0.1"]);
    }
}

/// The client of such a connection is unknown.
#[test]
fn a_balancer_that_does_not_say_for_whom_it_speaks_is_no_trusted_proxy() {
    let origin = Origin::hello();
    let gateway = start(&origin, "", TRUSTING);
    let forged = ["X-Forwarded-For: 192.0.2.1"];
    for header in [b"PROXY UNKNOWN\r\n".to_vec(), binary(0, [192, 0, 2, 7])] {
        assert!(ask(&gateway, &header, &forged) < 500);
    }
    let statuses: Vec<_> = (2..6)
        .map(|n| ask(&gateway, b"PROXY UNKNOWN\r\n", &[&format!("X-Forwarded-For: 192.0.2.{n}")]))
        .collect();
    assert_eq!(statuses, [429; 4], "they cannot choose a counter");
    for request in origin.received() {
        assert_eq!(request.fields("x-forwarded-for"), ["127.0.0.1"]);
    }
}

//! Upstreams that fail, and requests that stop arriving: each has its own response.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;
use tokio::task::{JoinHandle, spawn_local};

use crate::support::http::{Http, block_on, nothing, request, soon};
use crate::support::{Gateway, Origin, PATIENCE, Reserved, Response, eventually};

/// An origin that reads a request, writes these bytes and closes.
fn saying(bytes: &'static str) -> Origin {
    Origin::serving(move |stream, read| {
        read();
        let _ = stream.write_all(bytes.as_bytes());
    })
}

/// An origin that reads a request, writes these bytes, and then sends nothing more.
fn stalling_after(bytes: &'static str) -> Origin {
    Origin::serving(move |stream, read| {
        read();
        let _ = stream.write_all(bytes.as_bytes());
        // Until the gateway closes the connection.
        read();
    })
}

fn assert_failed(response: &Response, status: u16, detail: &str) {
    let problem = response.json();
    assert_eq!(response.status, status, "{problem:#}");
    assert_eq!(problem["source"], "upstream");
    assert!(problem["detail"].as_str().unwrap_or_default().contains(detail), "{problem:#}");
}

/// A response with so many fields.
fn with_fields(count: usize) -> String {
    let fields: String = (1..count).map(|n| format!("X-Field-{n}: {n}\r\n")).collect();
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n\r\nok")
}

#[test]
fn a_response_may_have_many_fields_and_one_with_too_many_says_so() {
    for count in [150, 256] {
        let origin = Origin::answering(move |_| with_fields(count));
        let gateway = Gateway::forwarding(&origin, "", "", "");
        let response = gateway.client().get("/", &[]);
        assert_eq!((response.status, response.text().as_str()), (200, "ok"), "{count}");
        assert_eq!(response.field("x-field-149"), Some("149"));
    }
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "x".repeat(64 * 1024));
    for said in [with_fields(257), long] {
        let origin = Origin::answering(move |_| said.clone());
        let gateway = Gateway::forwarding(&origin, "", "", "");
        let response = gateway.client().get("/", &[]);
        assert_failed(&response, 502, "more than 256 fields or 64 KiB");
        eventually("the log says so", || {
            let log = gateway.log();
            log.contains("more than 256 fields or 64 KiB") && log.contains("upstream=app")
        });
    }
}

#[test]
fn a_closed_port_is_a_bad_gateway() {
    let closed = Reserved::new();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\n",
        closed.address()
    ));
    let mut client = gateway.client();
    for method in ["GET", "POST"] {
        let response = client.request(method, "/", &[], b"body");
        assert_failed(&response, 502, "cannot be reached");
    }
}

#[test]
fn a_response_that_is_not_http_is_a_bad_gateway() {
    for garbage in [
        "220 mail.example ESMTP\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\n folded: yes\r\n\r\n",
        "\0\0\0\0",
    ] {
        let origin = saying(garbage);
        let gateway = Gateway::forwarding(&origin, "", "", "");
        let response = gateway.client().get("/", &[]);
        assert_failed(&response, 502, "understood");
    }
}

#[test]
fn a_head_without_an_end_is_a_bad_gateway() {
    let origin = Origin::serving(|stream, read| {
        read();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"X-More: and more and more and more\r\n").is_ok() {}
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    assert_failed(&gateway.client().get("/", &[]), 502, "64 KiB");
}

#[test]
fn a_connection_closed_without_a_response_is_a_bad_gateway_and_tried_once() {
    for beginning in ["", "HTTP/1.1 200 OK\r\nContent-Le"] {
        let origin = saying(beginning);
        let gateway = Gateway::forwarding(&origin, "", "", "");
        let response = gateway.client().request("POST", "/", &[], b"body");
        assert_failed(&response, 502, "closed");
        assert_eq!(origin.received().len(), 1, "it may have been processed");
    }
}

#[test]
fn a_protocol_that_was_not_requested_is_a_bad_gateway() {
    let origin =
        saying("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n");
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    let asks = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"];
    assert_failed(&client.get("/", &asks), 502, "understood");
}

#[test]
fn an_upstream_that_sends_nothing_is_a_gateway_timeout() {
    for beginning in ["", "HTTP/1.1 200 OK\r\nX-Half: "] {
        let origin = stalling_after(beginning);
        let gateway = Gateway::forwarding(&origin, "timeouts: { response: 100ms }", "", "");
        let mut client = gateway.client();
        assert_failed(&client.get("/", &[]), 504, "in time");
        assert_failed(&client.request("POST", "/", &[], b"body"), 504, "in time");
        assert_eq!(origin.received().len(), 2, "what may be processed still is not sent twice");
    }
}

/// The accept queue has one entry and is full: the kernel drops further connections.
#[test]
fn an_upstream_that_accepts_nothing_is_a_gateway_timeout() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let free: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&free.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let _taken: Vec<_> = (0..4)
        .map(|_| TcpStream::connect_timeout(&address, std::time::Duration::from_millis(200)))
        .collect();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{address}\"], timeouts: {{ connect: 100ms }} }} }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\n"
    ));
    assert_failed(&gateway.client().get("/", &[]), 504, "accept a connection in time");
}

#[test]
fn a_response_that_breaks_off_breaks_off_for_the_client_too() {
    for (bytes, beginning) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "half"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "4\r\nhalf\r\n"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n",
            "4\r\nhalf\r\n",
        ),
    ] {
        let origin = saying(bytes);
        let gateway = Gateway::forwarding(&origin, "", "", "");
        let mut client = gateway.client();
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.head().status, 200);
        assert_eq!(String::from_utf8_lossy(&client.rest()), beginning, "no end is made up");
        assert_eq!(gateway.access_lines(1)[0]["outcome"], "upstream_broke_off");
    }
}

/// In HTTP/1.0 a body may end with its connection, so only a reset shows that the body is
/// not complete.
#[test]
fn a_response_that_breaks_off_is_not_complete_for_a_client_of_http_1_0() {
    let origin = saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.0\r\n\r\n");
    let error = client.try_response("GET").expect_err("an end is no end");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_response_that_pauses_for_too_long_breaks_off() {
    let origin = stalling_after("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    let gateway = Gateway::forwarding(&origin, "timeouts: { idle: 100ms }", "", "");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status, 200);
    assert_eq!(client.rest(), b"half");
}

/// The gateway is out of file descriptors, which does not count against its endpoint.
#[test]
fn a_gateway_without_file_descriptors_is_unavailable() {
    let is_open = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&is_open);
    let origin = Origin::answering(move |_| {
        eventually("the gate is opened", || gate.load(Ordering::Relaxed));
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned()
    });
    let gateway = Gateway::with_files(100, &origin, "eject: { consecutive_errors: 1 }");
    block_on(async {
        let client = Http::prior_knowledge(gateway.address()).await;
        let asked = (0..120).map(|_| spawn_local(client.send(request("GET", "/", nothing()))));
        let asked: Vec<_> = asked.collect();
        soon("some are refused", || asked.iter().any(JoinHandle::is_finished)).await;
        is_open.store(true, Ordering::Relaxed);
        let mut refused = 0;
        for response in asked {
            let response = response.await.expect("no panic").expect("an answer");
            refused += usize::from(response.status() == 503);
            assert!([200, 503].contains(&response.status().as_u16()), "{response:?}");
        }
        assert!((1..60).contains(&refused), "{refused} of 120");
        assert_eq!(client.get("/").await.status, 200);
    });
    assert!(gateway.access_text(121).contains("\"exhausted\""));
}

#[test]
fn an_upstream_at_max_in_flight_is_unavailable() {
    let origin = stalling_after("");
    let gateway = Gateway::forwarding(&origin, "", "max_in_flight: 1", "runtime: { workers: 2 }");
    let mut first = gateway.client();
    first.send(b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the first request is in flight", || origin.received().len() == 1);
    let response = gateway.client().get("/second", &[]);
    assert_failed(&response, 503, "busy");
    assert!(response.number("Retry-After") >= 1);
    drop(first);
    eventually("a unit is free", || {
        let mut client = gateway.client();
        client.send(b"GET /third HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        origin.received().iter().any(|request| request.line().contains("/third"))
    });
}

/// Regression: such requests stayed charged, so a client that came back as it was told was refused by a
/// limit that it had never used.
#[test]
fn a_request_for_which_an_upstream_has_no_room_uses_none_of_its_limits() {
    let fixed = "limit: 2/day, algorithm: fixed_window";
    for bound in ["max_in_flight: 1", "max_connections: 1, queue: { length: 1, timeout: 50ms }"] {
        for policy in [fixed, "limit: 2/day", "limit: 2/day, algorithm: token_bucket"] {
            let origin = stalling_after("");
            let gateway = Gateway::start(&format!(
                "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
                 policies: {{ p: {{ key: \"header:x-client\", {policy}, missing_key: skip }} }}\n\
                 routes: [{{ path: /*, policies: [p], upstream: a }}]\n\
                 upstreams: {{ a: {{ endpoints: [\"http://{}\"], {bound} }} }}\n\
                 runtime: {{ workers: 1 }}\n",
                origin.address()
            ));
            let mut first = gateway.client();
            first.send(b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
            eventually("the first request is in flight", || origin.received().len() == 1);
            for _ in 0..4 {
                let response = gateway.client().get("/second", &["X-Client: ann"]);
                assert_eq!(response.status, 503, "{bound}, {policy}");
            }
            drop(first);
            eventually("a unit is free", || {
                let mut client = gateway.client();
                client.send(b"GET /third HTTP/1.1\r\nHost: a\r\nX-Client: ann\r\n\r\n");
                origin.received().iter().any(|request| request.line().contains("/third"))
            });
        }
    }
}

#[test]
fn a_body_that_is_announced_too_large_is_refused_before_it_is_sent() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "max_body: 10", "", "");
    let mut client = gateway.client();
    assert_eq!(client.request("POST", "/", &[], b"0123456789").status, 200);
    let asks = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n";
    client.send(asks.as_bytes());
    let response = client.response("POST");
    assert_eq!((response.status, &response.json()["source"]), (413, &json!("client")));
    assert!(client.is_closed());
    assert_eq!(origin.received().len(), 1);
}

#[test]
fn a_body_that_turns_out_too_large_is_refused() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "max_body: 10", "", "");
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(b"8\r\n01234567\r\n8\r\n01234567\r\n0\r\n\r\n");
    assert_eq!(client.response("POST").status, 413);
    assert!(client.is_closed());
    assert!(origin.received().is_empty(), "half a body is no request");
}

#[test]
fn a_body_that_stops_arriving_times_out() {
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", timeouts: {{ request_body: 100ms }} }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\n",
        origin.address()
    ));
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
    let response = client.response("POST");
    assert_eq!((response.status, &response.json()["source"]), (408, &json!("client")));
    assert!(client.is_closed());
}

/// While the gateway waits for the client, the upstream is not late.
#[test]
fn a_slow_upload_is_not_blamed_on_the_upstream() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "timeouts: { response: 100ms }", "", "");
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
    for byte in b"body" {
        thread::sleep(PATIENCE / 200);
        client.send(&[*byte]);
    }
    assert_eq!(client.response("POST").status, 200);
}

#[test]
fn a_malformed_body_is_the_clients_fault() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n");
    let response = client.response("POST");
    assert_eq!((response.status, &response.json()["source"]), (400, &json!("client")));
    assert!(client.is_closed());
    assert!(origin.received().is_empty());
}

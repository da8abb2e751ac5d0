//! WebSockets: the only protocol to which a connection may change.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::{LocalSet, spawn_local};

use crate::support::{Client, Gateway, Origin, Received, eventually};

/// The key and its accept value are the example of RFC 6455, section 1.3.
const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
                   Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const PLAIN: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The response of a backend that accepts the handshake in `request`.
fn grant(request: &Received) -> String {
    let key = format!(
        "{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11",
        request.fields("sec-websocket-key").join(", ")
    );
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes()));
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
    )
}

/// An origin that accepts each WebSocket and passes it to `speak`, and responds to all
/// other requests with `ok`.
fn granting(speak: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Origin {
    Origin::serving(move |stream, read| {
        while let Some(request) = read() {
            if request.fields("upgrade").is_empty() {
                let _ = stream.write_all(OK.as_bytes());
                continue;
            }
            let _ = stream.write_all(grant(&request).as_bytes());
            return speak(stream);
        }
    })
}

/// An origin that echoes all bytes until the end, and then sends `end`.
fn echoing() -> Origin {
    granting(|stream| {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            let _ = stream.write_all(&bytes[..count]);
        }
        let _ = stream.write_all(b"end");
    })
}

/// A client with an open WebSocket.
fn opened(gateway: &Gateway) -> Client {
    let mut client = gateway.client();
    client.send(ASK.as_bytes());
    assert_eq!(client.head().status, 101);
    client
}

/// The gateway once read no more after 16 KiB, and did not see the client leave.
#[test]
fn a_client_that_disconnects_or_does_not_wait_for_the_response_ends_its_request() {
    let origin = Origin::serving(|stream, read| {
        let is_first = read().is_some_and(|request| request.line().contains("/chat"));
        if !is_first {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
        read();
    });
    let gateway = Gateway::forwarding(&origin, "", "max_in_flight: 1", "runtime: { workers: 1 }");
    for (early, leaves) in [(1000, true), (16 * 1024, true), (100_000, true), (100_000, false)] {
        let mut client = gateway.client();
        let arrived = origin.received().len();
        client.send(ASK.as_bytes());
        eventually("the request arrives", || origin.received().len() > arrived);
        assert_eq!(gateway.client().get("/", &[]).status, 503);
        client.send(&vec![0; early]);
        let stays = (!leaves).then_some(client);
        eventually("a unit is free", || gateway.client().get("/", &[]).status == 200);
        drop(stays);
    }
}

#[test]
fn a_handshake_passes_with_all_its_fields() {
    let origin = echoing();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(ASK.as_bytes());
    let granted = client.head();
    assert_eq!(granted.status, 101);
    assert_eq!(granted.field("connection"), Some("Upgrade"));
    assert_eq!(granted.field("upgrade"), Some("websocket"));
    assert_eq!(granted.field("sec-websocket-protocol"), Some("chat"));
    assert_eq!(granted.field("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!((granted.field("content-length"), granted.field("transfer-encoding")), (None, None));
    let asked = &origin.received()[0];
    assert_eq!(
        (asked.fields("connection"), asked.fields("upgrade")),
        (vec!["Upgrade"], vec!["websocket"])
    );
    assert_eq!(asked.fields("sec-websocket-key"), ["dGhlIHNhbXBsZSBub25jZQ=="]);
}

#[test]
fn bytes_pass_both_ways_until_one_side_closes() {
    let origin = echoing();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = opened(&gateway);
    for round in 0_u8..100 {
        let said = vec![round; 1 + usize::from(round) * 100];
        client.send(&said);
        assert_eq!(client.exactly(said.len()), said);
    }
    client.shutdown(Shutdown::Write);
    assert_eq!(client.rest(), b"end");
}

/// Like nginx: the bytes that were sent to the client, after the end of the WebSocket.
#[test]
fn the_access_log_counts_the_bytes_of_a_websocket() {
    let origin = echoing();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = opened(&gateway);
    client.send(b"hello, ");
    assert_eq!(client.exactly(7), b"hello, ");
    client.send(b"world");
    client.shutdown(Shutdown::Write);
    assert_eq!(client.rest(), b"worldend");
    drop(client);
    let line = &gateway.access_lines(1)[0];
    assert_eq!((&line["status"], &line["bytes"]), (&101.into(), &15.into()));
}

#[test]
fn bytes_sent_right_after_the_request_are_not_lost() {
    let origin = echoing();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    // These bytes are not a request, although they look like one.
    client.send(&[ASK.as_bytes(), PLAIN].concat());
    assert_eq!(client.head().status, 101);
    assert_eq!(client.exactly(PLAIN.len()), PLAIN);
    assert_eq!(origin.received().len(), 1);
}

#[test]
fn bytes_that_a_backend_sends_at_once_reach_the_client() {
    let origin = Origin::serving(|stream, read| {
        if let Some(request) = read() {
            let _ = stream.write_all(format!("{}welcome", grant(&request)).as_bytes());
        }
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    assert_eq!(opened(&gateway).rest(), b"welcome");
}

#[test]
fn a_client_that_disconnects_closes_the_backends_connection() {
    let (gone, has_gone) = mpsc::channel();
    let origin = granting(move |stream| {
        let _ = stream.read(&mut [0; 1]);
        let _ = gone.send(());
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    drop(opened(&gateway));
    has_gone.recv_timeout(crate::support::PATIENCE).expect("the backend hears of it");
}

#[test]
fn a_rejected_handshake_is_an_ordinary_response() {
    let origin = Origin::answering(|request| match request.fields("upgrade").is_empty() {
        true => OK.to_owned(),
        false => "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno".to_owned(),
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    // The client sends these bytes before it knows that the handshake was rejected.
    client.send(&[ASK.as_bytes(), PLAIN].concat());
    let refused = client.response("GET");
    assert_eq!((refused.status, refused.text().as_str()), (403, "no"));
    assert_eq!(client.response("GET").text(), "ok");
    assert_eq!(client.get("/", &[]).text(), "ok");
}

#[test]
fn no_other_protocol_is_forwarded() {
    let origin = echoing();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    for fields in [
        ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"],
        ["Connection: Upgrade", "Upgrade: websocket, h2c", "Sec-WebSocket-Key: a"],
    ] {
        assert_eq!(client.get("/", &fields).text(), "ok");
        let asked = origin.received().pop().expect("one came");
        assert_eq!(asked.fields("upgrade"), Vec::<&str>::new());
        assert_eq!(asked.fields("http2-settings"), Vec::<&str>::new());
    }
}

#[test]
fn a_backend_with_a_wrong_accept_value_opens_no_websocket() {
    let origin = Origin::answering(|request| {
        grant(request).replace("Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "Accept: c2VjcmV0")
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(ASK.as_bytes());
    assert_eq!(client.response("GET").status, 502);
}

#[test]
fn a_change_of_protocol_that_was_not_requested_is_rejected() {
    let origin = Origin::answering(grant);
    let gateway = Gateway::forwarding(&origin, "", "", "");
    assert_eq!(gateway.client().get("/", &[]).status, 502);
}

#[test]
fn a_websocket_is_in_flight_while_it_lasts() {
    let origin = echoing();
    let gateway = Gateway::limiting(&origin, "key: ip, limit: 1, algorithm: concurrency");
    let websocket = opened(&gateway);
    let mut other = gateway.client();
    assert_eq!(other.get("/", &[]).status, 429);
    drop(websocket);
    eventually("a unit is free", || other.get("/", &[]).status == 200);
}

#[test]
fn an_idle_websocket_is_closed() {
    let origin = echoing();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", timeouts: {{ tunnel: 300ms }} }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\n",
        origin.address()
    ));
    let mut client = opened(&gateway);
    assert!(client.is_closed());
}

#[test]
fn a_websocket_of_a_closed_listener_ends_with_the_drain() {
    let origin = echoing();
    let with = |listeners: &str| {
        format!(
            "listeners: [{listeners}]\n\
             upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
             routes: [{{ path: \"/*\", upstream: app }}]\n\
             runtime: {{ drain: 300ms }}\n",
            origin.address()
        )
    };
    let gateway = Gateway::start(&with("{ address: \"127.0.0.1:0\" }"));
    let mut client = opened(&gateway);
    gateway.reload(&with("{ address: \"127.0.0.2:0\" }"));
    assert!(client.is_closed());
}

/// A connection of HTTP/2 that may open WebSockets: the settings that allow it have
/// arrived before the response to an ordinary request.
async fn http2_to(gateway: &Gateway) -> SendRequest<Empty<bytes::Bytes>> {
    let stream = tokio::net::TcpStream::connect(gateway.address()).await.expect("it accepts");
    let shaken = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut client, connection) = shaken.expect("it speaks HTTP/2");
    spawn_local(connection);
    let plain = client.send_request(asking(Method::GET)).await.expect("an answer");
    assert_eq!(plain.status(), StatusCode::OK);
    client
}

fn asking(method: Method) -> Request<Empty<bytes::Bytes>> {
    let is_extended = method == Method::CONNECT;
    let request = Request::builder().method(method).uri("http://a/chat");
    let mut request = request.body(Empty::new()).expect("a request");
    if is_extended {
        request.extensions_mut().insert(Protocol::from_static("websocket"));
    }
    request
}

#[tokio::test]
async fn over_http_2_a_websocket_is_a_stream_beside_others() {
    let origin = echoing();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let speaking = async {
        let mut client = http2_to(&gateway).await;
        let granted = client.send_request(asking(Method::CONNECT)).await.expect("an answer");
        assert_eq!(granted.status(), StatusCode::OK);
        assert_eq!(granted.headers()["sec-websocket-protocol"], "chat");
        for name in ["connection", "upgrade", "sec-websocket-accept"] {
            assert!(!granted.headers().contains_key(name), "{name}");
        }
        let mut tunnel = TokioIo::new(hyper::upgrade::on(granted).await.expect("a tunnel"));
        tunnel.write_all(b"hello").await.expect("it is open");
        let mut said = [0; 5];
        tunnel.read_exact(&mut said).await.expect("an echo");
        assert_eq!(&said, b"hello");

        let plain = client.send_request(asking(Method::GET)).await.expect("an answer");
        assert_eq!(plain.status(), StatusCode::OK);
        tunnel.shutdown().await.expect("it is open");
        let mut rest = Vec::new();
        tunnel.read_to_end(&mut rest).await.expect("an end");
        assert_eq!(rest, b"end");
    };
    LocalSet::new().run_until(speaking).await;
}

/// Regression: the length of the 101 was in the 200 that opens the stream, which then was reset (RFC
/// 9110, section 8.6).
#[tokio::test]
async fn over_http_2_a_length_of_the_handshake_closes_no_websocket() {
    let origin = Origin::serving(|stream, read| {
        while let Some(request) = read() {
            if request.fields("upgrade").is_empty() {
                let _ = stream.write_all(OK.as_bytes());
                continue;
            }
            let granted = grant(&request).replacen("\r\n", "\r\nContent-Length: 3\r\n", 1);
            let _ = stream.write_all(granted.as_bytes());
            let _ = stream.write_all(b"hello");
            return;
        }
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let speaking = async {
        let mut client = http2_to(&gateway).await;
        let granted = client.send_request(asking(Method::CONNECT)).await.expect("an answer");
        assert_eq!(granted.status(), StatusCode::OK);
        assert!(!granted.headers().contains_key("content-length"));
        let mut tunnel = TokioIo::new(hyper::upgrade::on(granted).await.expect("a tunnel"));
        let mut said = Vec::new();
        tunnel.read_to_end(&mut said).await.expect("an end");
        assert_eq!(said, b"hello");
    };
    LocalSet::new().run_until(speaking).await;
}

/// For a client of HTTP/2 each successful status opens a WebSocket, so 200 must become a
/// failure.
#[tokio::test]
async fn over_http_2_a_backend_without_websockets_opens_none() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let speaking = async {
        let mut client = http2_to(&gateway).await;
        let refused = client.send_request(asking(Method::CONNECT)).await.expect("an answer");
        assert_eq!(refused.status(), StatusCode::BAD_GATEWAY);
        assert!(origin.received()[1].line().starts_with("GET /chat "));
    };
    LocalSet::new().run_until(speaking).await;
    let line = &gateway.access_lines(2)[1];
    assert_eq!(line["outcome"], "upstream_no_tunnel");
    assert_eq!(line["status"], 502);
}

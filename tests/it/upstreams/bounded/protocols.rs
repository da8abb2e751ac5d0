//! HTTP/2 and WebSockets over a bounded number of connections.

use super::counting::Counting;
use super::{TWO_WORKERS, asking, gateway, yaml};
use crate::support::frames::{HEADERS, ok};
use crate::support::{Endpoint, Gateway, eventually};

const ASK: &[u8] = b"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
                     Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const GRANT: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                     Upgrade: websocket\r\n\
                     Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// One connection of HTTP/2 carries all requests of its worker, and moves to another worker when a
/// request waits there.
#[test]
fn a_connection_of_http_2_moves_to_the_worker_that_needs_it() {
    let endpoint = Endpoint::answering(|_, frame| match frame.kind {
        HEADERS => ok(frame.stream),
        _ => Vec::new(),
    });
    let fields = "max_connections: 1, queue: { timeout: 20s }";
    let gateway = Gateway::start(&yaml(&[endpoint.url()], fields, "", TWO_WORKERS));
    for _ in 0..30 {
        assert_eq!(asking(&gateway, "/", "192.0.2.1").response("GET").status, 200);
    }
    let mut clients: Vec<_> = (0..100).map(|_| asking(&gateway, "/", "192.0.2.1")).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
}

#[test]
fn a_websocket_holds_its_connection() {
    let origin = Counting::start(1, std::time::Duration::ZERO, |number| match number {
        1 => GRANT.to_owned(),
        _ => super::counting::OK.to_owned(),
    });
    origin.open();
    let gateway = gateway(&origin, "max_connections: 1, queue: { timeout: 200ms }", TWO_WORKERS);
    let mut socket = gateway.client();
    socket.send(ASK);
    assert_eq!(socket.head().status, 101);
    for _ in 0..2 {
        assert_eq!(asking(&gateway, "/", "192.0.2.1").response("GET").status, 503);
    }
    drop(socket);
    eventually("the connection is free", || {
        asking(&gateway, "/", "192.0.2.1").response("GET").status == 200
    });
    assert!(!origin.is_exceeded());
}

/// An idle connection is closed for a WebSocket, which needs a new one.
#[test]
fn a_websocket_takes_the_place_of_an_idle_connection() {
    let origin = Counting::start(1, std::time::Duration::ZERO, |number| match number {
        3 => GRANT.to_owned(),
        _ => super::counting::OK.to_owned(),
    });
    origin.open();
    let gateway = gateway(&origin, "max_connections: 1, queue: { timeout: 20s }", TWO_WORKERS);
    for _ in 0..2 {
        assert_eq!(asking(&gateway, "/", "192.0.2.1").response("GET").status, 200);
    }
    let mut socket = gateway.client();
    socket.send(ASK);
    assert_eq!(socket.head().status, 101);
    assert!(!origin.is_exceeded());
}

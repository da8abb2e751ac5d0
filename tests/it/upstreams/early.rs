//! Responses that come before the whole request has been sent. The rest of the upload has
//! no purpose, so it stops.

use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use super::gateway;
use crate::support::frames::{
    DATA, Frames, HEADERS, NO_ERROR, Outcome, RST_STREAM, frame, head, more, ok,
};
use crate::support::{Endpoint, Origin, PATIENCE, eventually};

/// When an endpoint sends its whole response.
#[derive(Clone, Copy, Debug)]
enum Answers {
    /// After the head. It reads the body afterwards.
    AtOnce,
    /// When its window is full. It reads nothing more.
    WhenFull,
}

fn endpoint(answers: Answers) -> Endpoint {
    let bytes = Arc::new(AtomicUsize::new(0));
    Endpoint::answering(move |_, frame| match (answers, frame.kind) {
        (_, HEADERS) if frame.ends_stream() => ok(frame.stream),
        (Answers::AtOnce, HEADERS) => [ok(frame.stream), more(0, 1 << 24)].concat(),
        (Answers::AtOnce, DATA) => Vec::new(),
        (Answers::WhenFull, DATA) => {
            match bytes.fetch_add(frame.payload.len(), Ordering::SeqCst) + frame.payload.len() {
                65_535 => ok(frame.stream),
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    })
}

#[test]
fn over_http_2_an_upload_ends_with_its_response() {
    let fields =
        [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/upload")];
    for answers in [Answers::AtOnce, Answers::WhenFull] {
        let endpoint = endpoint(answers);
        let gateway = gateway(&[endpoint.url()], "max_in_flight: 1", "");
        let mut client = Frames::connect(gateway.address());
        client.send(&head(1, &fields, false));
        // The size of a window before the settings have arrived.
        for bytes in [16_000, 16_000, 16_000, 16_000, 1_535] {
            client.send(&frame(DATA, 0, 1, &vec![0; bytes]));
        }
        assert_eq!(client.outcome(1), Outcome::Status(200), "{answers:?}");
        // The client is told that the rest is not needed, which is no error.
        assert_eq!(client.outcome(1), Outcome::Reset(NO_ERROR), "{answers:?}");
        eventually("the endpoint is told too", || endpoint.count(RST_STREAM) == 1);
        assert_eq!(gateway.client().get("/", &[]).status, 200, "{answers:?}");
        assert_eq!(endpoint.connections(), 1, "{answers:?}");
    }
}

#[test]
fn an_upload_over_http_1_ends_with_its_response_too() {
    for answers in [Answers::AtOnce, Answers::WhenFull] {
        let endpoint = endpoint(answers);
        let gateway = gateway(&[endpoint.url()], "max_in_flight: 1", "");
        let mut client = gateway.client();
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
        client.send(&[0; 70_000]);
        assert_eq!(client.response("POST").status, 200, "{answers:?}");
        eventually("the endpoint is told", || endpoint.count(RST_STREAM) == 1);
        assert_eq!(gateway.client().get("/", &[]).status, 200, "{answers:?}");
    }
}

/// A connection of HTTP/1 carries one request at a time, so it is closed.
#[test]
fn an_upload_to_an_endpoint_of_http_1_ends_with_its_response() {
    let (sender, ended) = mpsc::channel();
    let origin = Origin::serving(move |stream, _| {
        let mut bytes = vec![0; 10_000];
        let _ = stream.read(&mut bytes);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
        let _ = sender.send(());
    });
    let gateway = gateway(&[format!("http://{}", origin.address())], "max_in_flight: 1", "");
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
    client.send(&[0; 1000]);
    assert_eq!(client.response("POST").status, 200);
    ended.recv_timeout(PATIENCE).expect("the connection ends");
}

/// The endpoint sees the end of the stream without the end of the body, so it cannot take a part
/// for the whole.
#[test]
fn an_upload_that_breaks_off_after_its_response_has_begun_ends_the_stream() {
    let (sender, ended) = mpsc::channel();
    let origin = Origin::serving(move |stream, _| {
        let mut head = [0];
        let mut rest = Vec::new();
        while !rest.ends_with(b"\r\n\r\n") {
            if !stream.read(&mut head).is_ok_and(|count| count > 0) {
                return;
            }
            rest.extend(head);
        }
        rest.clear();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
        let is_end = stream.read_to_end(&mut rest).is_ok();
        let _ = sender.send((String::from_utf8(rest), is_end));
    });
    let gateway = gateway(&[format!("http://{}", origin.address())], "max_in_flight: 1", "");
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    assert_eq!(client.head().status, 200);
    assert_eq!(client.exactly(2), b"ab");
    client.send(b"no size\r\n");
    let seen = ended.recv_timeout(PATIENCE).expect("the endpoint sees the end");
    assert_eq!(seen, (Ok("5\r\nhello\r\n".to_owned()), true));
}

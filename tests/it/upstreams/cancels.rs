//! Clients that cancel their requests on a connection that other clients use too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::gateway;
use crate::support::frames::{
    CANCEL, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frames, HEADERS, RST_STREAM, block,
    frame, go_away, head, ok, reset, too_large,
};
use crate::support::{Endpoint, Gateway, eventually};

/// The bound of Netty: more resets on one connection are taken for an attack.
const MAX_RESETS: usize = 200;

/// An endpoint that responds only to requests with a body, ends a connection on which too
/// many streams are reset, and counts how often it has done so.
fn guarded() -> (Endpoint, Arc<AtomicUsize>) {
    let ended = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ended);
    let endpoint = Endpoint::serving(move |_, connection, log| {
        let mut resets = 0;
        while let Ok(Some(frame)) = connection.next() {
            resets += usize::from(frame.kind == RST_STREAM);
            if resets > MAX_RESETS {
                count.fetch_add(1, Ordering::SeqCst);
                connection.send(&go_away(frame.stream, ENHANCE_YOUR_CALM));
                return;
            }
            let is_answered = frame.ends_stream() && frame.kind != HEADERS;
            let stream = frame.stream;
            log(frame);
            if is_answered {
                connection.send(&ok(stream));
            }
        }
    });
    (endpoint, ended)
}

/// The number of requests without a body so far.
fn heads(endpoint: &Endpoint) -> usize {
    let frames = endpoint.frames();
    frames.iter().filter(|frame| frame.kind == HEADERS && frame.ends_stream()).count()
}

/// Asserts that requests of other clients are answered during `attack`.
fn assert_answered(gateway: &Gateway, attack: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ask = || {
            let mut client = gateway.client();
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(client.request("POST", "/", &[], b"body").status, 200);
            }
        };
        let others = [scope.spawn(ask), scope.spawn(ask)];
        attack();
        is_over.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().expect("all are answered"));
    });
}

#[test]
fn clients_that_cancel_do_not_affect_others() {
    let (endpoint, ended) = guarded();
    let gateway = gateway(&[endpoint.url()], "", "");
    let fields =
        [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/never")];
    assert_answered(&gateway, || {
        for _ in 0..6 {
            let mut attacker = Frames::connect(gateway.address());
            for round in 0..19 {
                let streams: Vec<u32> = (0..10).map(|n| 1 + 2 * (10 * round + n)).collect();
                let before = heads(&endpoint);
                let asked = streams.iter().flat_map(|id| head(*id, &fields, true));
                attacker.send(&asked.collect::<Vec<_>>());
                eventually("they are at the endpoint", || heads(&endpoint) >= before + 10);
                let resets = streams.iter().flat_map(|id| reset(*id, CANCEL));
                attacker.send(&resets.collect::<Vec<_>>());
            }
        }
    });
    assert_eq!(ended.load(Ordering::SeqCst), 0, "no connection is ended for it");
    assert!(endpoint.count(RST_STREAM) > 2 * MAX_RESETS, "the cancels did arrive");
}

/// A body that breaks off resets its stream too.
#[test]
fn clients_whose_bodies_break_off_do_not_affect_others() {
    let (endpoint, ended) = guarded();
    let gateway = gateway(&[endpoint.url()], "", "");
    assert_answered(&gateway, || {
        for _ in 0..3 * MAX_RESETS {
            let mut client = gateway.client();
            client.send(
                b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nz",
            );
            assert_eq!(client.response("POST").status, 400);
        }
    });
    assert_eq!(ended.load(Ordering::SeqCst), 0, "no connection is ended for it");
    assert!(endpoint.count(RST_STREAM) > 2 * MAX_RESETS, "the resets did arrive");
}

/// A response whose head is too large is rejected. After many of them the library would
/// end the connection.
#[test]
fn responses_that_are_rejected_do_not_affect_others() {
    let endpoint = Endpoint::answering(|_, frame| match frame.kind {
        HEADERS if frame.ends_stream() => too_large(frame.stream),
        DATA if frame.ends_stream() => ok(frame.stream),
        _ => Vec::new(),
    });
    let gateway = gateway(&[endpoint.url()], "", "");
    assert_answered(&gateway, || {
        let mut client = gateway.client();
        for _ in 0..1100 {
            assert_eq!(client.get("/", &[]).status, 502);
        }
    });
}

/// A client of HTTP/1 has the whole response with its last byte. The endpoint ends the
/// stream a moment later, which does not count as a cancelled stream.
#[test]
fn a_response_that_has_arrived_is_not_reset() {
    let endpoint = Endpoint::serving(|_, connection, log| {
        while let Ok(Some(frame)) = connection.next() {
            let stream = frame.stream;
            let is_request = frame.ends_stream();
            log(frame);
            if is_request {
                connection.send(&[head_of(stream, 5), data(stream, 0, b"hello")].concat());
                thread::sleep(Duration::from_millis(30));
                connection.send(&data(stream, END_STREAM, b""));
            }
        }
    });
    let gateway = gateway(&[endpoint.url()], "", "");
    let mut client = gateway.client();
    for _ in 0..3 {
        assert_eq!(client.get("/", &[]).text(), "hello");
        thread::sleep(Duration::from_millis(60));
    }
    assert_eq!(endpoint.count(RST_STREAM), 0);
}

fn head_of(stream: u32, length: usize) -> Vec<u8> {
    let block = [vec![0x88], block(&[("content-length", &length.to_string())])].concat();
    frame(HEADERS, END_HEADERS, stream, &block)
}

fn data(stream: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, flags, stream, bytes)
}

//! Misplaced frames, and heads that are too large.

use std::io::Read as _;
use std::net::TcpListener;

use super::super::backend::Backend;
use super::{BAD, GET, GIVEN_UP, assert_cases, open, post, trailed, with};
use crate::support::Gateway;
use crate::support::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, FRAME_SIZE_ERROR, Frames,
    HEADERS, NO_ERROR, Outcome, block, frame, head, reset,
};

#[test]
fn misplaced_frames_end_the_connection() {
    let fields = block(&GET);
    let unfinished = frame(HEADERS, END_STREAM, 1, &fields[..20]);
    assert_cases(&[
        ("DATA before a head", frame(DATA, 0, 1, b"hi"), GIVEN_UP, &[]),
        ("a head on an even stream", head(2, &GET, true), GIVEN_UP, &[]),
        ("a head on stream 0", head(0, &GET, true), GIVEN_UP, &[]),
        ("CONTINUATION of nothing", frame(CONTINUATION, END_HEADERS, 1, &fields), GIVEN_UP, &[]),
        (
            "DATA within a head",
            [&unfinished[..], &frame(DATA, 0, 1, b"hi")].concat(),
            GIVEN_UP,
            &[],
        ),
        (
            "CONTINUATION of another",
            [&unfinished[..], &frame(CONTINUATION, END_HEADERS, 3, &fields[20..])].concat(),
            GIVEN_UP,
            &[],
        ),
        (
            "no field block",
            frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff\xff\xff\xff"),
            GIVEN_UP,
            &[],
        ),
        (
            "no HTTP",
            b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(),
            Outcome::GoAway(FRAME_SIZE_ERROR),
            &[],
        ),
    ]);
    let late = [post(&[], "hi"), frame(DATA, END_STREAM, 1, b"more")].concat();
    assert_cases(&[("DATA behind the end", late, GIVEN_UP, &[])]);
}

/// It does not say that its body is complete (RFC 9113, section 8.1), and without a length it
/// would seem to be.
#[test]
fn a_body_whose_stream_is_reset_without_an_error_is_incomplete() {
    let backend = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let gateway = Gateway::on_one_worker(backend.local_addr().expect("an address"), "");
    let mut client = Frames::connect(gateway.address());
    client.send(&[open(&[]), frame(DATA, 0, 1, b"abc")].concat());
    let (mut stream, _) = backend.accept().expect("the gateway connects");
    let mut received = Vec::new();
    let mut piece = [0; 1000];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        received.extend_from_slice(&piece[..count]);
        assert!(!received.ends_with(b"0\r\n\r\n"), "{}", received.escape_ascii());
        if received.ends_with(b"abc\r\n") {
            client.send(&reset(1, NO_ERROR));
        }
    }
    assert!(received.ends_with(b"abc\r\n"), "{}", received.escape_ascii());
}

#[test]
fn a_preface_that_breaks_off_is_no_request() {
    let backend = Backend::start();
    let gateway = Gateway::on_one_worker(backend.address(), "");
    for preface in [
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r",
        "PRI * HTTP/2.0\r\n\r\nGET / HTTP/1.1\r\n",
        "PRI * HTTP/1.1\r\nhost: a\r\n\r\n",
        "PRI / HTTP/2.0\r\n\r\n",
    ] {
        let mut client = gateway.client();
        client.send(preface.as_bytes());
        client.finish();
        client.rest();
        assert!(client.is_closed(), "{preface:?}");
    }
    assert!(backend.take().is_empty() && backend.faults().is_empty());
}

#[test]
fn a_head_has_as_many_fields_as_it_may_and_no_more() {
    let backend = Backend::start();
    let gateway = Gateway::on_one_worker(backend.address(), "max_headers: 20");
    for (count, status) in [(20, 200), (21, 431)] {
        let names: Vec<String> = (0..count).map(|number| format!("x-{number}")).collect();
        let fields: Vec<_> = names.iter().map(|name| (&**name, "1")).collect();
        let mut client = Frames::connect(gateway.address());
        client.send(&with(&fields));
        assert_eq!(client.outcome(1), Outcome::Status(status), "{count} fields");
    }
    assert_eq!(backend.take().len(), 1);
}

#[test]
fn a_head_that_is_too_large_gets_a_status_and_one_that_is_huge_ends_the_connection() {
    let large = "x".repeat(4000);
    let fields = |count| vec![("x-large", &*large); count];
    assert_cases(&[
        ("large", in_pieces(&fields(10)), Outcome::Status(431), &[]),
        ("huge", in_pieces(&fields(50)), Outcome::GoAway(ENHANCE_YOUR_CALM), &[]),
    ]);
}

#[test]
fn a_head_that_is_too_large_is_in_the_log() {
    let backend = Backend::start();
    let gateway = Gateway::on_one_worker(backend.address(), "max_head_size: 4KiB");
    let large = "x".repeat(3000);
    for (count, status) in [(1, 200), (2, 431)] {
        let mut client = Frames::connect(gateway.address());
        client.send(&in_pieces(&vec![("x-large", &*large); count]));
        assert_eq!(client.outcome(1), Outcome::Status(status));
    }
    let lines = gateway.access_lines(2);
    assert_eq!((&lines[1]["status"], &lines[1]["outcome"]), (&431.into(), &"malformed".into()));
    assert_eq!(backend.take().len(), 1);
}

#[test]
fn trailers_are_bounded_as_heads_are() {
    let backend = Backend::start();
    let gateway = Gateway::on_one_worker(backend.address(), "max_head_size: 4KiB");
    for (bytes, outcome) in [(3000, Outcome::Status(200)), (5000, BAD)] {
        let mut client = Frames::connect(gateway.address());
        client.send(&trailed(&[("x-large", &*"x".repeat(bytes))]));
        assert_eq!(client.outcome(1), outcome, "{bytes} bytes");
    }
    for (count, outcome) in [(100, Outcome::Status(200)), (101, BAD)] {
        let names: Vec<_> = (0..count).map(|number| format!("x{number}")).collect();
        let fields: Vec<_> = names.iter().map(|name| (&**name, "")).collect();
        let mut client = Frames::connect(gateway.address());
        client.send(&trailed(&fields));
        assert_eq!(client.outcome(1), outcome, "{count} fields");
    }
    assert_eq!(backend.take().len(), 2);
}

/// `GET` with a head that does not fit one frame.
fn in_pieces(fields: &[(&str, &str)]) -> Vec<u8> {
    let block = block(&[&GET[..], fields].concat());
    let mut pieces: Vec<Vec<u8>> =
        block.chunks(16_000).map(|piece| frame(CONTINUATION, 0, 1, piece)).collect();
    let last = pieces.len() - 1;
    pieces[0][3..5].copy_from_slice(&[HEADERS, END_STREAM]);
    pieces[last][4] |= END_HEADERS;
    pieces.concat()
}

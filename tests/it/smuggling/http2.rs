//! HTTP/2 requests that could smuggle bytes into HTTP/1.1. Each is sent as raw frames
//! through the gateway and has the stated outcome. A backend that reads strictly gets
//! nothing or only the stated request.

mod faults;
mod shapes;
mod tunnels;

use super::backend::Backend;
use crate::support::Gateway;
use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, Frames, HEADERS, Outcome, PROTOCOL_ERROR, block, frame, head,
};

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a.example"), (":path", "/x")];
const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":authority", "a.example"), (":path", "/x")];

const BAD: Outcome = Outcome::Status(400);
const MALFORMED: Outcome = Outcome::Reset(PROTOCOL_ERROR);
const GIVEN_UP: Outcome = Outcome::GoAway(PROTOCOL_ERROR);

/// Frames for stream 1, its outcome, and the requests that arrive.
type Case<'a> = (&'a str, Vec<u8>, Outcome, &'a [&'a str]);

/// Sends each case on its own connection, and reports all cases that fail.
fn assert_cases(cases: &[Case<'_>]) {
    let backend = Backend::start();
    let gateway = Gateway::on_one_worker(backend.address(), "");
    let mut wrong = Vec::new();
    for (name, frames, outcome, arrives) in cases {
        let mut client = Frames::connect(gateway.address());
        client.send(frames);
        let became = client.outcome(1);
        // When this request has arrived, all earlier ones have.
        assert_eq!(gateway.client().get("/witness", &[]).status, 200);
        let mut arrived = backend.take();
        arrived.retain(|request| request != "GET /witness");
        let faults = backend.faults();
        if became != *outcome || arrived != *arrives || !faults.is_empty() {
            wrong.push(format!("{name}: {became:?}, not {outcome:?}; {arrived:?}; {faults:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `GET` with these fields besides the pseudo fields.
fn with(fields: &[(&str, &str)]) -> Vec<u8> {
    head(1, &[&GET[..], fields].concat(), true)
}

/// `GET` with another value of a pseudo field.
fn but(name: &str, value: &str) -> Vec<u8> {
    head(1, &GET.map(|field| if field.0 == name { (field.0, value) } else { field }), true)
}

/// `GET` of a path in Huffman code (RFC 7541, section 5.2).
fn coded_path(path: &[u8; 3]) -> Vec<u8> {
    let fields = [&block(&GET[..3]), &[0x44, 0x83][..], path].concat();
    frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields)
}

/// `GET` without a pseudo field, with others.
fn without(name: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let rest = GET.into_iter().filter(|field| field.0 != name);
    head(1, &rest.chain(fields.iter().copied()).collect::<Vec<_>>(), true)
}

/// `POST` with these fields and a body, which ends its stream.
fn post(fields: &[(&str, &str)], body: &str) -> Vec<u8> {
    [open(fields), frame(DATA, END_STREAM, 1, body.as_bytes())].concat()
}

/// `POST` whose body has not been sent.
fn open(fields: &[(&str, &str)]) -> Vec<u8> {
    head(1, &[&POST[..], fields].concat(), false)
}

/// `POST` with a body and these trailers.
fn trailed(trailers: &[(&str, &str)]) -> Vec<u8> {
    [open(&[]), frame(DATA, 0, 1, b"hi"), head(1, trailers, true)].concat()
}

#[test]
fn a_valid_request_arrives() {
    assert_cases(&[
        ("GET", with(&[("accept", "*/*")]), Outcome::Status(200), &["GET /x"]),
        ("POST", post(&[], "hi"), Outcome::Status(200), &["POST /x hi"]),
        ("length", post(&[("content-length", "2")], "hi"), Outcome::Status(200), &["POST /x hi"]),
        ("tab in a value", with(&[("x-a", "1\t2")]), Outcome::Status(200), &["GET /x"]),
        (
            "host alone",
            without(":authority", &[("host", "a.example")]),
            Outcome::Status(200),
            &["GET /x"],
        ),
        ("host agrees", with(&[("host", "a.example")]), Outcome::Status(200), &["GET /x"]),
        (
            "cookies in pieces",
            with(&[("cookie", "a=1"), ("cookie", "b=2")]),
            Outcome::Status(200),
            &["GET /x"],
        ),
        (
            "options *",
            head(
                1,
                &[(":method", "OPTIONS"), (":scheme", "http"), (":authority", "a"), (":path", "*")],
                true,
            ),
            Outcome::Status(200),
            &["OPTIONS *"],
        ),
        ("trailers", trailed(&[("x-checksum", "1")]), Outcome::Status(200), &["POST /x hi"]),
    ]);
}

#[test]
fn an_invalid_field_name_resets_the_stream() {
    for name in [
        "X-Upper",
        "x-a: 1\r\nx-b",
        "x-a:",
        "x a",
        " x-a",
        "x-a ",
        "x\r\ny",
        "x\0",
        "x\ty",
        "",
        "x-\u{e9}",
        "x(y",
        "x\x7f",
    ] {
        assert_cases(&[(name, with(&[(name, "1")]), GIVEN_UP, &[])]);
    }
}

#[test]
fn an_invalid_field_value_never_arrives() {
    for value in [
        "a\r\nx-b: 1",
        "a\rb",
        "a\nb",
        "a\0b",
        "a\r\n\r\nGET /evil HTTP/1.1\r\nhost: a\r\n\r\n",
        "a\x7fb",
        "a\x01b",
    ] {
        assert_cases(&[(value, with(&[("x-a", value)]), GIVEN_UP, &[])]);
    }
}

#[test]
fn a_value_with_blanks_around_it_is_refused() {
    for value in [" a", "a ", "\ta", "a\t", " "] {
        assert_cases(&[(value, with(&[("x-a", value)]), BAD, &[])]);
    }
}

#[test]
fn a_name_that_some_backends_take_for_another_is_refused() {
    for name in ["content_length", "transfer_encoding", "x_forwarded_for", "x-forwarded_proto"] {
        assert_cases(&[(name, with(&[(name, "1")]), BAD, &[])]);
    }
}

#[test]
fn fields_of_a_connection_reset_the_stream() {
    for (name, value) in [
        ("connection", "close"),
        ("connection", "x-a"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "identity"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
    ] {
        assert_cases(&[(name, with(&[(name, value)]), MALFORMED, &[])]);
    }
    let frames = post(&[("transfer-encoding", "chunked")], "0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n");
    assert_cases(&[("chunks in a body", frames, MALFORMED, &[])]);
}

#[test]
fn pseudo_fields_are_there_once_and_first() {
    assert_cases(&[
        ("no method", without(":method", &[]), MALFORMED, &[]),
        ("no scheme", without(":scheme", &[]), MALFORMED, &[]),
        ("no path", without(":path", &[]), MALFORMED, &[]),
        ("two methods", with_first(&[(":method", "POST")]), MALFORMED, &[]),
        ("two paths", with_first(&[(":path", "/y")]), MALFORMED, &[]),
        ("two authorities", with_first(&[(":authority", "b.example")]), MALFORMED, &[]),
        ("two schemes", with_first(&[(":scheme", "https")]), MALFORMED, &[]),
        ("a status", with_first(&[(":status", "200")]), MALFORMED, &[]),
        ("a protocol", with_first(&[(":protocol", "websocket")]), MALFORMED, &[]),
        ("unknown", with_first(&[(":unknown", "1")]), GIVEN_UP, &[]),
        ("late path", without(":path", &[("x-a", "1"), (":path", "/x")]), MALFORMED, &[]),
        (
            "late authority",
            without(":authority", &[("x-a", "1"), (":authority", "a")]),
            MALFORMED,
            &[],
        ),
    ]);
}

/// `GET` with these fields in front.
fn with_first(fields: &[(&str, &str)]) -> Vec<u8> {
    head(1, &[fields, &GET[..]].concat(), true)
}

#[test]
fn a_path_must_be_valid() {
    assert_cases(&[
        ("empty", but(":path", ""), MALFORMED, &[]),
        ("no slash", but(":path", "x"), MALFORMED, &[]),
        ("space", but(":path", "/a b"), MALFORMED, &[]),
        ("version", but(":path", "/x HTTP/1.1\r\nx: 1"), MALFORMED, &[]),
        ("line end", but(":path", "/x\r\nx: 1"), MALFORMED, &[]),
        ("nul", but(":path", "/x\0"), MALFORMED, &[]),
        ("asterisk", but(":path", "*"), BAD, &[]),
        ("absolute", but(":path", "http://b.example/"), MALFORMED, &[]),
        ("dots", but(":path", "/a/../b"), BAD, &[]),
        ("backslash", but(":path", "/a\\b"), BAD, &[]),
        ("query only", but(":path", "?a"), BAD, &[]),
        ("a fragment", but(":path", "/x#y"), MALFORMED, &[]),
        ("a fragment behind a query", but(":path", "/x?y#"), MALFORMED, &[]),
        ("a fragment in the code of Huffman", coded_path(b"\x63\xfe\xbf"), MALFORMED, &[]),
        ("a hash elsewhere", with(&[("x-a", "#")]), Outcome::Status(200), &["GET /x"]),
    ]);
}

#[test]
fn hosts_must_be_valid_and_equal() {
    assert_cases(&[
        ("none at all", without(":authority", &[]), BAD, &[]),
        ("empty authority", but(":authority", ""), MALFORMED, &[]),
        ("two names", with(&[("host", "b.example")]), BAD, &[]),
        ("two ports", with(&[("host", "a.example:81")]), BAD, &[]),
        ("two hosts", with(&[("host", "a.example"), ("host", "a.example")]), BAD, &[]),
        ("two hosts alone", without(":authority", &[("host", "a"), ("host", "b")]), BAD, &[]),
        (
            "empty host alone",
            without(":authority", &[("host", "")]),
            Outcome::Status(200),
            &["GET /x"],
        ),
        ("userinfo", but(":authority", "u:p@a.example"), BAD, &[]),
        ("a path in it", but(":authority", "a.example/evil"), MALFORMED, &[]),
        ("a space in it", but(":authority", "a example"), MALFORMED, &[]),
        ("a line end in it", but(":authority", "a\r\nx: 1"), MALFORMED, &[]),
        ("no port", but(":authority", "a.example:x"), BAD, &[]),
        ("a comma", but(":authority", "a, b"), MALFORMED, &[]),
    ]);
}

#[test]
fn methods_and_schemes_must_be_known() {
    assert_cases(&[
        ("space", but(":method", "GET /evil"), GIVEN_UP, &[]),
        ("line end", but(":method", "GET\r\nx: 1"), GIVEN_UP, &[]),
        ("empty method", but(":method", ""), GIVEN_UP, &[]),
        ("request line", but(":method", "GET / HTTP/1.1\r\nhost: b\r\n\r\nPOST"), GIVEN_UP, &[]),
        ("small letters", but(":method", "get"), BAD, &[]),
        ("ftp", but(":scheme", "ftp"), BAD, &[]),
        ("scheme with a line end", but(":scheme", "http\r\nx: 1"), MALFORMED, &[]),
        ("scheme with a host", but(":scheme", "http://b.example/?"), MALFORMED, &[]),
        (
            "CONNECT",
            head(1, &[(":method", "CONNECT"), (":authority", "a:443")], false),
            Outcome::Status(405),
            &[],
        ),
        ("CONNECT with a path", but(":method", "CONNECT"), MALFORMED, &[]),
        (
            "extended CONNECT to whatever",
            head(1, &[&[(":method", "CONNECT"), (":protocol", "x")], &GET[1..]].concat(), false),
            Outcome::Status(405),
            &[],
        ),
    ]);
}

#[test]
fn the_length_must_match_the_body() {
    let length = |value| [("content-length", value)];
    assert_cases(&[
        ("too large", post(&length("5"), "hi"), MALFORMED, &[]),
        ("too small", post(&length("1"), "hi"), MALFORMED, &[]),
        ("none came", with(&length("5")), MALFORMED, &[]),
        ("no body allowed", post(&length("0"), "GET /evil HTTP/1.1\r\n\r\n"), MALFORMED, &[]),
        ("two", post(&[("content-length", "2"), ("content-length", "5")], "hi"), MALFORMED, &[]),
        (
            "two that agree",
            post(&[("content-length", "2"), ("content-length", "2")], "hi"),
            BAD,
            &[],
        ),
        ("a list", post(&length("2, 2"), "hi"), MALFORMED, &[]),
        ("plus", post(&length("+2"), "hi"), MALFORMED, &[]),
        ("minus", post(&length("-2"), "hi"), MALFORMED, &[]),
        ("hexadecimal", post(&length("0x2"), "hi"), MALFORMED, &[]),
        ("empty", post(&length(""), "hi"), MALFORMED, &[]),
        ("no number can be so large", post(&length("99999999999999999999"), "hi"), MALFORMED, &[]),
    ]);
}

#[test]
fn trailers_cannot_frame_a_body() {
    assert_cases(&[
        ("connection", trailed(&[("connection", "close")]), MALFORMED, &[]),
        ("coding", trailed(&[("transfer-encoding", "chunked")]), MALFORMED, &[]),
        ("length", trailed(&[("content-length", "99")]), Outcome::Status(200), &["POST /x hi"]),
        ("host", trailed(&[("host", "b.example")]), Outcome::Status(200), &["POST /x hi"]),
        ("line end", trailed(&[("x-a", "1\r\n\r\nGET /evil HTTP/1.1")]), GIVEN_UP, &[]),
    ]);
}

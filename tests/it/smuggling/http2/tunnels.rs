//! CONNECT in all its forms: an invalid one does not affect other streams.

use super::super::backend::Backend;
use super::{GET, POST};
use crate::support::Gateway;
use crate::support::frames::{DATA, END_STREAM, Frames, Outcome, frame, get, head};

const TUNNEL: [(&str, &str); 2] = [(":method", "CONNECT"), (":authority", "a.example")];
const WEBSOCKET: [(&str, &str); 5] = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "http"),
    (":authority", "a.example"),
    (":path", "/x"),
];

fn connect(pseudo: &[(&str, &str)], fields: &[(&str, &str)], ends: bool) -> Vec<u8> {
    head(3, &[pseudo, fields].concat(), ends)
}

/// The HTTP library once ended the connection where CONNECT had a length.
#[test]
fn an_invalid_connect_ends_only_its_own_stream() {
    let backend = Backend::start();
    let gateway = Gateway::on_one_worker(backend.address(), "");
    let length = ("content-length", "5");
    let other =
        WEBSOCKET.map(|(name, value)| (name, if value == "websocket" { "x" } else { value }));
    for (name, connect) in [
        ("a length", connect(&WEBSOCKET, &[length], false)),
        ("a length, at the end of the stream", connect(&WEBSOCKET, &[length], true)),
        ("a length of nothing", connect(&WEBSOCKET, &[("content-length", "0")], false)),
        ("two lengths", connect(&WEBSOCKET, &[length, length], false)),
        ("a tunnel with a length", connect(&TUNNEL, &[length], false)),
        ("a tunnel", connect(&TUNNEL, &[], false)),
        ("the end of the stream", connect(&WEBSOCKET, &[], true)),
        ("another protocol", connect(&other, &[], false)),
        ("another protocol with a length", connect(&other, &[length], false)),
        ("no path", connect(&WEBSOCKET[..4], &[], false)),
        ("no scheme", connect(&[&WEBSOCKET[..2], &WEBSOCKET[3..]].concat(), &[], false)),
        ("a protocol without CONNECT", connect(&[&GET[..], &WEBSOCKET[1..2]].concat(), &[], true)),
    ] {
        let mut client = Frames::connect(gateway.address());
        client.send(&[head(1, &POST, false), connect, get(5, "/x")].concat());
        let outcome = client.outcome(5);
        assert_eq!(outcome, Outcome::Status(200), "{name}");
        client.send(&frame(DATA, END_STREAM, 1, b"hi"));
        assert_eq!(client.outcome(1), Outcome::Status(200), "{name}");
    }
}

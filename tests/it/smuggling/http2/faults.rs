//! Faults of framing, and the error code for each.

use super::super::backend::Backend;
use super::{BAD, GIVEN_UP, MALFORMED, assert_cases, open, trailed};
use crate::support::Gateway;
use crate::support::frames::{
    FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, Frames, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, Outcome,
    PING, PREFACE, PRIORITY, PROTOCOL_ERROR, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, get,
    settings,
};

/// RFC 9113, section 3.4.
#[test]
fn a_connection_begins_with_settings() {
    let backend = Backend::start();
    let gateway = Gateway::on_one_worker(backend.address(), "");
    for first in [get(1, "/x"), frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, 1, 0, b"")] {
        let mut client = Frames::silent(gateway.address());
        client.send(&[PREFACE, &first, &settings(&[]), &get(1, "/x")].concat());
        assert_eq!(client.outcome(1), Outcome::GoAway(PROTOCOL_ERROR), "{first:?}");
        assert!(client.ends());
    }
    assert!(backend.take().is_empty() && backend.faults().is_empty());
}

/// RFC 9113, sections 4.2 and 6.
#[test]
fn a_frame_of_the_wrong_size_ends_the_connection_with_its_code() {
    let wrong_size = Outcome::GoAway(FRAME_SIZE_ERROR);
    let opened = |bad: Vec<u8>| [open(&[]), bad].concat();
    assert_cases(&[
        ("PRIORITY", frame(PRIORITY, 0, 1, &[0; 4]), wrong_size, &[]),
        ("RST_STREAM", opened(frame(RST_STREAM, 0, 1, &[0; 3])), wrong_size, &[]),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[0; 5]), wrong_size, &[]),
        ("SETTINGS, acknowledged", frame(SETTINGS, 1, 0, &[0; 6]), wrong_size, &[]),
        ("PING", frame(PING, 0, 0, &[0; 9]), wrong_size, &[]),
        ("GOAWAY", frame(GOAWAY, 0, 0, &[0; 7]), wrong_size, &[]),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &[0; 3]), wrong_size, &[]),
        ("HEADERS with priority", frame(HEADERS, 0x25, 1, &[0; 4]), wrong_size, &[]),
    ]);
}

/// RFC 9113, sections 6.5.2 and 6.9.1.
#[test]
fn a_window_that_is_too_large_ends_the_connection_with_its_code() {
    let too_large = Outcome::GoAway(FLOW_CONTROL_ERROR);
    let update = frame(WINDOW_UPDATE, 0, 0, &i32::MAX.to_be_bytes());
    assert_cases(&[
        ("by SETTINGS", settings(&[(INITIAL_WINDOW_SIZE, 1 << 31)]), too_large, &[]),
        ("by WINDOW_UPDATE", update, too_large, &[]),
    ]);
}

/// RFC 9113, section 8.1.
#[test]
fn a_pseudo_field_in_trailers_ends_the_connection() {
    let cases = [(":path", "/y"), (":method", "GET"), (":status", "200"), (":other", "1")];
    for field in cases {
        assert_cases(&[(field.0, trailed(&[field]), GIVEN_UP, &[])]);
    }
    let behind = trailed(&[("x-a", "1"), (":path", "/y")]);
    assert_cases(&[("behind another field", behind, MALFORMED, &[])]);
}

#[test]
fn a_length_is_one_that_every_reader_can_count_to() {
    let length = |value| open(&[("content-length", value)]);
    assert_cases(&[
        ("2^63", length("9223372036854775808"), BAD, &[]),
        // The HTTP library has the same bound.
        ("2^64 - 1", length("18446744073709551615"), MALFORMED, &[]),
    ]);
}

//! Events that pass and events that do not.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const USAGE: &str = "data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n";
const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n";

/// What passes of a stream that arrives in pieces of these lengths.
fn pass(stream: &[u8], lengths: &[usize]) -> Vec<u8> {
    let mut withheld = WithheldUsage::default();
    let mut passed = Vec::new();
    let mut rest = stream;
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, behind) = rest.split_at(rest.len().min(*length));
        passed.extend(withheld.pass(&Bytes::copy_from_slice(piece)));
        assert!(withheld.held.len() <= MAX_EVENT_BYTES);
        rest = behind;
    }
    passed.extend(withheld.end());
    passed
}

fn passes(stream: &str) -> String {
    let whole = pass(stream.as_bytes(), &[stream.len().max(1)]);
    assert_eq!(pass(stream.as_bytes(), &[1]), whole, "single bytes make a difference");
    String::from_utf8(whole).expect("it is a text")
}

#[test]
fn the_event_that_only_states_tokens_is_withheld() {
    let stream = format!("{TEXT}{TEXT}{USAGE}data: [DONE]\n\n");
    assert_eq!(passes(&stream), format!("{TEXT}{TEXT}data: [DONE]\n\n"));
    for other in [
        "data: {\"choices\" : [ ] ,\n\
         data: \"usage\" : { } }\nid: 7\n\n",
        "event: chunk\ndata:{\"usage\":{\"a\":[]},\"\\u0063hoices\":[]}\n\n",
        "data:{\"usage\":{},\"choices\":[]}\n: c\n\n",
    ] {
        let stream = format!("{TEXT}{other}{TEXT}");
        assert_eq!(passes(&stream), format!("{TEXT}{TEXT}"), "{other}");
    }
}

#[test]
fn all_other_events_pass() {
    for event in [
        TEXT,
        "data: [DONE]\n\n",
        "data: {\"choices\":[],\"usage\":null}\n\n",
        "data: {\"choices\":[],\"prompt_filter_results\":[{}]}\n\n",
        "data: {\"choices\":[null],\"usage\":{}}\n\n",
        "data: {\"choices\":[{\"choices\":[]}],\"usage\":{}}\n\n",
        "data: {\"choices\":{},\"usage\":{}}\n\n",
        "data: {\"usage\":{}}\n\n",
        "data: {\"x\":{\"choices\":[],\"usage\":{}}}\n\n",
        "data: {\"choices\":[],\"usage\":{}\n\n",
        "data: {\"choices\\ud800\":[],\"usage\":{}}\n\n",
        "date: {\"choices\":[],\"usage\":{}}\n\n",
        "data: {\"choices\":[]}\n\ndata: {\"usage\":{}}\n\n",
        "\n\n\n",
        "data: {\"choices\":[],\"usage\":{}}\n",
        ": ping\n\n",
    ] {
        assert_eq!(passes(event), event);
    }
}

#[test]
fn lines_end_in_every_way_that_the_standard_allows() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = format!("{TEXT}{USAGE}{TEXT}").replace('\n', end);
        assert_eq!(passes(&stream), format!("{TEXT}{TEXT}").replace('\n', end), "{end:?}");
    }
}

#[test]
fn an_event_passes_with_its_last_byte_and_a_comment_at_once() {
    let mut withheld = WithheldUsage::default();
    let mut pass = |piece: &'static str| {
        let passed = withheld.pass(&Bytes::from_static(piece.as_bytes()));
        String::from_utf8(passed.to_vec()).expect("it is a text")
    };
    assert_eq!(pass("data: 1\r\n"), "");
    assert_eq!(pass("\r"), "data: 1\r\n\r");
    assert_eq!(pass("\n"), "\n");
    assert_eq!(pass(": a\n"), ": a\n");
    assert_eq!(pass(":\n: b"), "");
    assert_eq!(pass("\n"), ":\n: b\n");
    assert_eq!(pass("data: 2\n: c\n"), "");
    assert_eq!(pass("\ndata: 3\n\n"), "data: 2\n: c\n\ndata: 3\n\n");
}

#[test]
fn a_large_event_passes() {
    let event = |bytes: usize| {
        let rest = bytes - "data: {\"choices\":[],\"usage\":{},\"x\":\"\"}\n\n".len();
        format!("data: {{\"choices\":[],\"usage\":{{}},\"x\":\"{}\"}}\n\n", "a".repeat(rest))
    };
    assert_eq!(passes(&event(MAX_EVENT_BYTES)), "");
    for bytes in [MAX_EVENT_BYTES + 1, 3 * MAX_EVENT_BYTES] {
        let stream = format!("{}{USAGE}{TEXT}", event(bytes));
        assert_eq!(passes(&stream), format!("{}{TEXT}", event(bytes)), "{bytes}");
    }
}

proptest! {
    #[test]
    fn exactly_the_events_with_tokens_are_missing(
        events in vec(select(vec![USAGE, TEXT, ": c\n\n", ":\n", "data: [DONE]\n\n", "id: 1\n\n"]), 0..12),
        end in select(vec!["\n", "\r", "\r\n"]),
        lengths in vec(1_usize..60, 1..5),
    ) {
        let stream = events.concat().replace('\n', end);
        let others: Vec<_> = events.iter().copied().filter(|event| *event != USAGE).collect();
        let passed = pass(stream.as_bytes(), &lengths);
        let passed = String::from_utf8(passed).expect("it is a text");
        // A comment before the event belongs to it, and passes only if it has come alone.
        let plain = |text: String| text.replace(&format!(":{end}"), "");
        prop_assert_eq!(plain(passed), plain(others.concat().replace('\n', end)));
    }

    #[test]
    fn other_streams_pass_byte_for_byte(
        stream in vec(select(b"da: \r\n{}[]\"x".to_vec()), 0..300),
        lengths in vec(1_usize..20, 1..5),
    ) {
        prop_assert_eq!(pass(&stream, &lengths), stream);
    }
}

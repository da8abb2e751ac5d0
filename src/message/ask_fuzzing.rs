//! The fuzz target of requests that are changed so that their answers state tokens, and of the answers
//! from which the event with the tokens is withheld.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_core::meter::{AskScanner, WithheldUsage};

use super::fuzzing::pieces;

/// A request in JSON, or an answer of events.
pub fn asks(input: &[u8]) {
    let Some((&[seed, kind], text)) = input.split_first_chunk() else { return };
    match kind & 1 {
        0 => request(text, seed),
        _ => answer(text, seed),
    }
}

fn request(document: &[u8], seed: u8) {
    let found = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut scanner = AskScanner::default();
        pieces.for_each(|piece| scanner.read(piece));
        scanner.end()
    };
    let whole = found(&mut [document].into_iter());
    assert_eq!(found(&mut pieces(document, seed)), whole, "pieces make a difference");
    let Ok(replacement) = whole else { return };
    let Ok(parsed) = serde_json::from_slice::<Value>(document) else { return };
    let is_chat = parsed["stream"] == json!(true) && parsed["messages"].is_array();
    let options = &parsed["stream_options"];
    let expected = is_chat
        && (options.is_null() || options.is_object())
        && options["include_usage"] != json!(true);
    assert_eq!(replacement.is_some(), expected, "another parser reads another request");
    let Some(replacement) = replacement else { return };
    let at = |place| usize::try_from(place).expect("it is a place in the document");
    let before = &document[..at(replacement.range.start)];
    let behind = &document[at(replacement.range.end)..];
    let asking = [before, replacement.text.as_bytes(), behind].concat();
    let asking: Value = serde_json::from_slice(&asking).expect("the result is valid");
    let mut meant = parsed;
    meant["stream_options"]["include_usage"] = json!(true);
    assert_eq!(asking, meant, "something else has changed");
}

fn answer(stream: &[u8], seed: u8) {
    let passed = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut withheld = WithheldUsage::default();
        let pass = |piece: &[u8]| withheld.pass(&Bytes::copy_from_slice(piece));
        let mut passed: Vec<u8> = pieces.flat_map(pass).collect();
        passed.extend(withheld.end());
        passed
    };
    let whole = passed(&mut [stream].into_iter());
    let mut rest = stream.iter();
    assert!(whole.iter().all(|byte| rest.any(|other| other == byte)), "bytes are added");
    let may_have_usage = stream.windows(4).any(|part| part == b"data");
    assert!(may_have_usage || whole == stream, "a stream without data loses bytes");
    // A comment before an event passes if it comes alone, so only streams without any are equal.
    if !stream.contains(&b':') || !stream.windows(2).any(|it| matches!(it, b"\n:" | b"\r:")) {
        let in_pieces = passed(&mut pieces(stream, seed));
        assert!(stream.starts_with(b":") || in_pieces == whole, "pieces make a difference");
    }
}

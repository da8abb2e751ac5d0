//! Fuzz targets of the bodies of calls.

use serde_json::Value;
use tollgate_core::time::Span;

use super::Problem;
use super::question::{self, CheckCall, LeasesCall, MAX_CHECKS, Parts, parts, read};
use crate::message::json::pointer_at;

/// The place of a mistake: a JSON text, of which a part is read.
pub fn pointers(input: &[u8]) {
    let Some((&[high, low], text)) = input.split_first_chunk() else { return };
    let length = usize::from(u16::from_be_bytes([high, low])) % (text.len() + 1);
    let pointer = pointer_at(text, length);
    assert!(pointer.is_empty() || pointer.starts_with('/'), "no pointer: {pointer}");
    let escapes = pointer.split('~').skip(1);
    assert!(escapes.into_iter().all(|it| it.starts_with(['0', '1'])), "no pointer: {pointer}");
    let Ok(value) = serde_json::from_slice::<Value>(text) else { return };
    assert_eq!(pointer_at(text, text.len()), "", "the whole text is meant");
    let (head, rest) = text.split_at(length);
    // Where a name is in progress, or a name occurs twice, no value is meant. An empty list has
    // no first element.
    let is_whole = structure(text).0 == structure(value.to_string().as_bytes()).0;
    let is_empty_list =
        head.trim_ascii_end().ends_with(b"[") && rest.trim_ascii().starts_with(b"]");
    if is_whole && !structure(head).1 && !is_empty_list {
        assert!(value.pointer(&pointer).is_some(), "{pointer} leads nowhere");
    }
}

/// The number of members in a JSON text, and whether the text ends in a string.
fn structure(text: &[u8]) -> (usize, bool) {
    let mut members = 0;
    let mut in_string = false;
    let mut is_escaped = false;
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b':' if !in_string => members += 1,
            _ => {}
        }
    }
    (members, in_string)
}

/// The bodies of `/v1/check` and of the calls with leases.
pub fn questions(input: &[u8]) {
    if let Some(question) = read_or_point(input, read::<CheckCall>) {
        if let Some(Ok(ttl)) = question.ttl.as_deref().map(|it| question::ttl(it, Span::DAY)) {
            assert!((Span::SECOND..=Span::DAY).contains(&ttl), "a lease of {ttl}");
        }
        if let Ok(Parts { all, is_batch }) = parts(question, MAX_CHECKS) {
            assert!((1..=MAX_CHECKS).contains(&all.len()) && (is_batch || all.len() == 1));
            assert!(all.iter().all(|it| it.checks.is_none()), "a list in a list");
        }
    }
    if let Some(call) = read_or_point(input, read::<LeasesCall>) {
        drop(parts(call, MAX_CHECKS));
    }
}

/// Reads a body. If it is JSON of another form, the mistake has a place in it.
pub fn read_or_point<T>(body: &[u8], read: impl Fn(&[u8]) -> Result<T, Problem>) -> Option<T> {
    let problem = match read(body) {
        Ok(read) => return Some(read),
        Err(problem) => problem,
    };
    let value = serde_json::from_slice::<Value>(body).ok()?;
    let is_whole = structure(body).0 == structure(value.to_string().as_bytes()).0;
    let pointer = problem.pointer.unwrap_or_default();
    assert!(!is_whole || value.pointer(&pointer).is_some(), "{pointer} leads nowhere");
    None
}

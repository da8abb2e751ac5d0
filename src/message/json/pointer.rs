//! The place of a mistake in a JSON text, as a JSON pointer (RFC 6901). Pure.

use std::fmt::Write as _;

/// A container that has begun and not ended.
enum Open {
    /// An object, its last key, and whether a key comes next.
    Object(String, bool),
    /// An array, and the index of its last element.
    Array(usize),
}

/// The pointer to the value in `text` that the first `length` bytes end with. The text may be
/// wrong from there on.
pub fn pointer_at(text: &[u8], length: usize) -> String {
    let text = &text[..length.min(text.len())];
    let mut open = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' => open.push(Open::Object(String::new(), true)),
            b'[' => open.push(Open::Array(0)),
            b'}' | b']' => drop(open.pop()),
            b',' => match open.last_mut() {
                Some(Open::Object(_, is_key_next)) => *is_key_next = true,
                Some(Open::Array(index)) => *index += 1,
                None => {}
            },
            b'"' => {
                let end = end_of_string(text, at);
                if let Some(Open::Object(key, is_key_next @ true)) = open.last_mut() {
                    // With its quotes it is a JSON text of its own.
                    *key = serde_json::from_slice(&text[at - 1..end]).unwrap_or_default();
                    *is_key_next = false;
                }
                at = end;
            }
            _ => {}
        }
    }
    let mut pointer = String::new();
    for container in open {
        match container {
            // Between two members it is the object that is wrong.
            Open::Object(_, true) => {}
            Open::Object(key, false) => {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            Open::Array(index) => {
                let _ = write!(pointer, "/{index}");
            }
        }
    }
    pointer
}

/// The position behind the string whose first character is at `at`.
fn end_of_string(text: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = text.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    text.len()
}

/// The number of bytes until an error.
pub fn length_until(error: &serde_json::Error, text: &[u8]) -> usize {
    let before = error.line().saturating_sub(1);
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.by_ref().take(before).map(<[u8]>::len).sum::<usize>() + error.column()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pointer_leads_to_the_value_that_ends_there() {
        for (text, expected) in [
            ("", ""),
            ("{", ""),
            (r#"{"a": 1"#, "/a"),
            (r#"{"a": 1,"#, ""),
            (r#"{"a": 1, "b""#, "/b"),
            (r#"{"a": 1}"#, ""),
            (r#"{"a": {"b": 1}"#, "/a"),
            (r#"{"a": ["x", "y""#, "/a/1"),
            (r#"{"a": [{"b": 1}, {"c": "}"#, "/a/1/c"),
            (r#"{"a/b~": "\"{[""#, "/a~1b~0"),
            (r#"{"a": ["#, "/a/0"),
            (r#"[[], [1, "#, "/1/1"),
        ] {
            assert_eq!(pointer_at(text.as_bytes(), text.len()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r#"[\[\]{}",:\\a1]{0,40}"#, length in 0..50_usize) {
            pointer_at(text.as_bytes(), length);
        }
    }
}

//! Numbers in JSON documents, against a parser that builds the whole document.

use proptest::collection::vec;
use proptest::sample::{Index, select};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::*;

/// The number that a pointer identifies in a whole document.
pub(super) fn found(document: &str, pointer: &str) -> Option<u64> {
    let document: Value = serde_json::from_str(document).ok()?;
    let number = document.pointer(pointer)?.as_number()?;
    match number.as_f64()? {
        _ if number.is_u64() => number.as_u64(),
        0.0 => Some(0),
        // Through text, because every conversion from a float loses precision.
        float if float > 0.0 => format!("{:.0}", float.ceil()).parse().ok(),
        _ => None,
    }
}

#[test]
fn the_number_at_the_pointer_is_found() {
    let document = br#" { "id": "a\"b", "choices": [ {"n": 1}, {"n": 2.5} ],
        "usage": { "details": {"total": 7}, "total": 41 }, "total": 9, "": {"": 3} } "#;
    let cases = [
        ("/usage/total", Some(41)),
        ("/usage/details/total", Some(7)),
        ("/total", Some(9)),
        ("/choices/0/n", Some(1)),
        ("/choices/1/n", Some(3)),
        ("//", Some(3)),
        ("/choices/2/n", None),
        ("/choices/-", None),
        ("/usage", None),
        ("/usage/total/x", None),
        ("/id", None),
        ("/tota", None),
        ("/totals", None),
        ("", None),
    ];
    for (pointer, expected) in cases {
        assert_eq!(cost(&json(pointer), document), expected, "{pointer}");
    }
}

#[test]
fn if_a_key_occurs_twice_the_last_counts() {
    let cases: [(&[u8], _); 5] = [
        (br#"{"a":{"b":1},"a":{"b":2}}"#, Some(2)),
        (br#"{"a":{"b":1,"b":2}}"#, Some(2)),
        (br#"{"a":{"b":1},"a":{}}"#, None),
        (br#"{"a":{"b":1},"\u0061":7}"#, None),
        (br#"{"a":{"b":1,"b":"2"}}"#, None),
    ];
    for (document, expected) in cases {
        assert_eq!(cost(&json("/a/b"), document), expected);
    }
}

#[test]
fn a_document_that_breaks_off_or_has_trailing_bytes_has_no_number() {
    let document = br#"{"n":12,"x":[true,"\u00e9"]}"#;
    for end in 0..document.len() {
        assert_eq!(cost(&json("/n"), &document[..end]), None, "{end}");
    }
    assert_eq!(cost(&json("/n"), document), Some(12));
    assert_eq!(cost(&json("/n"), &[&document[..], b"{}"].concat()), None);
    assert_eq!(cost(&json(""), b"12"), Some(12));
}

#[test]
fn halves_of_surrogate_pairs_are_accepted_and_equal_no_key() {
    let cases = [
        (r#"{"x":"\ud83d","n":1}"#, "/n", Some(1)),
        (r#"{"\ud83d\ude00":1}"#, "/😀", Some(1)),
        (r#"{"\ud83d":1}"#, "/😀", None),
        (r#"{"\ud83dn":1}"#, "/n", None),
        (r#"{"\ud83d\n":1}"#, "/\n", None),
        (r#"{"\ud83dn\ude00":1}"#, "/n😀", None),
        (r#"{"\ud83d\n\ude00":1}"#, "/\n😀", None),
        (r#"{"\ude00":1}"#, "/😀", None),
        (r#"{"\ud83d\ud83d\ude00":1}"#, "/😀", None),
        (r#"{"n\ud83d":1}"#, "/n", None),
    ];
    for (document, pointer, expected) in cases {
        assert_eq!(cost(&json(pointer), document.as_bytes()), expected, "{document}");
    }
}

#[test]
fn bytes_that_are_not_utf_8_make_a_document_invalid() {
    let sequences: [(&[u8], _); 10] = [
        ("é€😀\u{10FFFF}\u{D7FF}\u{E000}\u{800}\u{10000}".as_bytes(), Some(1)),
        (b"\x80", None),
        (b"\xC1\x80", None),
        (b"\xE0\x9F\xBF", None),
        (b"\xED\xA0\x80", None),
        (b"\xF0\x8F\xBF\xBF", None),
        (b"\xF4\x90\x80\x80", None),
        (b"\xF5\x80\x80\x80", None),
        (b"\xE2\x82", None),
        (b"\xE2\x82\xC0", None),
    ];
    for (sequence, expected) in sequences {
        let document = [b"{\"x\":\"", sequence, b"\",\"n\":1}"].concat();
        assert_eq!(cost(&json("/n"), &document), expected, "{sequence:?}");
    }
}

#[test]
fn documents_may_be_nested_128_levels_deep() {
    let nested = |levels: usize| {
        let document = format!("{}5{}", "[".repeat(levels), "]".repeat(levels));
        cost(&json(&"/0".repeat(levels)), document.as_bytes())
    };
    assert_eq!((nested(1), nested(128)), (Some(5), Some(5)));
    let beside = |levels: usize| {
        let open = "[".repeat(levels - 1);
        let close = "]".repeat(levels - 1);
        cost(&json("/n"), format!(r#"{{"n":5,"x":{open}{close}}}"#).as_bytes())
    };
    assert_eq!((beside(128), beside(129)), (Some(5), None));
    assert_eq!(cost(&json(""), "[{\"a\":".repeat(1_000_000).as_bytes()), None);
}

#[test]
fn long_keys_texts_and_numbers_are_read_to_their_ends() {
    let long = 1_000_000;
    let text = "x".repeat(long);
    let digits = "9".repeat(long);
    let document = format!(r#"{{"{text}":"{text}","a":{digits},"b":{digits}e-{long},"n":4}}"#);
    let cases = [("/n", Some(4)), ("/a", Some(u64::MAX)), ("/b", Some(1))];
    for (pointer, expected) in cases {
        assert_eq!(cost(&json(pointer), document.as_bytes()), expected, "{pointer}");
    }
}

const KEYS: [&str; 9] = ["a", "ab", "", "0", "1", "é", "😀", "~", "/\""];

/// A text as a JSON string. Each set bit means an escape.
pub(super) fn written(text: &str, escapes: u8) -> String {
    let mut json = String::from('"');
    for (at, c) in text.chars().enumerate() {
        if escapes >> (at % 8) & 1 == 1 || matches!(c, '"' | '\\') || c.is_control() {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                json.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            json.push(c);
        }
    }
    json.push('"');
    json
}

fn key() -> impl Strategy<Value = String> {
    (select(&KEYS[..]), any::<u8>()).prop_map(|(key, escapes)| written(key, escapes))
}

/// Any integer, or a number that a float represents without loss.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        "-?(0|[1-9][0-9]{0,7})(\\.[0-9]{1,6})?([eE][+]?[0-3]|[eE]-[0-9]{1,2})?",
    ]
}

/// Documents as text, with repeated keys, escapes and blanks.
pub(super) fn document() -> impl Strategy<Value = String> {
    let text = (".{0,6}", any::<u8>()).prop_map(|(text, escapes)| written(&text, escapes));
    let leaf = prop_oneof![
        4 => number(),
        1 => text,
        1 => select(vec!["true", "false", "null", "{}", "[ ]"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let blank = "[ \t\r\n]{0,2}";
        prop_oneof![
            (vec(inner.clone(), 0..5), blank).prop_map(|(values, blank)| {
                format!("[{blank}{}]{blank}", values.join(&format!("{blank},")))
            }),
            (vec((key(), inner), 0..5), blank).prop_map(|(members, blank)| {
                let members = members.iter().map(|(key, value)| format!("{key}{blank}:{value}"));
                format!("{blank}{{{blank}{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

/// A pointer to the value that these choices lead to, and maybe one token more.
pub(super) fn pointer_into(document: &str, choices: &[Index], beyond: Option<&str>) -> String {
    let document: Value = serde_json::from_str(document).expect("a document");
    let mut pointer = String::new();
    let mut value = &document;
    for choice in choices {
        let token = match value {
            Value::Array(values) if !values.is_empty() => choice.index(values.len()).to_string(),
            Value::Object(members) if !members.is_empty() => {
                let key = members.keys().nth(choice.index(members.len())).expect("a key");
                key.replace('~', "~0").replace('/', "~1")
            }
            _ => break,
        };
        pointer = format!("{pointer}/{token}");
        value = document.pointer(&pointer).expect("a member");
    }
    beyond.map_or(pointer.clone(), |token| format!("{pointer}/{token}"))
}

/// Bytes with a meaning in JSON, and some that are invalid.
pub(super) fn fragments() -> impl Strategy<Value = Vec<u8>> {
    const FRAGMENTS: [&[u8]; 32] = [
        b"[",
        b"]",
        b"{",
        b"}",
        b"\"",
        b"\"",
        b":",
        b",",
        b"\\",
        b"u",
        b"d83d",
        b"\\ude00",
        b"0",
        b"1",
        b"-",
        b"+",
        b".",
        b"e",
        b"E",
        b"true",
        b"nul",
        b"l",
        b" ",
        b"\n",
        b"\x00",
        b"\xC3",
        b"\xA9",
        b"\xED\xA0\x80",
        b"\xF0\x9F\x98\x80",
        b"\"a\":",
        b"[1,",
        b"{\"a\":1}",
    ];
    vec(select(&FRAGMENTS[..]), 0..12).prop_map(|fragments| fragments.concat())
}

/// Whether these bytes are JSON. Numbers may be of any size, and surrogates
/// without their other halves.
pub(super) fn is_document(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok() && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_same_number_is_found_as_in_the_whole_document(
        document in document(),
        choices in vec(any::<Index>(), 0..6),
        beyond in proptest::option::weighted(0.1, select(vec!["a", "0", "-", "~0"])),
        sizes in chunk_sizes(),
    ) {
        let pointer = pointer_into(&document, &choices, beyond);
        let expected = found(&document, &pointer);
        let spec = json(&pointer);
        prop_assert_eq!(cost(&spec, document.as_bytes()), expected, "{} {}", pointer, document);
        prop_assert_eq!(cost_in_chunks(&spec, document.as_bytes(), &sizes), expected);
    }

    #[test]
    fn exactly_the_documents_of_the_grammar_are_accepted(
        garbage in fragments(),
        sizes in chunk_sizes(),
    ) {
        let document = [b"[7,", &garbage[..], b"]"].concat();
        let expected = is_document(&document).then_some(7);
        prop_assert_eq!(cost(&json("/0"), &document), expected);
        prop_assert_eq!(cost_in_chunks(&json("/0"), &document, &sizes), expected);
    }

    #[test]
    fn a_changed_byte_is_noticed_if_it_makes_the_document_invalid(
        document in document(),
        at in any::<Index>(),
        byte in select(&b"[]{}\",:\\u0-.e \x1F\xC3"[..]),
    ) {
        let mut document = format!("[7,{document}]").into_bytes();
        let at = 3 + at.index(document.len() - 3);
        document[at] = byte;
        let expected = is_document(&document).then_some(7);
        prop_assert_eq!(cost(&json("/0"), &document), expected);
    }
}

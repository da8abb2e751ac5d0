//! What is written into a document, against a parser that builds the whole document.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value as Json, json};

use super::*;

fn scan(document: &[u8]) -> Result<Option<Replacement>, DocumentFault> {
    let mut scanner = AskScanner::default();
    scanner.read(document);
    scanner.end()
}

/// The document with what is written into it. None: nothing is.
fn asking(document: &str) -> Option<String> {
    let Replacement { range, text } = scan(document.as_bytes()).expect("it is valid")?;
    let at = |place: u64| usize::try_from(place).expect("it is small");
    let before = &document[..at(range.start)];
    let behind = &document[at(range.end)..];
    Some(format!("{before}{text}{behind}"))
}

#[test]
fn an_option_is_added_where_it_is_missing() {
    for (document, expected) in [
        (
            r#"{"stream":true,"messages":[]}"#,
            r#"{"stream_options":{"include_usage":true},"stream":true,"messages":[]}"#,
        ),
        (
            " { \"messages\" : [1],\n\"stream\":true }\n",
            " {\"stream_options\":{\"include_usage\":true}, \"messages\" : [1],\n\"stream\":true }\n",
        ),
        (
            r#"{"stream":true,"stream_options": null ,"messages":[]}"#,
            r#"{"stream":true,"stream_options": {"include_usage":true} ,"messages":[]}"#,
        ),
        (
            r#"{"stream":true,"messages":[],"stream_options":{ }}"#,
            r#"{"stream":true,"messages":[],"stream_options":{"include_usage":true }}"#,
        ),
        (
            r#"{"stream":true,"messages":[],"stream_options":{ "include_obfuscation":false }}"#,
            r#"{"stream":true,"messages":[],"stream_options":{"include_usage":true, "include_obfuscation":false }}"#,
        ),
    ] {
        assert_eq!(asking(document).as_deref(), Some(expected), "{document}");
    }
}

#[test]
fn every_value_but_true_is_replaced() {
    for value in [
        "false",
        "null",
        "0",
        "-1.5e2",
        "\"no\"",
        "\"\\\"}\"",
        "[]",
        "[{\"a\":[1]}]",
        "{}",
        "{\"include_usage\":true}",
    ] {
        for (before, behind) in [("", ""), (" ", " "), ("\n", "\t,\"x\":{\"include_usage\":false}")]
        {
            let document = |value: &str| {
                format!(
                    "{{\"messages\":[],\"stream_options\":{{\"y\":0,\"include\\u005fusage\":\
                     {before}{value}{behind}}},\"stream\":true}}"
                )
            };
            assert_eq!(asking(&document(value)), Some(document("true")), "{value}");
        }
    }
}

#[test]
fn other_requests_stay_as_they_are() {
    for document in [
        r#"{"stream":true,"messages":[],"stream_options":{"include_usage":true}}"#,
        r#"{"stream":false,"messages":[]}"#,
        r#"{"messages":[]}"#,
        r#"{"stream":"true","messages":[]}"#,
        r#"{"stream":1,"messages":[]}"#,
        r#"{"stream":[true],"messages":[]}"#,
        r#"{"stream":true}"#,
        r#"{"stream":true,"input":"the API of responses"}"#,
        r#"{"stream":true,"messages":null}"#,
        r#"{"x":{"stream":true,"messages":[]}}"#,
        r#"[{"stream":true,"messages":[]}]"#,
        r#"{"stream":true,"messages":[],"stream_options":"x"}"#,
        r#"{"stream":true,"messages":[],"stream_options":[{"include_usage":false}]}"#,
        r#"{"stream":true,"messages":[],"stream_options":true}"#,
        r#"{"stream\ud800":true,"messages":[]}"#,
        "true",
        "7",
    ] {
        assert_eq!(asking(document), None, "{document}");
    }
}

#[test]
fn a_document_with_two_readings_is_a_fault() {
    for (document, fault) in [
        (r#"{"stream":true,"stream":false,"messages":[]}"#, DocumentFault::Twice),
        (r#"{"stream_options":{},"stream_options":{}}"#, DocumentFault::Twice),
        (r#"{"stream_options":{"include_usage":null,"include_usage":true}}"#, DocumentFault::Twice),
        (r#"{"messages":[],"messages":[]}"#, DocumentFault::Twice),
        (r#"{"Stream":true}"#, DocumentFault::Case),
        ("{\"\u{17F}tream\":true}", DocumentFault::Case),
        (r#"{"STREAM_OPTIONS":{}}"#, DocumentFault::Case),
        (r#"{"stream_options":{"Include_Usage":false}}"#, DocumentFault::Case),
        (r#"{"stream":true"#, DocumentFault::Invalid),
        (r#"{"stream":true}}"#, DocumentFault::Invalid),
        ("", DocumentFault::Invalid),
    ] {
        assert_eq!(scan(document.as_bytes()), Err(fault), "{document}");
    }
    let elsewhere = r#"{"x":{"stream":1,"stream":2,"Stream":3},"messages":[{"STREAM":1}]}"#;
    assert_eq!(scan(elsewhere.as_bytes()), Ok(None));
}

/// The same requests as a parser reads them.
fn expected(document: &Json) -> Option<Json> {
    let is_request = document["stream"] == json!(true) && document["messages"].is_array();
    let options = document.get("stream_options").cloned().unwrap_or(Json::Null);
    if !is_request || !(options.is_null() || options.is_object()) {
        return None;
    }
    let mut asking = document.clone();
    asking["stream_options"]["include_usage"] = json!(true);
    (asking != *document).then_some(asking)
}

const BLANKS: [&str; 5] = ["", "", " ", "\n\t", "\r "];

/// The text of a value.
fn value() -> impl Strategy<Value = String> {
    let leaf =
        select(vec!["null", "true", "false", "0", "-7.25", "\"\"", "\"a\\\"}{\"", "[]", "{}"]);
    leaf.prop_map(str::to_owned).prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            vec((select(&BLANKS[..]), inner.clone()), 1..3).prop_map(|all| {
                let items: Vec<_> = all.iter().map(|(blank, it)| format!("{blank}{it}")).collect();
                format!("[{}]", items.join(","))
            }),
            object(inner),
        ]
    })
}

/// The text of an object whose members have these values.
fn object(values: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    const KEYS: [&str; 7] = [
        "stream",
        "messages",
        "stream_options",
        "stream\\u005foptions",
        "include_usage",
        "\\u0069nclude_usage",
        "x",
    ];
    let blanks = (select(&BLANKS[..]), select(&BLANKS[..]));
    vec((select(&KEYS[..]), blanks, values), 0..5).prop_map(|members| {
        let mut seen = Vec::new();
        let mut text = Vec::new();
        for (key, (before, behind), value) in members {
            let name: String = serde_json::from_str(&format!("\"{key}\"")).unwrap();
            if !seen.contains(&name) {
                seen.push(name);
                text.push(format!("{before}\"{key}\"{behind}:{before}{value}{behind}"));
            }
        }
        format!("{{{}}}", text.join(","))
    })
}

/// The text of a request, whose members have an order of their own.
fn request() -> impl Strategy<Value = String> {
    let options = prop_oneof![object(value()), value()];
    let stream = select(vec!["true", "true", "true", "false", "1"]);
    let others = vec((select(vec!["a", "model", "usage"]), value()), 0..3);
    (options, stream, others, any::<[bool; 3]>(), any::<prop::sample::Index>()).prop_map(
        |(options, stream, others, has, turn)| {
            let mut members = vec![
                format!("\"stream\" : {stream}"),
                "\"messages\":[{\"role\":\"user\",\"stream\":0}]".to_owned(),
            ];
            if has[0] {
                members.push(format!("\"stream_options\": {options}\n"));
            }
            for (index, (key, value)) in others.iter().enumerate() {
                members.push(format!("\"{key}{index}\":{value}"));
            }
            let turn = turn.index(members.len());
            members.rotate_left(turn);
            let blank = if has[1] { "\n " } else { "" };
            format!("{blank}{{{blank}{}{blank}}}{blank}", members.join(","))
        },
    )
}

proptest! {
    #[test]
    fn the_result_is_the_same_document_with_the_option(
        document in prop_oneof![request(), object(value()), value()],
    ) {
        let parsed: Json = serde_json::from_str(&document).expect("it is valid");
        let asking = asking(&document);
        let read = asking.as_ref().map(|text| serde_json::from_str(text).expect("it is valid"));
        prop_assert_eq!(&read, &expected(&parsed), "{}", document);
        if let Some(asking) = asking {
            prop_assert_eq!(self::asking(&asking), None, "it asks already");
        }
    }

    #[test]
    fn pieces_make_no_difference(document in request(), pieces in vec(1_usize..9, 1..5)) {
        let mut scanner = AskScanner::default();
        let mut rest = document.as_bytes();
        for length in pieces.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, behind) = rest.split_at(rest.len().min(*length));
            scanner.read(piece);
            rest = behind;
        }
        prop_assert_eq!(scanner.end(), scan(document.as_bytes()));
    }

    #[test]
    fn no_bytes_make_it_panic(document in vec(any::<u8>(), 0..200)) {
        drop(scan(&document));
        drop(scan(&[b"{\"stream_options\":{\"include_usage\":", &document[..]].concat()));
    }
}

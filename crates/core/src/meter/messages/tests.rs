//! Messages, against a parser that builds the whole document.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn scan(document: &[u8]) -> Result<Messages, DocumentFault> {
    let mut scanner = MessageScanner::default();
    scanner.read(document);
    scanner.end()
}

fn message(document: &str) -> Option<RpcMessage> {
    scan(document.as_bytes()).expect("it is valid").message
}

fn call(id: &str, calls_tool: bool) -> Option<RpcMessage> {
    Some(RpcMessage::Call { id: id.into(), calls_tool })
}

#[test]
fn an_identifier_is_repeated_as_it_is_written() {
    for id in ["7", "-1.50e+2", "0", "\"a\"", "\"\"", "\"\\u0061\\\"é\"", "\"\\ud83d\""] {
        let first =
            format!("{{\"id\" :\t{id} ,\"method\":\"tools/call\",\"params\":{{\"id\":1}}}}");
        assert_eq!(message(&first), call(id, true), "{first}");
        let last = format!("{{\"params\":[{{\"id\":[2]}}],\"method\":\"ping\",\"\\u0069d\":{id}}}");
        assert_eq!(message(&last), call(id, false), "{last}");
    }
    let long = |bytes: usize| format!("{{\"method\":\"x\",\"id\":\"{}\"}}", "a".repeat(bytes - 2));
    assert_eq!(message(&long(256)), call(&format!("\"{}\"", "a".repeat(254)), false));
    assert_eq!(message(&long(257)), None);
    let digits = |count: usize| format!("{{\"method\":\"x\",\"id\":{}}}", "1".repeat(count));
    assert_eq!(message(&digits(256)), call(&"1".repeat(256), false));
    assert_eq!([257, 258, 259, 900].map(|count| message(&digits(count))), [const { None }; 4]);
}

#[test]
fn an_identifier_that_is_no_text_and_no_number_cannot_be_repeated() {
    for id in ["null", "true", "{}", "[1]", "{\"id\":1}"] {
        assert_eq!(message(&format!("{{\"method\":\"x\",\"id\":{id},\"z\":1}}")), None, "{id}");
    }
}

#[test]
fn notifications_and_responses_get_no_response() {
    let unanswered = Some(RpcMessage::Unanswered);
    assert_eq!(message(r#"{"method":"notifications/initialized"}"#), unanswered);
    assert_eq!(message(r#"{"id":1,"result":{"method":"x"}}"#), unanswered);
    for other in ["{}", "[]", "7", "\"x\"", r#"{"params":{"id":1,"method":"x"}}"#] {
        assert_eq!(message(other), None, "{other}");
    }
}

#[test]
fn calls_of_a_batch_are_counted_and_nothing_else() {
    let calls = |document: &str| scan(document.as_bytes()).expect("it is valid").calls;
    for (document, expected) in [
        (r#"{"method":"x","id":1}"#, 1),
        (r#"{"method":"x","id":null}"#, 1),
        (r#"{"method":"x"}"#, 0),
        (r#"[{"id":1,"method":"a"},{"method":"b","id":"2"},{"method":"c"},{"id":3}]"#, 2),
        (r#"[{"id":1,"method":"a"},[1,{"id":1,"method":"a"}],{}]"#, 1),
        (r#"[{"params":{"id":1,"method":"a"}}, 5]"#, 0),
        ("[[[[]]]]", 0),
    ] {
        assert_eq!(calls(document), expected, "{document}");
        assert!(document.starts_with('{') || message(document).is_none());
    }
}

#[test]
fn a_message_with_two_readings_has_none() {
    for (document, fault) in [
        (r#"{"id":1,"method":"x","id":2}"#, DocumentFault::Twice),
        (r#"[{"method":"x","method":"x"}]"#, DocumentFault::Twice),
        (r#"{"ID":1,"method":"x"}"#, DocumentFault::Case),
        (r#"[{"id":1,"Method":"x"}]"#, DocumentFault::Case),
        (r#"{"id":1,"method":"x""#, DocumentFault::Invalid),
        (r#"{"id":01,"method":"x"}"#, DocumentFault::Invalid),
    ] {
        assert_eq!(scan(document.as_bytes()), Err(fault), "{document}");
    }
    let other = r#"{"id":1,"methods":"x","method":"y","meth":1,"params":{"ID":1,"id":1,"id":2}}"#;
    assert_eq!(message(other), call("1", false));
}

#[test]
fn half_of_a_surrogate_pair_makes_another_name() {
    for half in [r"\ud800", r"\udc00"] {
        let other = format!("{{\"id\":1,\"method{half}\":\"x\"}}");
        assert_eq!(message(&other), Some(RpcMessage::Unanswered), "{other}");
        let both = format!("{{\"{half}id\":1,\"id\":2,\"method\":\"x\",\"ID{half}\":3}}");
        assert_eq!(message(&both), call("2", false), "{both}");
        let tool = format!("{{\"id\":1,\"method\":\"tools/call{half}\"}}");
        assert_eq!(message(&tool), call("1", false), "{tool}");
    }
}

#[test]
fn what_is_kept_has_a_bound() {
    let mut scanner = MessageScanner::default();
    scanner.read(b"{\"method\":\"");
    (0..1000).for_each(|_| scanner.read(&[b'm'; 1000]));
    scanner.read(b"\",\"id\":\"");
    (0..1000).for_each(|_| scanner.read(&[b'i'; 1000]));
    assert!(scanner.id.capacity() < 1024 && scanner.document.follower().text.capacity() < 1024);
}

fn members() -> impl Strategy<Value = String> {
    let member = prop_oneof![
        (0..3_u8).prop_map(|n| format!("\"id\":{n}")),
        Just("\"id\":\"a\\\"}\"".to_owned()),
        Just("\"id\":null".to_owned()),
        Just("\"id\":{\"id\":[1]}".to_owned()),
        Just("\"method\":\"tools/call\"".to_owned()),
        Just("\"method\":\"x\"".to_owned()),
        Just("\"other\":[{\"id\":1,\"method\":\"y\"}]".to_owned()),
        Just("\"a\":true".to_owned()),
    ];
    vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(",")))
}

proptest! {
    #[test]
    fn another_parser_finds_the_same(
        messages in vec(members(), 1..4),
        is_batch in any::<bool>(),
        sizes in vec(1..9_usize, 1..5),
    ) {
        let text = if is_batch { format!("[{}]", messages.join(",")) } else { messages[0].clone() };
        let whole = scan(text.as_bytes());
        let mut scanner = MessageScanner::default();
        let mut rest = text.as_bytes();
        for size in sizes.iter().cycle() {
            let (chunk, others) = rest.split_at(rest.len().min(*size));
            scanner.read(chunk);
            rest = others;
            if rest.is_empty() { break }
        }
        prop_assert_eq!(&scanner.end(), &whole, "chunks make a difference");
        let Ok(whole) = whole else {
            prop_assert_eq!(whole, Err(DocumentFault::Twice));
            return Ok(());
        };
        let document: Value = serde_json::from_str(&text).expect("it is valid");
        let all = document.as_array().cloned().unwrap_or_else(|| vec![document.clone()]);
        let has = |message: &Value, name: &str| message.get(name).is_some();
        let calls = all.iter().filter(|it| has(it, "id") && has(it, "method")).count();
        prop_assert_eq!(whole.calls, u64::try_from(calls).expect("few"));
        let expected = match (has(&document, "method"), has(&document, "id")) {
            _ if is_batch => None,
            (true, true) => match &document["id"] {
                id @ (Value::String(_) | Value::Number(_)) => Some(Some(id.clone())),
                _ => None,
            },
            (false, false) => None,
            _ => Some(None),
        };
        let found = whole.message.map(|message| match message {
            RpcMessage::Call { id, calls_tool } => {
                assert_eq!(calls_tool, document["method"] == "tools/call");
                Some(serde_json::from_str::<Value>(&id).expect("it is a value"))
            }
            RpcMessage::Unanswered => None,
        });
        prop_assert_eq!(found, expected);
    }
}

//! The values in bodies. What backends read differently has no value.

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;
use crate::policy::tests::{policy_of, with};
use crate::policy::{Cost, KeyFor, Policy};
use crate::request::Content;

const JSON: (&str, &str) = ("content-type", "application/json");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"))
    };
    let mut headers = HeaderMap::new();
    lines.iter().map(line).for_each(|(name, value)| _ = headers.append(name, value));
    headers
}

fn key(text: &str) -> KeyExpr {
    text.parse().expect("a key")
}

fn word(text: &str) -> ContentWord {
    key(text).body_words().first().copied().expect("a word").clone()
}

fn values(words: &[&str], lines: &[(&'static str, &str)], body: &[u8]) -> ContentValues {
    let keys: Vec<KeyExpr> = words.iter().map(|text| key(text)).collect();
    let words = BodyWords::of(&keys).expect("words of a body");
    let headers = headers(lines);
    match words.begin(&headers) {
        Ok(mut reading) => {
            reading.read(body);
            reading.end(&headers)
        }
        Err(values) => values,
    }
}

/// The value of one word.
fn value(
    text: &str,
    lines: &[(&'static str, &str)],
    body: &str,
) -> Result<Option<String>, ContentFault> {
    let found = values(&[text], lines, body.as_bytes());
    let value = found.get(&word(text))?;
    Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
}

fn some(text: &str) -> Result<Option<String>, ContentFault> {
    Ok(Some(text.to_owned()))
}

#[test]
fn a_body_is_read_if_its_content_type_is_that_of_the_value() {
    let body = r#"{"model":"m"}"#;
    for content_type in [
        "application/json",
        "Application/JSON; charset=UTF-8",
        "application/vnd.api+json",
        "application/json ; charset=\"utf-8\"",
    ] {
        assert_eq!(value("json:/model", &[("content-type", content_type)], body), some("m"));
    }
    assert_eq!(value("json:/model", &[], body), some("m"));
    for content_type in ["application/grpcx+json", "application/grpc-web+json"] {
        assert_eq!(value("json:/model", &[("content-type", content_type)], body), some("m"));
    }
    for content_type in ["application/grpc", "application/grpc+json; charset=utf-8"] {
        assert_eq!(value("json:/model", &[("content-type", content_type)], body), Ok(None));
    }
    for content_type in ["text/plain", "application/jsonl", "application/xml", "json"] {
        assert_eq!(value("json:/model", &[("content-type", content_type)], body), Ok(None));
    }
    assert_eq!(value("json:/model", &[FORM], body), Ok(None));
    assert_eq!(value("form:a", &[JSON], "a=b"), Ok(None));
    assert_eq!(value("form:a", &[], "a=b"), Ok(None));
    assert_eq!(value("form:a", &[FORM], "x=y&a=b+c"), some("b+c"));
}

/// Some backends of JSON-RPC read a body whatever its type is.
#[test]
fn calls_are_counted_under_each_content_type_but_that_of_grpc() {
    let policy = Policy { cost: Cost::Calls, ..policy_of(KeyExpr::Ip) };
    let words = BodyWords::of_policies([&policy].into_iter()).expect("words of a body");
    let calls = |content_type: &str, body: &str| {
        let headers = headers(&[("content-type", content_type)]);
        let values = match words.begin(&headers) {
            Ok(mut reading) => {
                reading.read(body.as_bytes());
                reading.end(&headers)
            }
            Err(values) => values,
        };
        let found = values.get(&ContentWord::Calls)?;
        Ok(found.map(|found| String::from_utf8_lossy(found).into_owned()))
    };
    let batch = r#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#;
    for content_type in [
        "application/json",
        "application/json-rpc",
        "application/jsonrequest",
        "application/x-www-form-urlencoded",
        "application/grpcx",
        "application/grpc-web",
        "application/grpc-web+json",
        "text/plain",
    ] {
        assert_eq!(calls(content_type, batch), some("2"), "{content_type}");
        let twice = r#"{"id":1,"method":"a","id":2}"#;
        assert_eq!(calls(content_type, twice), Err(ContentFault::Twice), "{content_type}");
    }
    for content_type in ["application/grpc+json", "Application/gRPC", "application/grpc; x=y"] {
        assert_eq!(calls(content_type, batch), Ok(None), "{content_type}");
    }
    assert_eq!(calls("application/json", "a=1"), Err(ContentFault::Invalid));
    for content_type in ["text/plain", "application/x-www-form-urlencoded"] {
        assert_eq!(calls(content_type, "a=1"), Ok(None), "{content_type}: it is no JSON");
    }
}

/// A backend that reads more levels, skips a byte order mark or detects the encoding finds calls in
/// such a body.
#[test]
fn a_body_of_another_type_that_begins_as_json_does_must_be_valid() {
    let keys: [KeyExpr; 0] = [];
    let words = keys.iter().flat_map(KeyExpr::body_words).chain([&ContentWord::Calls]);
    let words = BodyWords::new(words, Vec::new(), false).expect("words of a body");
    let headers = headers(&[("content-type", "text/plain")]);
    let calls = |body: &[u8], size: usize| {
        let mut reading = words.begin(&headers).expect("it is read");
        body.chunks(size).for_each(|chunk| reading.read(chunk));
        let values = reading.end(&headers);
        values.get(&ContentWord::Calls).map(|found| found.map(<[u8]>::to_vec))
    };
    let deep =
        format!(r#"[{{"id":1,"method":"a","params":{}{}}}]"#, "[".repeat(130), "]".repeat(130));
    let batch = r#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#;
    let wide =
        |order: fn(u16) -> [u8; 2]| batch.encode_utf16().flat_map(order).collect::<Vec<u8>>();
    let wider = |order: fn(u32) -> [u8; 4]| {
        batch.chars().flat_map(|it| order(it.into())).collect::<Vec<u8>>()
    };
    let marked = |mark: &[u8], body: &[u8]| [mark, body].concat();
    let bodies = [
        deep.into_bytes(),
        marked(b"\xEF\xBB\xBF", batch.as_bytes()),
        marked(b"\xEF\xBB\xBF \r\n", batch.as_bytes()),
        marked(b"\xFE\xFF", &wide(u16::to_be_bytes)),
        marked(b"\xFF\xFE", &wide(u16::to_le_bytes)),
        wide(u16::to_be_bytes),
        wide(u16::to_le_bytes),
        wider(u32::to_be_bytes),
        marked(b"\xFF\xFE\0\0", &wider(u32::to_le_bytes)),
        br#" {"id":1,"method":"a"} {"id":2,"method":"b"}"#.to_vec(),
        b"[{".to_vec(),
    ];
    for body in bodies {
        for size in [1, body.len()] {
            let text = String::from_utf8_lossy(&body);
            assert_eq!(calls(&body, size), Err(ContentFault::Invalid), "{text}");
        }
    }
    for body in [&b"a=[1]"[..], b"\0\0\0\0\x7b", b"", b"  ", b"\xEF\xBB\xBFtext", b"-- {", b"\"[\""]
    {
        let found = calls(body, 1);
        assert!(found == Ok(None) || found == Ok(Some(b"1".to_vec())), "{body:?}: {found:?}");
    }
}

#[test]
fn a_form_and_the_calls_in_it_are_both_read() {
    let keys = [key("form:user")];
    let words = keys.iter().flat_map(KeyExpr::body_words).chain([&ContentWord::Calls]);
    let words = BodyWords::new(words, Vec::new(), false).expect("words of a body");
    let headers = headers(&[FORM]);
    let read = |body: &[u8]| {
        let mut reading = words.begin(&headers).expect("it is read");
        reading.read(body);
        reading.end(&headers)
    };
    assert_eq!(read(b"user=ann").get(&word("form:user")), Ok(Some(&b"ann"[..])));
    assert_eq!(read(b"user=ann").get(&ContentWord::Calls), Ok(None));
    let call = read(br#"{"id":1,"method":"a"}"#);
    assert_eq!(call.get(&ContentWord::Calls), Ok(Some(&b"1"[..])));
}

#[test]
fn a_content_type_that_programs_read_differently_has_no_value() {
    for lines in [
        &[JSON, ("content-type", "text/plain")][..],
        &[("content-type", "application/json; charset=utf-16")],
        &[("content-type", "application/json;charset=\"utf-7\"")],
        &[("content-type", "text/plain, application/json")],
    ] {
        assert_eq!(value("json:/a", lines, r#"{"a":1}"#), Err(ContentFault::Type), "{lines:?}");
    }
    assert_eq!(value("json:/a", &[JSON, JSON], r#"{"a":1}"#), some("1"));
}

#[test]
fn a_parameter_of_a_form_follows_the_rules_of_a_query() {
    let of = |body: &str| value("form:user_name", &[FORM], body);
    assert_eq!(of("user%5Fname=a%20b&x=1"), some("a+b"));
    assert_eq!(of("x=1"), Ok(None));
    assert_eq!(of("user_name="), Ok(None));
    for body in [
        "user_name=a&user_name=b",
        "USER_NAME=a",
        "user.name=a",
        "user_name[]=a",
        "x=1;user_name=a",
        "user_name=a%",
        "user_name=a&user_name%00=b",
        "user_name=a&user_name%00x=b",
        "user.name%00=b",
    ] {
        assert_eq!(of(body), Err(ContentFault::Parameter), "{body}");
    }
    let long = format!("user_name={}", "a".repeat(MAX_VALUE_BYTES + 1));
    assert_eq!(of(&long), Ok(None));
    assert_eq!(of(&long[1..]), Ok(None));
    assert_eq!(of(&long[..long.len() - 1]).unwrap().unwrap().len(), MAX_VALUE_BYTES);
}

#[test]
fn the_tool_is_that_of_a_call_and_the_method_that_of_a_message() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}"#;
    assert_eq!(value("mcp:tool", &[JSON], call), some("add"));
    assert_eq!(value("mcp:method", &[JSON], call), some("tools/call"));
    let other = r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"add"}}"#;
    assert_eq!(value("mcp:tool", &[JSON], other), Ok(None));
    assert_eq!(value("mcp:method", &[JSON], other), some("prompts/get"));
    let batch = format!("[{call}]");
    for key in ["mcp:tool", "mcp:method"] {
        assert_eq!(value(key, &[JSON], &batch), Err(ContentFault::Batch));
        assert_eq!(value(key, &[JSON], r#"{"id":1,"result":{}}"#), Ok(None));
    }
    assert_eq!(value("json:/0/method", &[JSON], &batch), some("tools/call"));
}

#[test]
fn fields_that_repeat_a_message_must_agree_with_it() {
    let call = |tool: &str| format!(r#"{{"method":"tools/call","params":{{"name":"{tool}"}}}}"#);
    let of = |lines: &[(&'static str, &str)], tool| value("mcp:tool", lines, &call(tool));
    assert_eq!(of(&[("mcp-method", "tools/call"), ("mcp-name", "add")], "add"), some("add"));
    assert_eq!(of(&[("mcp-name", "=?base64?w6k=?=")], "é"), some("é"));
    assert_eq!(of(&[("mcp-name", "=?base64?YWRk?=")], "add"), some("add"));
    for lines in [
        &[("mcp-method", "tools/list")][..],
        &[("mcp-name", "sub")],
        &[("mcp-name", "add"), ("mcp-name", "sub")],
        &[("mcp-name", "=?base64?YWRkcw==?=")],
        &[("mcp-method", "")],
    ] {
        assert_eq!(of(lines, "add"), Err(ContentFault::McpField), "{lines:?}");
    }
    let read = r#"{"method":"resources/read","params":{"uri":"file:///x"}}"#;
    assert_eq!(value("mcp:method", &[("mcp-name", "file:///x")], read), some("resources/read"));
}

#[test]
fn the_pointers_of_all_words_are_searched_for_once() {
    let keys = ["mcp:tool", "json:/method", "form:a", "mcp:method", "json:/x"].map(key);
    let words = BodyWords::of(&keys).expect("words");
    assert_eq!((words.pointers(), words.words.len()), (3, 5));
    assert_eq!(BodyWords::of(&[key("ip"), key("header:x")]), None);
    let nested = KeyExpr::All(vec![key("ip"), KeyExpr::Fold(Box::new(key("json:/x")))]);
    assert_eq!(BodyWords::of([&nested]).expect("words").pointers(), 1);
    let found = values(&["json:/a", "json:/b"], &[], br#"{"a":{},"b":true}"#);
    assert_eq!(found.get(&word("json:/a")), Ok(None));
    assert_eq!(found.get(&word("json:/b")), Ok(Some(&b"true"[..])));
    assert_eq!(found.get(&word("json:/c")), Ok(None), "it was not searched for");
}

#[test]
fn a_policy_counts_by_a_value_of_the_body() {
    let policy = policy_of(KeyExpr::Fold(Box::new(key("form:user"))));
    let of = |policy: &Policy, body: Option<&str>| {
        let found = body.map(|body| values(&["form:user"], &[FORM], body.as_bytes()));
        let content = found.as_ref().map_or(Content::Unread, Content::Read);
        with(&[]).ask_with(policy, content, |subject| subject.key(policy))
    };
    let counted = of(&policy, Some("user=Ann"));
    assert!(matches!(counted, KeyFor::Key(_)));
    for same in ["user=ann", "user=+ANN+", "user=%EF%BD%81nn"] {
        assert_eq!(of(&policy, Some(same)), counted, "{same}");
    }
    assert_ne!(of(&policy, Some("user=anna")), counted);
    assert_eq!(of(&policy, Some("user=ann&user=bob")), KeyFor::Ambiguous);
    for absent in [Some("user="), Some("user=+"), Some("x=1"), None] {
        assert_eq!(of(&policy, absent), KeyFor::Denied, "{absent:?}");
    }
    let exact = policy_of(key("form:user"));
    assert_ne!(of(&exact, Some("user=ann")), of(&exact, Some("user=Ann")));
    assert!(policy.needs_body() && !policy_of(key("ip")).needs_body());
}

#[test]
fn a_policy_may_count_the_calls_in_a_body() {
    let policy = Policy { cost: crate::policy::Cost::Calls, ..policy_of(key("ip")) };
    assert!(policy.needs_body() && policy.body_words().eq([&ContentWord::Calls]));
    let words = || BodyWords::of_policies([&policy].into_iter()).expect("it needs the body");
    let values = |content_type, body: &str| {
        let words = words();
        let headers = headers(&[content_type]);
        match words.begin(&headers) {
            Ok(mut reading) => {
                reading.read(body.as_bytes());
                reading.end(&headers)
            }
            Err(values) => values,
        }
    };
    let cost = |content_type, body: &str| {
        let values = values(content_type, body);
        let case = with(&[content_type, ("content-length", "7")]);
        case.ask_with(&policy, Content::Read(&values), |subject| {
            (!subject.has_ambiguous_cost(&policy)).then(|| subject.cost(&policy))
        })
    };
    assert_eq!(cost(JSON, r#"{"id":1,"method":"a"}"#), Some(1));
    assert_eq!(
        cost(JSON, r#"[{"id":1,"method":"a"},{"method":"b"},{"id":2,"method":"c"}]"#),
        Some(2)
    );
    assert_eq!(cost(JSON, r#"{"method":"a"}"#), Some(0));
    assert_eq!(cost(("content-type", "text/plain"), r#"{"method":"a"}"#), Some(1));
    for body in ["{", r#"{"id":1,"id":2,"method":"a"}"#, r#"{"ID":1,"method":"a"}"#] {
        assert_eq!(cost(JSON, body), None, "{body}");
    }
    let unread = |has_content| {
        let case = crate::policy::tests::Case { has_content, ..with(&[]) };
        case.ask(&policy, |subject| subject.cost(&policy))
    };
    assert_eq!((unread(true), unread(false)), (1, 0));
}

proptest! {
    #[test]
    fn the_ends_of_chunks_make_no_difference(
        body in "(\\{\"a\":\"[a-zA-Z\\\\\"é]{0,6}\"\\}|a=[a-z%+]{0,6})",
        at in any::<prop::sample::Index>(),
    ) {
        for (text, line) in [("json:/a", JSON), ("form:a", FORM)] {
            let keys = [key(text)];
            let words = BodyWords::of(&keys).expect("words");
            let headers = headers(&[line]);
            let of = |chunks: &[&[u8]]| {
                let mut reading = words.begin(&headers).expect("it is read");
                chunks.iter().for_each(|chunk| reading.read(chunk));
                let found = reading.end(&headers);
                found.get(&word(text)).map(|value| value.map(<[u8]>::to_vec))
            };
            let (start, end) = body.as_bytes().split_at(at.index(body.len() + 1));
            prop_assert_eq!(of(&[start, end]), of(&[body.as_bytes()]));
        }
    }
}

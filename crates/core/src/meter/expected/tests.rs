//! Answers that do not state all of their tokens.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::usage::{UsageApi, Weights};
use super::super::{Meter, MeterSpec, Metered, Progress, Unsettled};
use super::*;

const EXPECTED: Expected =
    Expected { input: 100, bytes_per_token: NonZeroU64::MIN.saturating_add(3) };

fn events() -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"))])
}

/// What an answer costs that breaks off after these bytes.
fn broken(api: UsageApi, weights: Weights, headers: &HeaderMap, body: &str) -> Metered {
    let spec = MeterSpec::Usage { api, tariff: weights.into() };
    let mut meter = Meter::expecting(&spec, headers, Some(EXPECTED));
    meter.observe(body.as_bytes());
    meter.finish(StatusCode::OK, Progress::Broken).0
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

#[test]
fn without_tokens_the_estimated_input_and_the_text_count() {
    let estimated = |body: &str| match broken(UsageApi::OpenAi, Weights::default(), &events(), body)
    {
        Metered::Estimated(units, Unsettled::Broken) => units,
        other => panic!("{other:?}"),
    };
    assert_eq!(estimated(""), 100);
    let delta =
        |text: &str| event(&json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }));
    assert_eq!(estimated(&(delta("Hello, ") + &delta("world"))), 100 + 3);
    // An escape is one character of the text, and others are as long as in UTF-8.
    assert_eq!(estimated(&delta("\n\"\u{1F600}")), 100 + 2);
    let tool = event(&json!({ "choices": [{ "delta": { "tool_calls": [{ "function": {
        "name": "get_weather", "arguments": "{\"a\":1}" } }] } }] }));
    assert_eq!(estimated(&tool), 100 + 2);
    // The event that breaks off counts, too.
    assert_eq!(estimated("data: {\"delta\":\"12345678"), 100 + 2);
    for nothing in [
        json!({ "contents": "12345678", "tex": "12345678", "reasoning_contents": "12345678" }),
        json!({ "content": ["12345678"], "text": 12345678, "delta": null }),
        json!({ "id": "12345678", "content": { "id": "12345678" } }),
    ] {
        assert_eq!(estimated(&event(&nothing)), 100, "{nothing}");
    }
    let thought =
        json!({ "thinking": "1234", "reasoning_content": "1234", "partial_json": "1234" });
    assert_eq!(estimated(&event(&thought)), 100 + 3);
}

#[test]
fn the_tokens_that_were_stated_replace_the_estimate_of_their_kind() {
    let weights = Weights { input: 100, cache_read: 10, cache_write: 200, output: 300 };
    let start = event(&json!({ "type": "message_start", "message": { "usage": {
        "input_tokens": 7, "cache_read_input_tokens": 20, "output_tokens": 1 } } }));
    let delta = event(&json!({ "delta": { "type": "text_delta", "text": "x".repeat(40) } }));
    let of = |body: &str| broken(UsageApi::Anthropic, weights, &events(), body).units(1);
    // Without the input: by the dearer of input and cache write.
    assert_eq!(of(&delta), 2 * 100 + 3 * 10);
    assert_eq!(of(&start), 7 + 2 + 3);
    // The output that was stated at the beginning is not all of it.
    assert_eq!(of(&(start.clone() + &delta)), 7 + 2 + 3 * 10);
    let end = event(&json!({ "usage": { "output_tokens": 15 } }));
    assert_eq!(of(&(start + &delta + &end)), 7 + 2 + 3 * 15);
}

#[test]
fn a_complete_answer_an_error_and_an_encoded_answer_are_not_estimated() {
    let spec = MeterSpec::Usage { api: UsageApi::OpenAi, tariff: Tariff::default() };
    let read = |headers: &HeaderMap, status, progress| {
        let mut meter = Meter::expecting(&spec, headers, Some(EXPECTED));
        meter.observe(br#"{"content":"12345678"}"#);
        meter.finish(status, progress).0
    };
    let plain = HeaderMap::new();
    let absent = read(&plain, StatusCode::OK, Progress::Ended);
    assert_eq!(absent, Metered::Estimated(102, Unsettled::Absent));
    let left = read(&plain, StatusCode::OK, Progress::Open);
    assert_eq!(left, Metered::Estimated(102, Unsettled::Left));
    let failed = read(&plain, StatusCode::BAD_GATEWAY, Progress::Ended);
    assert_eq!(failed, Metered::Cost(0));
    let encoded = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("br"))]);
    let encoded = read(&encoded, StatusCode::OK, Progress::Ended);
    assert_eq!(encoded, Metered::AtLeast(0, Unsettled::Encoded));
    let mut meter = Meter::expecting(&spec, &plain, Some(EXPECTED));
    meter.observe(br#"{"content":"12345678","usage":{"prompt_tokens":3,"completion_tokens":4}}"#);
    assert_eq!(meter.finish(StatusCode::OK, Progress::Ended).0, Metered::Cost(7));
}

/// The bytes of text by the definition.
fn text_bytes(value: &Value) -> u64 {
    const NAMES: [&str; 8] = [
        "content",
        "text",
        "delta",
        "arguments",
        "partial_json",
        "thinking",
        "reasoning_content",
        "response",
    ];
    match value {
        Value::Array(values) => values.iter().map(text_bytes).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| match value {
                Value::String(text) if NAMES.contains(&&**name) => {
                    u64::try_from(text.len()).unwrap()
                }
                other => text_bytes(other),
            })
            .sum(),
        _ => 0,
    }
}

fn answer() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        "[a-z\\\\\"é\n]{0,12}".prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let names = prop::sample::select(vec![
            "content",
            "text",
            "delta",
            "arguments",
            "thinking",
            "reasoning_content",
            "response",
            "contents",
            "tex",
            "x",
            "reasoning_content_",
            "",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((names, inner), 0..5).prop_map(|members| {
                Value::Object(members.into_iter().map(|(name, it)| (name.to_owned(), it)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn text_is_found_as_by_a_parser_of_the_whole(answer in answer(), chunk in 1_usize..40) {
        let spec = MeterSpec::Usage { api: UsageApi::Gemini, tariff: Tariff::default() };
        let expected = Expected { input: 1, bytes_per_token: NonZeroU64::MIN };
        let mut meter = Meter::expecting(&spec, &HeaderMap::new(), Some(expected));
        answer.to_string().as_bytes().chunks(chunk).for_each(|chunk| meter.observe(chunk));
        let units = meter.finish(StatusCode::OK, Progress::Ended).0.units(0);
        prop_assert_eq!(units, 1 + text_bytes(&answer), "{}", answer);
    }
}

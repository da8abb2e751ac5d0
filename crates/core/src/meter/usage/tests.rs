//! Tokens in answers of each API, as their references show them.

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use proptest::prelude::*;

use super::super::content::{Content, form};
use super::*;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

fn read(api: UsageApi, content_type: &'static str, pieces: &[&str]) -> Option<Usage> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    let mut content = Content::new(form(&headers), Counted::new(api, &headers, false, false));
    pieces.iter().for_each(|piece| content.read(piece.as_bytes()));
    content.end().usage()
}

fn usage(input: u64, cache_read: u64, cache_write: u64, output: u64) -> Option<Usage> {
    Some(Usage { input, cache_read, cache_write, output })
}

#[test]
fn chat_completions_and_responses_of_openai_are_read() {
    let api = UsageApi::OpenAi;
    let chat = r#"{"id":"c","choices":[{"message":{"content":"{\"usage\":{\"prompt_tokens\":9}}"}}],
        "usage":{"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,
        "prompt_tokens_details":{"cached_tokens":30,"cache_write_tokens":20}}}"#;
    assert_eq!(read(api, JSON, &[chat]), usage(50, 30, 20, 7));
    let responses = r#"{"usage":{"input_tokens":100,"output_tokens":7,
        "input_tokens_details":{"cached_tokens":30}}}"#;
    assert_eq!(read(api, JSON, &[responses]), usage(70, 30, 0, 7));
    let stream = "data: {\"choices\":[],\"usage\":null}\n\n\
                  data: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5}}\n\ndata: [DONE]\n\n";
    assert_eq!(read(api, EVENTS, &[stream]), usage(3, 0, 0, 5));
    let events = "event: response.incomplete\n\
                  data: {\"response\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":5}}}\n\n";
    assert_eq!(read(api, EVENTS, &[events]), usage(3, 0, 0, 5));
}

#[test]
fn counters_of_anthropic_are_split_over_events_and_repeated() {
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":\
                 {\"input_tokens\":25,\"cache_read_input_tokens\":4,\
                 \"cache_creation_input_tokens\":6,\"output_tokens\":1}}}\n\n";
    let delta = |output: u64| {
        format!("event: message_delta\ndata: {{\"usage\":{{\"output_tokens\":{output}}}}}\n\n")
    };
    let all = [start, &delta(9), &delta(15)];
    assert_eq!(read(UsageApi::Anthropic, EVENTS, &all), usage(25, 4, 6, 15));
    // It broke off: what was stated was spent.
    assert_eq!(read(UsageApi::Anthropic, EVENTS, &all[..1]), usage(25, 4, 6, 1));
    let document = r#"{"usage":{"input_tokens":25,"output_tokens":15}}"#;
    assert_eq!(read(UsageApi::Anthropic, JSON, &[document]), usage(25, 0, 0, 15));
}

#[test]
fn gemini_counts_thoughts_and_streams_arrays() {
    let chunk = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}],
        "usageMetadata":{"promptTokenCount":10}}"#;
    let last = r#"{"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,
        "toolUsePromptTokenCount":2,"candidatesTokenCount":7,"thoughtsTokenCount":5}}"#;
    let expected = usage(8, 4, 0, 12);
    assert_eq!(read(UsageApi::Gemini, JSON, &[last]), expected);
    let after = r#"{"candidates":[]}"#;
    let array = format!("[{chunk}\n,\n{last},{after}]");
    assert_eq!(read(UsageApi::Gemini, JSON, &[&array]), expected);
    let events =
        format!("data: {}\n\ndata: {}\n\n", chunk.replace('\n', ""), last.replace('\n', ""));
    assert_eq!(read(UsageApi::Gemini, EVENTS, &[&events]), expected);
}

#[test]
fn bedrock_states_counters_in_the_body_or_in_fields() {
    let api = UsageApi::Bedrock;
    let body = r#"{"usage":{"inputTokens":30,"cacheReadInputTokens":5,"cacheWriteInputTokens":6,
        "outputTokens":628,"totalTokens":669}}"#;
    assert_eq!(read(api, JSON, &[body]), usage(30, 5, 6, 628));
    let mut headers = HeaderMap::new();
    headers.insert("x-amzn-bedrock-input-token-count", HeaderValue::from_static("12"));
    headers.insert("x-amzn-bedrock-output-token-count", HeaderValue::from_static("34"));
    assert_eq!(Counted::new(api, &headers, false, false).usage(), usage(12, 0, 0, 34));
    assert_eq!(Counted::new(UsageApi::OpenAi, &headers, false, false).usage(), None);
}

#[test]
fn ollama_states_counters_in_its_last_line() {
    let lines =
        ["{\"response\":\"a\"}\n", "{\"done\":true,\"prompt_eval_count\":26,\"eval_count\":9}"];
    assert_eq!(read(UsageApi::Ollama, "application/x-ndjson", &lines), usage(26, 0, 0, 9));
    assert_eq!(read(UsageApi::Ollama, "application/x-ndjson", &lines[..1]), None);
}

#[test]
fn what_is_not_stated_is_not_a_usage() {
    for text in ["", "{}", "{\"usage\":null}", "{\"usage\":{\"prompt_tokens\":\"9\"}}", "[1,2]"] {
        assert_eq!(read(UsageApi::OpenAi, JSON, &[text]), None, "{text}");
    }
    // An input below what caches have of it is no reason to count less than the caches.
    let odd = r#"{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":9}}}"#;
    assert_eq!(read(UsageApi::OpenAi, JSON, &[odd]), usage(0, 9, 0, 0));
}

#[test]
fn weights_are_percents_and_their_sum_is_rounded_up_once() {
    let tokens = Usage { input: 1, cache_read: 1, cache_write: 1, output: 1 };
    assert_eq!(Weights::default().units(&tokens), 4);
    let weights = Weights { input: 10, cache_read: 0, cache_write: 10, output: 10 };
    assert_eq!(weights.units(&tokens), 1);
    let huge = Usage { input: u64::MAX, output: u64::MAX, ..tokens };
    assert_eq!(Weights::default().units(&huge), u64::MAX);
}

proptest! {
    #[test]
    fn chunks_make_no_difference(
        counters in proptest::collection::vec((0..4_usize, any::<u32>()), 0..12),
        cuts in proptest::collection::vec(1..40_usize, 1..5),
    ) {
        let names = ["prompt_tokens", "input_tokens", "completion_tokens", "other"];
        let mut stream = String::new();
        let mut expected = [None; 3];
        for (name, value) in &counters {
            stream += &format!("data: {{\"usage\":{{\"{}\":{value}}}}}\n\n", names[*name]);
            if *name < 3 {
                let index = if *name == 2 { 1 } else { 0 };
                expected[index] = expected[index].max(Some(u64::from(*value)));
            }
        }
        let mut pieces = Vec::new();
        let mut rest = stream.as_str();
        let mut sizes = cuts.iter().cycle();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*sizes.next().expect("a cycle")));
            pieces.push(piece);
            rest = after;
        }
        let found = read(UsageApi::OpenAi, EVENTS, &pieces);
        prop_assert_eq!(found, read(UsageApi::OpenAi, EVENTS, &[&stream]));
        let is_any = expected.iter().any(Option::is_some);
        let stated = |index: usize| expected[index].unwrap_or(0);
        prop_assert_eq!(found, is_any.then(|| usage(stated(0), 0, 0, stated(1))).flatten());
    }
}

//! What requests of each API reserve.

use std::num::NonZeroU64;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::*;
use crate::meter::{MeterSpec, UsageApi, Weights};
use crate::policy::tests::{Case, policy, with};
use crate::policy::{BodyWords, Cost, KeyFor, ReserveSettings};
use crate::request::ContentValues;

fn reserving(api: UsageApi, settings: ReserveSettings) -> Policy {
    weighing(api, settings, Weights::default())
}

fn weighing(api: UsageApi, settings: ReserveSettings, weights: Weights) -> Policy {
    let estimate = Some(Box::new(Reservation::new(api, settings)));
    let meter = MeterSpec::Usage { api, tariff: weights.into() };
    Policy { cost: Cost::Metered { reserve: 100_000, estimate, meter }, ..policy("ip") }
}

fn json() -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))])
}

fn read(policy: &Policy, headers: &HeaderMap, body: &str) -> ContentValues {
    let words = BodyWords::of_policies([policy].into_iter()).expect("it needs the body");
    match words.begin(headers) {
        Ok(mut reading) => {
            reading.read(body.as_bytes());
            reading.end(headers)
        }
        Err(values) => values,
    }
}

fn post(path: &'static str) -> Case {
    Case { method: Method::POST, path, has_content: true, ..with(&[]) }
}

/// The estimate for this body.
fn of_body(policy: &Policy, path: &'static str, body: &str) -> Estimate {
    let values = read(policy, &json(), body);
    let estimate = |subject: &Subject<'_, '_>| subject.estimate(policy).expect("it is estimated");
    post(path).ask_with(policy, Content::Read(&values), estimate)
}

fn tokens(input: u64, output: u64) -> Option<Usage> {
    Some(Usage { input, output, ..Usage::default() })
}

const CHAT: &str = "/v1/chat/completions";

#[test]
fn the_largest_stated_maximum_counts_for_each_choice() {
    let policy = reserving(UsageApi::OpenAi, ReserveSettings::default());
    for (body, output) in [
        (r#"{"model":"m"}"#, 4096),
        (r#"{"max_tokens":7}"#, 7),
        (r#"{"max_tokens":"7"}"#, 7),
        (r#"{"max_tokens":7.0}"#, 7),
        (r#"{"max_tokens":0}"#, 0),
        (r#"{"max_tokens":null}"#, 4096),
        (r#"{"max_tokens":-1}"#, 4096),
        (r#"{"max_tokens":7.5}"#, 4096),
        (r#"{"max_tokens":[7]}"#, 4096),
        (r#"{"max_tokens":7,"max_completion_tokens":9,"max_output_tokens":8}"#, 9),
        (r#"{"max_tokens":7,"n":3}"#, 21),
        (r#"{"n":3}"#, 3 * 4096),
        (r#"{"max_tokens":7,"n":0}"#, 7),
        (r#"{"max_tokens":18446744073709551615,"n":9}"#, u64::MAX),
        (r#"{"max_tokens":18446744073709551616}"#, u64::MAX),
        (r#"{"max_tokens":1e30}"#, u64::MAX),
        (r#"{"max_tokens":"99999999999999999999999"}"#, u64::MAX),
        (r#"{"max_tokens":1000,"n":99999999999999999999999}"#, u64::MAX),
        (r#"{"max_tokens":-1e30}"#, 4096),
        (r#"{"messages":[{"max_tokens":9}]}"#, 4096),
    ] {
        let input = u64::try_from(body.len()).unwrap().div_ceil(3);
        assert_eq!(of_body(&policy, CHAT, body).usage, tokens(input, output), "{body}");
    }
    let bounded = ReserveSettings { max_output: Some(100), output: 50, ..Default::default() };
    let policy = reserving(UsageApi::OpenAi, bounded);
    let output = |body| of_body(&policy, CHAT, body).usage.map(|usage| usage.output);
    assert_eq!(output(r#"{"max_tokens":64000,"n":2}"#), Some(200));
    assert_eq!(output(r#"{"max_tokens":64}"#), Some(64));
    assert_eq!(output(r#"{}"#), Some(50));
}

#[test]
fn each_api_states_its_maximum_and_its_model_elsewhere() {
    let model = |name: &str| Some(Box::from(name));
    let cases = [
        (UsageApi::OpenAi, CHAT, r#"{"model":"gpt-5","max_tokens":9}"#, 9, model("gpt-5")),
        (
            UsageApi::Anthropic,
            "/v1/messages",
            r#"{"model":"opus","max_tokens":9}"#,
            9,
            model("opus"),
        ),
        (
            UsageApi::Gemini,
            "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
            r#"{"model":"x","generationConfig":{"maxOutputTokens":9,"candidateCount":2}}"#,
            18,
            model("gemini-2.5-pro"),
        ),
        (
            UsageApi::Gemini,
            "/v1/publishers/google/models/a:b:generateContent",
            "{}",
            4096,
            model("a:b"),
        ),
        (UsageApi::Gemini, "/v1beta/models", "{}", 4096, None),
        (
            UsageApi::Bedrock,
            "/model/anthropic.claude-3:1/converse",
            r#"{"inferenceConfig":{"maxTokens":9},"max_tokens":8}"#,
            9,
            model("anthropic.claude-3:1"),
        ),
        (UsageApi::Bedrock, "/model/x/invoke", r#"{"max_tokens":8}"#, 8, model("x")),
        (UsageApi::Bedrock, "/async-invoke", "{}", 4096, None),
        (
            UsageApi::Ollama,
            "/api/chat",
            r#"{"model":"l","options":{"num_predict":9}}"#,
            9,
            model("l"),
        ),
        (UsageApi::Ollama, "/api/chat", r#"{"options":{"num_predict":-1}}"#, 4096, None),
    ];
    for (api, path, body, output, model) in cases {
        let found = of_body(&reserving(api, ReserveSettings::default()), path, body);
        assert_eq!(found.usage.map(|usage| usage.output), Some(output), "{path} {body}");
        assert_eq!(found.model, model, "{path} {body}");
    }
    let own =
        ReserveSettings { model: Some("header:x-model".parse().unwrap()), ..Default::default() };
    let policy = reserving(UsageApi::OpenAi, own);
    let case = with(&[("x-model", "mine")]);
    let named = case.ask(&policy, |subject| subject.estimate(&policy).unwrap().model);
    assert_eq!(named, model("mine"));
}

#[test]
fn embeddings_have_no_output() {
    for (api, path) in [
        (UsageApi::OpenAi, "/v1/embeddings"),
        (UsageApi::Ollama, "/api/embed"),
        (UsageApi::Ollama, "/api/embeddings"),
        (UsageApi::Gemini, "/v1beta/models/e:embedContent"),
        (UsageApi::Gemini, "/v1beta/models/e:batchEmbedContents"),
    ] {
        let found = of_body(&reserving(api, ReserveSettings::default()), path, "{\"a\":1234567}");
        assert_eq!(found.usage, tokens(5, 0), "{path}");
    }
}

#[test]
fn files_and_stored_input_count_by_their_settings() {
    let settings = ReserveSettings {
        image: 1000,
        stored_input: 50,
        bytes_per_token: NonZeroU64::new(4).unwrap(),
        ..Default::default()
    };
    let policy = reserving(UsageApi::OpenAi, settings.clone());
    let input = |body: &str| of_body(&policy, CHAT, body).usage.map(|usage| usage.input);
    let digits = "QUJD".repeat(4000);
    let body = format!(r#"{{"a":"data:image/png;base64,{digits}","b":"{digits}"}}"#);
    assert_eq!(input(&body), Some(2000 + 15_u64.div_ceil(4)));
    assert_eq!(input(r#"{"previous_response_id":"r"}"#), Some(50 + 7));
    assert_eq!(input(r#"{"conversation":{"id":"conv_1"}}"#), Some(50 + 8));
    assert_eq!(input(r#"{"conversation":null}"#), Some(6));
    let policy = reserving(UsageApi::Gemini, settings);
    let usage = of_body(&policy, "/models/m:generateContent", r#"{"cachedContent":"c"}"#).usage;
    assert_eq!(usage, tokens(50 + 6, 4096));
}

#[test]
fn without_a_body_that_can_be_read_its_length_counts_or_the_most() {
    let policy = reserving(UsageApi::OpenAi, ReserveSettings::default());
    let usage = |case: &Case, content: Content<'_>| {
        case.ask_with(&policy, content, |subject| subject.estimate(&policy).unwrap().usage)
    };
    let length =
        |length, method| Case { method, path: CHAT, ..with(&[("content-length", length)]) };
    // What the gateway knows.
    assert_eq!(usage(&post(CHAT), Content::Empty), tokens(0, 0));
    let unread = ContentValues::default();
    assert_eq!(usage(&length("30", Method::POST), Content::Read(&unread)), tokens(10, 4096));
    assert_eq!(usage(&post(CHAT), Content::Read(&unread)), None);
    // What the description of a request says.
    assert_eq!(usage(&length("30", Method::POST), Content::Unknown), tokens(10, 4096));
    assert_eq!(usage(&length("0", Method::POST), Content::Unknown), tokens(0, 0));
    assert_eq!(usage(&with(&[]), Content::Unknown), tokens(0, 0));
    assert_eq!(usage(&Case { has_content: false, ..post(CHAT) }, Content::Unknown), None);
    // Another content type.
    let multipart = with(&[("content-type", "multipart/form-data"), ("content-length", "30")]);
    let values = read(&policy, &multipart.headers, "{\"max_tokens\":1}");
    assert_eq!(usage(&multipart, Content::Read(&values)), tokens(10, 4096));
    // A body that turns out to be empty.
    let words = BodyWords::of_policies([&policy].into_iter()).unwrap();
    assert_eq!(usage(&post(CHAT), Content::Read(&words.in_nothing())), tokens(0, 0));
}

#[test]
fn a_body_with_two_readings_is_ambiguous() {
    let policy = reserving(UsageApi::OpenAi, ReserveSettings::default());
    for body in [
        r#"{"max_tokens":1,"max_tokens":9000}"#,
        r#"{"max_tokens":1,"Max_Tokens":9000}"#,
        r#"{"model":"a","model":"b"}"#,
        r#"{"n":1,"N":9}"#,
        r#"{"conversation":null,"conversation":"c"}"#,
        r#"{"max_tokens":1"#,
    ] {
        let values = read(&policy, &json(), body);
        let key = post(CHAT).ask_with(&policy, Content::Read(&values), |it| it.key(&policy));
        assert_eq!(key, KeyFor::Ambiguous, "{body}");
    }
    let twice = with(&[("x-model", "a"), ("x-model", "b")]);
    let own =
        ReserveSettings { model: Some("header:x-model".parse().unwrap()), ..Default::default() };
    let policy = reserving(UsageApi::OpenAi, own);
    assert_eq!(twice.key(&policy), KeyFor::Ambiguous);
}

#[test]
fn units_are_the_dearer_kind_of_input_and_at_most_the_most() {
    let cost = |weights: Weights, usage: Option<Usage>| {
        let policy = weighing(UsageApi::Anthropic, ReserveSettings::default(), weights);
        policy.cost.reserved(&Estimate { usage, ..Estimate::default() })
    };
    let weights = Weights { input: 100, cache_read: 10, cache_write: 125, output: 500 };
    assert_eq!(cost(weights, tokens(100, 10)), 125 + 50);
    assert_eq!(cost(Weights { input: 200, ..weights }, tokens(100, 10)), 200 + 50);
    assert_eq!(cost(weights, tokens(0, 0)), 0);
    assert_eq!(cost(weights, None), 100_000);
    assert_eq!(cost(weights, tokens(u64::MAX, u64::MAX)), 100_000);
    let free = Weights { input: 0, cache_read: 0, cache_write: 0, output: 0 };
    assert_eq!(cost(free, tokens(5, 5)), 1);
}

#[test]
fn a_policy_needs_the_body_for_its_estimate_alone() {
    let policy = reserving(UsageApi::OpenAi, ReserveSettings::default());
    assert!(policy.needs_body());
    let words = BodyWords::of_policies([&policy].into_iter()).expect("words");
    assert_eq!(words.pointers(), 7);
    assert_eq!(BodyWords::of_policies([&self::policy("ip")].into_iter()), None);
    let by_model = Policy { key: "json:/model".parse().unwrap(), ..policy.clone() };
    let both = BodyWords::of_policies([&policy, &by_model].into_iter()).expect("words");
    assert_eq!(both.pointers(), 7);
}

/// Values of a member, also such as no API accepts.
fn member() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        any::<u64>().prop_map(serde_json::Value::from),
        (0_u64..9).prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        "[0-9a-z ]{0,5}".prop_map(serde_json::Value::from),
        Just(serde_json::Value::Null),
        Just(serde_json::json!({"id": "c"})),
        Just(serde_json::json!([1])),
    ]
}

fn api() -> impl Strategy<Value = UsageApi> {
    prop_oneof![
        Just(UsageApi::OpenAi),
        Just(UsageApi::Anthropic),
        Just(UsageApi::Gemini),
        Just(UsageApi::Bedrock),
        Just(UsageApi::Ollama),
    ]
}

/// The usage by a parser that builds the whole document.
fn expected(api: UsageApi, settings: &ReserveSettings, body: &serde_json::Value) -> Usage {
    let number = |pointer: &str| match body.pointer(pointer)? {
        serde_json::Value::String(text) => text.parse().ok(),
        serde_json::Value::Number(number) if number.is_f64() => {
            let float = number.as_f64()?;
            let is_whole = float >= 0.0 && float.fract() == 0.0;
            let digits = || format!("{:.0}", float.abs());
            is_whole.then(|| digits().parse().unwrap_or(u64::MAX))
        }
        other => other.as_u64(),
    };
    let is_set = |pointer: &str| {
        body.pointer(pointer).is_some_and(|it| !it.is_null() && it.as_str() != Some(""))
    };
    let (maxima, choices, stored): (&[&str], _, &[&str]) = match api {
        UsageApi::OpenAi => (
            &["/max_tokens", "/max_completion_tokens", "/max_output_tokens"],
            number("/n"),
            &["/previous_response_id", "/conversation"],
        ),
        UsageApi::Anthropic => (&["/max_tokens"], None, &[]),
        UsageApi::Gemini => (
            &["/generationConfig/maxOutputTokens"],
            number("/generationConfig/candidateCount"),
            &["/cachedContent"],
        ),
        UsageApi::Bedrock => (&["/inferenceConfig/maxTokens", "/max_tokens"], None, &[]),
        UsageApi::Ollama => (&["/options/num_predict"], None, &[]),
    };
    let stated: Option<u64> = maxima.iter().filter_map(|pointer| number(pointer)).max();
    let each = stated.unwrap_or(settings.output).min(settings.max_output.unwrap_or(u64::MAX));
    let output = each.saturating_mul(choices.unwrap_or(1).max(1));
    let bytes = u64::try_from(body.to_string().len()).unwrap();
    let more = if stored.iter().any(|it| is_set(it)) { settings.stored_input } else { 0 };
    let input = bytes.div_ceil(settings.bytes_per_token.get()).saturating_add(more);
    Usage { input, output, ..Usage::default() }
}

proptest! {
    #[test]
    fn an_estimate_is_that_of_another_parser_and_never_above_the_most(
        api in api(),
        [top, inner] in [prop::collection::hash_map(prop::sample::select(vec![
            "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "previous_response_id",
            "conversation", "cachedContent", "model", "messages",
        ]), member(), 0..6), prop::collection::hash_map(prop::sample::select(vec![
            "maxOutputTokens", "candidateCount", "maxTokens", "num_predict", "n",
        ]), member(), 0..4)],
        parent in prop::sample::select(vec!["generationConfig", "inferenceConfig", "options", "x"]),
        settings in (0_u64..9000, prop::option::of(1_u64..9000), 1_u64..=16, any::<u64>()),
        percents in any::<[u16; 4]>(),
        path in prop::sample::select(vec![CHAT, "/models/m:generateContent", "/model/a/converse"]),
    ) {
        let mut body: serde_json::Map<String, serde_json::Value> =
            top.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let inner = inner.into_iter().map(|(name, value)| (name.to_owned(), value));
        body.insert(parent.to_owned(), serde_json::Value::Object(inner.collect()));
        let body = serde_json::Value::Object(body);
        let (output, max_output, bytes, stored_input) = settings;
        let bytes_per_token = NonZeroU64::new(bytes).unwrap();
        let settings =
            ReserveSettings { output, max_output, bytes_per_token, stored_input, ..Default::default() };
        let [input, cache_read, cache_write, output] = percents.map(u32::from);
        let weights = Weights { input, cache_read, cache_write, output };
        let policy = weighing(api, settings.clone(), weights);
        let estimate = of_body(&policy, path, &body.to_string());
        let usage = expected(api, &settings, &body);
        prop_assert_eq!(estimate.usage, Some(usage), "{}", body);
        let units = policy.cost.reserved(&estimate);
        prop_assert!((1..=100_000).contains(&units));
        // The answer never costs more than what was reserved for the same tokens.
        for cached in [Usage { input: 0, cache_read: usage.input, ..usage },
                       Usage { input: 0, cache_write: usage.input, ..usage }, usage] {
            prop_assert!(weights.units(&cached).min(100_000) <= units || weights.cache_read > weights.input);
        }
    }

    #[test]
    fn no_body_and_no_path_make_it_panic(
        api in api(),
        body in "[\\[\\]{}:,\"a-z0-9_ ]{0,64}",
        path in prop::sample::select(vec!["/models/", "/models/:", "/model/", "/model//", "/"]),
    ) {
        let policy = reserving(api, ReserveSettings::default());
        let estimate = of_body(&policy, path, &body);
        prop_assert!(policy.cost.reserved(&estimate) <= 100_000);
    }
}

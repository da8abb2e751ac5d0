//! Tokens that cost money, by the model of the answer or of the request.

use std::sync::Arc;

use super::*;
use crate::price::{Denomination, Price, PriceEntry, PriceTable, Prices, TokenPrices};

/// Tokens of these models cost 1, 2 and 3 millionths, those of the free one nothing.
fn prices(unknown: Option<Price>) -> Arc<Prices> {
    let price = |text: &str| {
        let rate = text.parse().unwrap();
        let tokens = TokenPrices { input: rate, cache_read: rate, cache_write: rate, output: rate };
        Price { tokens, ..Price::default() }
    };
    let models = [("small", "1"), ("large*", "2"), ("large-long", "3"), ("free", "0")];
    let entries = models.map(|(name, text)| (name.parse().unwrap(), price(text)));
    let denomination = Denomination { currency: "usd".parse().unwrap(), digits: 6 };
    let table = Arc::new(PriceTable::new(entries));
    Arc::new(Prices { denomination, table, unknown })
}

fn spec(api: UsageApi) -> MeterSpec {
    MeterSpec::Usage { api, tariff: Tariff::Prices(prices(None)) }
}

/// The cost of an answer, and the entry of its price.
fn cost(
    api: UsageApi,
    asked: Option<u16>,
    content_type: &'static str,
    pieces: &[&str],
) -> (Metered, Option<PriceEntry>) {
    let headers = fields(&[(CONTENT_TYPE, content_type)]);
    let mut meter = Meter::new(&spec(api), &headers).asked(asked.map(PriceEntry::Listed));
    pieces.iter().for_each(|piece| meter.observe(piece.as_bytes()));
    let (metered, spent) = meter.finish(StatusCode::OK, Progress::Ended);
    (metered, spent.and_then(|spent| spent.entry))
}

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

#[test]
fn the_model_of_the_answer_counts_if_it_has_a_price_and_else_that_of_the_request() {
    let stated = |model: &str| {
        format!(r#"{{"model":{model},"usage":{{"prompt_tokens":10,"completion_tokens":5}}}}"#)
    };
    let cost_of = |asked, model: &str| cost(UsageApi::OpenAi, asked, JSON, &[&stated(model)]);
    let listed = |units, index| (Metered::Cost(units), Some(PriceEntry::Listed(index)));
    assert_eq!(cost_of(Some(0), r#""large-2026""#), listed(30, 1));
    assert_eq!(cost_of(Some(0), r#""LARGE-long""#), listed(45, 2));
    assert_eq!(cost_of(Some(0), r#""unheard-of""#), listed(15, 0));
    assert_eq!(cost_of(Some(0), r#""""#), listed(15, 0));
    assert_eq!(cost_of(Some(3), "null"), listed(0, 3));
    // Neither model has a price: what was reserved stays.
    let kept = (Metered::AtLeast(0, Unsettled::Absent), None);
    assert_eq!(cost_of(None, r#""unheard-of""#), kept);
    assert_eq!(cost_of(None, r#""small""#), listed(15, 0));
}

#[test]
fn each_api_states_its_model_in_its_own_place() {
    let tokens = r#""usage":{"input_tokens":1,"output_tokens":1}"#;
    let begin = r#"data: {"response":{"model":"lar"#;
    let rest = format!("ge\"}}}}\n\ndata: {{\"response\":{{\"model\":\"small\",{tokens}}}}}\n\n");
    assert_eq!(cost(UsageApi::OpenAi, Some(0), EVENTS, &[begin, &rest]).0, Metered::Cost(4));
    let started = format!("data: {{\"message\":{{\"model\":\"large\",{tokens}}}}}\n\n");
    let delta = "data: {\"usage\":{\"output_tokens\":3}}\n\n";
    let anthropic = cost(UsageApi::Anthropic, Some(0), EVENTS, &[&started, delta]);
    assert_eq!(anthropic.0, Metered::Cost(8));
    let chunk = r#"[{"modelVersion":"large","usageMetadata":{"promptTokenCount":2}}]"#;
    assert_eq!(cost(UsageApi::Gemini, Some(0), JSON, &[chunk]).0, Metered::Cost(4));
    let line = "{\"model\":\"l\\u0061rge\",\"eval_count\":2}\n";
    let ollama = cost(UsageApi::Ollama, Some(0), "application/x-ndjson", &[line]);
    assert_eq!(ollama.0, Metered::Cost(4));
    let bedrock = r#"{"model":"large","usage":{"inputTokens":2,"outputTokens":0}}"#;
    assert_eq!(cost(UsageApi::Bedrock, Some(0), JSON, &[bedrock]).0, Metered::Cost(2));
    // A message of the user, and not the model.
    let inner = r#"{"choices":[{"model":"large"}],"usage":{"prompt_tokens":2}}"#;
    assert_eq!(cost(UsageApi::OpenAi, Some(0), JSON, &[inner]).0, Metered::Cost(2));
}

#[test]
fn a_long_name_has_the_price_of_its_beginning() {
    let long = format!("large{}", "x".repeat(1_000_000));
    let stated = format!(r#"{{"model":"{long}","usage":{{"prompt_tokens":10}}}}"#);
    assert_eq!(cost(UsageApi::OpenAi, Some(0), JSON, &[&stated]).0, Metered::Cost(20));
}

#[test]
fn a_model_without_an_entry_has_the_price_of_unknown_models() {
    let rate = "7".parse().unwrap();
    let unknown = Price { request: rate, ..Price::default() };
    let tariff = Tariff::Prices(prices(Some(unknown)));
    let meter = |asked| {
        let spec = MeterSpec::Usage { api: UsageApi::OpenAi, tariff: tariff.clone() };
        let mut meter = Meter::new(&spec, &HeaderMap::new()).asked(asked);
        meter.observe(br#"{"model":"other","usage":{"prompt_tokens":1}}"#);
        meter.finish(StatusCode::OK, Progress::Ended).0
    };
    assert_eq!(meter(Some(PriceEntry::Unknown)), Metered::Cost(7_000_000));
    assert_eq!(meter(None), Metered::Cost(7_000_000));
    assert_eq!(meter(Some(PriceEntry::Listed(1))), Metered::Cost(2));
}

/// The cost of a request for a free model is known if no other model has answered.
#[test]
fn an_answer_without_tokens_of_a_model_that_is_free_costs_nothing() {
    let unknown = Metered::AtLeast(0, Unsettled::Absent);
    let free = Metered::Cost(0);
    for (asked, body, expected) in [
        (3, "{}", free),
        (3, r#"{"model":"free"}"#, free),
        (3, r#"{"model":"unheard-of"}"#, free),
        (3, r#"{"model":"small"}"#, unknown),
        (0, r#"{"model":"free"}"#, unknown),
    ] {
        assert_eq!(cost(UsageApi::OpenAi, Some(asked), JSON, &[body]).0, expected, "{body}");
    }
    let headers = fields(&[(CONTENT_ENCODING, "br")]);
    let encoded = |asked| {
        let meter = Meter::new(&spec(UsageApi::OpenAi), &headers);
        let meter = meter.asked(Some(PriceEntry::Listed(asked)));
        meter.finish(StatusCode::OK, Progress::Ended).0
    };
    assert_eq!([encoded(3), encoded(0)], [free, Metered::AtLeast(0, Unsettled::Encoded)]);
}

//! Tables, and what becomes of their entries.

use proptest::prelude::*;
use serde_json::json;
use tollgate_core::price::{Denomination, Usage};

use super::super::report;
use super::*;

fn read(table: &Value, wanted: &Wanted) -> Taken {
    super::read(&table.to_string(), wanted).unwrap()
}

fn all(table: &Value) -> Taken {
    read(table, &Wanted::default())
}

/// The lines of the file without the comment.
fn lines(taken: &Taken) -> Vec<String> {
    report::file(taken).lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn prices_of_tokens_become_prices_of_a_million() {
    let taken = all(&json!({
        "sample_spec": { "mode": "one of: chat, embedding" },
        "Gpt-5": {
            "litellm_provider": "openai", "mode": "chat", "max_tokens": 128_000,
            "input_cost_per_token": 1.25e-6, "cache_read_input_token_cost": 1.25e-7,
            "output_cost_per_token": 1e-5, "supports_vision": true,
        },
        "claude": {
            "mode": "chat", "input_cost_per_token": 3e-6, "output_cost_per_token": 1.5e-5,
            "cache_read_input_token_cost": 3e-7, "cache_creation_input_token_cost": 3.75e-6,
            "input_cost_per_request": 0.005,
        },
        "vectors": { "mode": "embedding", "input_cost_per_token": 2e-8 },
        "old": { "input_cost_per_token": 1e-6, "output_cost_per_token": 0 },
    }));
    assert_eq!(
        lines(&taken),
        [
            "\"claude\": { input: 3, cache_read: 0.3, cache_write: 3.75, output: 15, request: 0.005 }",
            "\"Gpt-5\": { input: 1.25, cache_read: 0.125, output: 10 }",
            "\"old\": { input: 1, output: 0 }",
            "\"vectors\": { input: 0.02, output: 0 }",
        ]
    );
    assert_eq!(report::report(&taken), "4 of 4 entries have a price of tokens here\n");
}

#[test]
fn a_long_input_has_the_prices_of_its_threshold() {
    let long = |threshold: &str, input: f64| {
        let mut entry = json!({
            "mode": "chat", "input_cost_per_token": 1e-6, "output_cost_per_token": 4e-6,
            "cache_read_input_token_cost": 1e-7,
        });
        entry[format!("input_cost_per_token_above_{threshold}_tokens")] = json!(input);
        entry
    };
    let mut several = long("32k", 2e-6);
    several["input_cost_per_token_above_256k_tokens"] = json!(3e-6);
    several["output_cost_per_token_above_256k_tokens"] = json!(9e-6);
    let taken = all(&json!({
        "a": long("272k", 2e-6), "b": long("200k", 1e-6), "c": several,
    }));
    assert_eq!(
        lines(&taken),
        [
            "\"a\": { input: 1, cache_read: 0.1, output: 4, \
             long: { above: 272000, input: 2, cache_read: 0.1, output: 4 } }",
            // The same prices as below the threshold.
            "\"b\": { input: 1, cache_read: 0.1, output: 4 }",
            "\"c\": { input: 1, cache_read: 0.1, output: 4, \
             long: { above: 32000, input: 3, cache_read: 0.1, output: 9 } }",
        ]
    );
    assert_eq!(taken.thresholds, ["c"]);
}

#[test]
fn what_has_no_price_here_is_left_out_and_told() {
    let table = json!({
        "dalle": { "mode": "image_generation", "input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6 },
        "tiers": { "mode": "chat", "tiered_pricing": [] },
        "half": { "mode": "chat", "input_cost_per_token": 1e-6 },
        "nothing": { "mode": "chat", "input_cost_per_token": 0, "output_cost_per_token": 0.0 },
        "a/*/b": { "mode": "chat", "input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6 },
        "negative": { "mode": "chat", "input_cost_per_token": -1, "output_cost_per_token": 1e-6 },
        "text": { "mode": "chat", "input_cost_per_token": "1e-6", "output_cost_per_token": 1e-6 },
        "high": { "mode": "chat", "input_cost_per_token": 1_001, "output_cost_per_token": 1e-6 },
    });
    let taken = all(&table);
    assert_eq!(lines(&taken), ["{}"]);
    let without = |why| taken.without.get(&why).map_or(0, Vec::len);
    use Without::{Free, Mode, Name, Price, Tokens};
    assert_eq!([Mode, Tokens, Free, Name, Price].map(without), [1, 2, 1, 1, 3]);
    let text = report::report(&taken);
    assert!(text.starts_with("0 of 8 entries"), "{text}");
    assert!(text.contains("left out: 2 without a price of input and one of output: half, tiers"));
    let free = read(&table, &Wanted { free: true, ..Wanted::default() });
    assert_eq!(lines(&free), ["\"nothing\": { input: 0, output: 0 }"]);
}

#[test]
fn prices_that_a_limit_cannot_know_and_unknown_members_are_told() {
    let taken = all(&json!({
        "m": {
            "mode": "chat", "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6,
            "output_cost_per_reasoning_token": 3e-6,
            "input_cost_per_token_priority": 2e-6, "output_cost_per_token_batches": 1e-6,
            "cache_creation_input_token_cost_above_1hr": 4e-6, "input_cost_per_audio_token": 0.0,
            "input_cost_per_image": 1e-3, "search_context_cost_per_query": {}, "off_peak_pricing": {},
            "fedramp_uplift_multiplier": 1.1, "input_cost_per_thought_of_a_model": 1e-6,
            "supports_magic": true, "colour": "blue",
        },
    }));
    // Thoughts are a part of the output.
    assert_eq!(lines(&taken), ["\"m\": { input: 1, output: 3 }"]);
    assert_eq!(
        report::report(&taken),
        "1 of 1 entries have a price of tokens here\n\
         not taken, because a limit does not know of requests\n  \
         of another service tier, or in a batch: input_cost_per_token_priority (1), \
         output_cost_per_token_batches (1)\n  \
         that write to a cache for an hour or longer: cache_creation_input_token_cost_above_1hr (1)\n  \
         with tokens of images, audio or video, or counted by other units: input_cost_per_image (1)\n  \
         that search or use tools of the provider: search_context_cost_per_query (1)\n  \
         in some regions or modes: fedramp_uplift_multiplier (1)\n  \
         at other times of the day, or with several ranges of input: off_peak_pricing (1)\n\
         not known to this version, and not taken: colour (1), input_cost_per_thought_of_a_model (1)\n"
    );
}

#[test]
fn a_provider_has_its_models_without_its_name() {
    let entry = |provider: &str, price: f64| {
        json!({
            "litellm_provider": provider, "mode": "chat",
            "input_cost_per_token": price, "output_cost_per_token": 1e-6,
        })
    };
    let table = json!({
        "gemini/flash": entry("gemini", 1e-6), "FLASH": entry("gemini", 2e-6),
        "flash": entry("vertex_ai", 9e-6), "latest": { "litellm_provider": "gemini", "alias_of": "gemini/flash" },
    });
    let wanted = Wanted { providers: vec!["gemini".to_owned()], free: false };
    let taken = read(&table, &wanted);
    assert_eq!(
        lines(&taken),
        // The dearer of the two, under the name that was found first.
        ["\"FLASH\": { input: 2, output: 1 }", "\"latest\": { input: 1, output: 1 }"]
    );
    assert_eq!((taken.entries, &taken.several[..]), (3, &["flash".to_owned()][..]));
    assert_eq!(all(&table).prices.len(), 3);
}

#[test]
fn what_is_not_a_table_is_an_error() {
    for (text, why) in [("[]", "not a table"), ("{", "not a table"), ("{\"a\": 1}", "\"a\"")] {
        let error = super::read(text, &Wanted::default()).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

prop_compose! {
    fn tokens()(prices in prop::array::uniform4(0_u64..1000)) -> TokenPrices {
        let [input, cache_read, cache_write, output] =
            prices.map(|it| Rate::from_millionths(it).unwrap());
        TokenPrices { input, cache_read, cache_write, output }
    }
}

prop_compose! {
    fn price()(
        tokens in tokens(),
        request in 0_u64..1000,
        long in prop::option::of((1_u64..100, tokens())),
    ) -> Price {
        let request = Rate::from_millionths(request).unwrap();
        Price { tokens, request, long: long.map(|(above, tokens)| LongPrice { above, tokens }) }
    }
}

proptest! {
    #[test]
    fn the_dearer_of_two_prices_is_never_less_than_one_of_them(
        one in price(),
        other in price(),
        [input, cache_read, cache_write, output] in prop::array::uniform4(0_u64..100),
    ) {
        let usage = Usage { input, cache_read, cache_write, output };
        let money = Denomination { currency: "usd".parse().unwrap(), digits: 9 };
        let cost = |price: Price| price.units(&usage, money);
        prop_assert!(cost(dearer(one, other)) >= cost(one).max(cost(other)));
    }
}

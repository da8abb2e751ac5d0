//! What may be written of a model and its price, in `gateway.yaml` and in a file of prices.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::algorithm::MAX_LIMIT;
use tollgate_core::price::{
    LongPrice, MAX_ENTRIES, ModelPattern, Price, PriceTable, Rate, TokenPrices,
};

use crate::config::field::{Entries, Field, Spanned};
use crate::config::node::TextSpan;
use crate::config::problem::Problems;
use crate::config::scalar::{ModelText, PriceText};

/// What a model costs, for a million tokens.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "price", default)]
#[schemars(deny_unknown_fields, extend("required" = ["input", "output"]))]
pub struct RawPrice {
    /// Of input that was not read from a cache and not written to one.
    #[schemars(example = &"1.25")]
    input: Field<PriceText>,
    /// Of input that was read from a cache.
    #[schemars(extend("x-default" = "that of `input`"))]
    #[schemars(example = &"0.125")]
    cache_read: Field<PriceText>,
    /// Of input that was written to a cache.
    #[schemars(extend("x-default" = "that of `input`"))]
    #[schemars(example = &"1.25")]
    cache_write: Field<PriceText>,
    /// Of output, with the thoughts of the model. Write 0 for models without output.
    #[schemars(example = &"10")]
    output: Field<PriceText>,
    /// Of a request, beside its tokens.
    #[schemars(extend("default" = 0))]
    #[schemars(example = &"0.01")]
    request: Field<PriceText>,
    /// Other prices for requests with a long input.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "above": 272_000, "input": 2.5, "output": 15 }))]
    long: Field<RawLongPrice>,
}

/// The prices of requests with a long input. They hold for all tokens of such a request.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "long", default)]
#[schemars(deny_unknown_fields, extend("required" = ["above", "input", "output"]))]
pub struct RawLongPrice {
    /// The input is long if it has more tokens than this, with those of caches.
    #[schemars(example = 272_000)]
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    above: Field<u64>,
    /// Of input that was not read from a cache and not written to one.
    #[schemars(example = &"2.5")]
    input: Field<PriceText>,
    /// Of input that was read from a cache.
    #[schemars(extend("x-default" = "that of `input` here"))]
    #[schemars(example = &"0.25")]
    cache_read: Field<PriceText>,
    /// Of input that was written to a cache.
    #[schemars(extend("x-default" = "that of `input` here"))]
    #[schemars(example = &"2.5")]
    cache_write: Field<PriceText>,
    /// Of output.
    #[schemars(example = &"15")]
    output: Field<PriceText>,
}

const FORM: &str = "like { input: 1.25, output: 10 }; write 0 for what costs nothing";

/// All prices that have no mistake.
pub fn compile(raw: &Field<Entries<RawPrice>>, problems: &Problems) -> PriceTable {
    if let Some(given) = raw.given().filter(|given| given.value.0.len() > MAX_ENTRIES) {
        let message = format!("there are more than {MAX_ENTRIES} models");
        problems.error(given.span, &message, "remove some, or join them by a pattern, like gpt-5*");
    }
    let mut names = HashSet::new();
    let entries = raw.entries().iter().filter_map(|(name, price)| {
        let pattern = pattern(name, problems);
        if let Some(pattern) = pattern.as_ref().filter(|it| !names.insert(it.folded())) {
            let message = format!("there are two prices of the model \"{pattern}\"");
            problems.error(name.span, &message, "remove one of them: case makes no difference");
        }
        let price = price.given()?;
        Some((pattern?, price.value.compile(price.span, problems)?))
    });
    PriceTable::new(entries.collect::<Vec<_>>())
}

fn pattern(name: &Spanned<String>, problems: &Problems) -> Option<ModelPattern> {
    match name.value.parse() {
        Ok(ModelText(pattern)) => Some(pattern),
        Err(error) => {
            problems.error(name.span, &error.message, error.advice);
            None
        }
    }
}

/// The value of a field, which is required.
fn required<T: Copy>(
    field: &Field<T>,
    name: &str,
    of: &str,
    span: TextSpan,
    problems: &Problems,
) -> Option<T> {
    if field.is_absent() {
        problems.error(span, &format!("the {of} has no \"{name}\""), FORM);
    }
    field.copied()
}

/// The prices of all kinds of tokens. Those of caches may be absent.
fn token_prices(
    [input, cache_read, cache_write, output]: [&Field<PriceText>; 4],
    of: &str,
    span: TextSpan,
    problems: &Problems,
) -> Option<TokenPrices> {
    let input = required(input, "input", of, span, problems);
    let output = required(output, "output", of, span, problems);
    let PriceText(input) = input?;
    let PriceText(output) = output?;
    let or_input = |field: &Field<PriceText>| field.copied().map_or(input, |PriceText(it)| it);
    let cache_read = or_input(cache_read);
    let cache_write = or_input(cache_write);
    Some(TokenPrices { input, cache_read, cache_write, output })
}

impl RawPrice {
    /// The price, which is written at `span`.
    pub fn compile(&self, span: TextSpan, problems: &Problems) -> Option<Price> {
        let Self { input, cache_read, cache_write, output, request, long } = self;
        let kinds = [input, cache_read, cache_write, output];
        let tokens = token_prices(kinds, "price", span, problems);
        let long = long.given().map(|long| long.value.compile(long.span, problems));
        let request = request.copied().map_or(Rate::default(), |PriceText(rate)| rate);
        let long = match long {
            Some(long) => Some(long?),
            None => None,
        };
        Some(Price { tokens: tokens?, request, long })
    }
}

impl RawLongPrice {
    fn compile(&self, span: TextSpan, problems: &Problems) -> Option<LongPrice> {
        let Self { above, input, cache_read, cache_write, output } = self;
        let kinds = [input, cache_read, cache_write, output];
        let tokens = token_prices(kinds, "price of a long input", span, problems);
        let at = above.given().map_or(span, |above| above.span);
        let above = required(above, "above", "price of a long input", span, problems)?;
        if !(1..=MAX_LIMIT).contains(&above) {
            let advice = format!("write a number from 1 to {MAX_LIMIT}");
            problems.error(at, "\"above\" is out of range", &advice);
        }
        Some(LongPrice { above, tokens: tokens? })
    }
}

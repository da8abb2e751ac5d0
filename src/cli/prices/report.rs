//! What is written of prices that were taken, and what is said of them. Names of the table are made safe
//! for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tollgate_core::price::{Price, TokenPrices};
use tollgate_top::clean;

use super::litellm::{Taken, Without};
use super::members::ALL_LEFT;

/// The most names that stand in a line.
const MAX_NAMES: usize = 4;

/// The file of prices: an entry a line, in the order of the names.
pub fn file(taken: &Taken) -> String {
    let mut text = String::from(
        "# Prices for a million tokens in US dollars, from LiteLLM's table by `tollgate prices import`.\n",
    );
    for (pattern, price) in taken.prices.values() {
        let name = serde_json::Value::from(pattern.to_string());
        let _ = writeln!(text, "{name}: {{ {} }}", written(price));
    }
    if taken.prices.is_empty() {
        text.push_str("{}\n");
    }
    text
}

fn written(price: &Price) -> String {
    let mut text = tokens(&price.tokens);
    if price.request.millionths() > 0 {
        let _ = write!(text, ", request: {}", price.request);
    }
    if let Some(long) = &price.long {
        let _ = write!(text, ", long: {{ above: {}, {} }}", long.above, tokens(&long.tokens));
    }
    text
}

fn tokens(prices: &TokenPrices) -> String {
    let TokenPrices { input, cache_read, cache_write, output } = prices;
    let mut text = format!("input: {input}");
    for (name, price) in [("cache_read", cache_read), ("cache_write", cache_write)] {
        if price != input {
            let _ = write!(text, ", {name}: {price}");
        }
    }
    let _ = write!(text, ", output: {output}");
    text
}

/// What is said of the prices.
pub fn report(taken: &Taken) -> String {
    let mut text = format!(
        "{} of {} entries have a price of tokens here\n",
        taken.entries - taken.without.values().map(Vec::len).sum::<usize>(),
        taken.entries
    );
    for (why, models) in &taken.without {
        let _ = writeln!(text, "left out: {} {}: {}", models.len(), without(*why), some(models));
    }
    if !taken.rounded.is_empty() {
        text.push_str("rounded up to six decimals:\n");
        for (model, member) in &taken.rounded {
            let _ = writeln!(text, "  {}: {}", clean::text(model), clean::text(member));
        }
    }
    for (models, what) in [
        (&taken.several, "stand several times; the dearest prices are written"),
        (&taken.thresholds, "have several prices of long inputs; the dearest is written"),
    ] {
        if !models.is_empty() {
            let _ = writeln!(text, "{} models {what}: {}", models.len(), some(models));
        }
    }
    let left = ALL_LEFT.into_iter().filter_map(|left| Some((left, taken.left.get(&left)?)));
    for (index, (left, members)) in left.enumerate() {
        if index == 0 {
            text.push_str("not taken, because a limit does not know of requests\n");
        }
        let _ = writeln!(text, "  {}: {}", left.text(), counted(members));
    }
    if !taken.unknown.is_empty() {
        let members = counted(&taken.unknown);
        let _ = writeln!(text, "not known to this version, and not taken: {members}");
    }
    text
}

const fn without(why: Without) -> &'static str {
    match why {
        Without::Mode => "of models that are not paid by tokens of text",
        Without::Tokens => "without a price of input and one of output",
        Without::Free => {
            "that cost nothing, and would pass when a budget is used up (--free takes them)"
        }
        Without::Name => "with a name that is not that of a model here",
        Without::Price => "with a price that is not a number, or too high",
    }
}

/// Some of the names, and how many more there are.
fn some(names: &[String]) -> String {
    let mut text =
        names.iter().take(MAX_NAMES).map(|it| clean::text(it)).collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = names.len().checked_sub(MAX_NAMES) {
        let _ = write!(text, " and {more} more");
    }
    text
}

fn counted(members: &BTreeMap<String, usize>) -> String {
    let members = members.iter().map(|(name, models)| format!("{} ({models})", clean::text(name)));
    members.collect::<Vec<_>>().join(", ")
}

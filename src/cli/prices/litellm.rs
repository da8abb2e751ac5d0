//! LiteLLM's table of prices, `model_prices_and_context_window.json`, as prices of this gateway.
//!
//! A price is never lower here than in the table: it is rounded up, and where the table has several
//! prices for the same requests, the dearest counts. What cannot be taken is left out and told: a
//! model without a price is refused, and a model with a price that is too low evades a budget.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};
use tollgate_core::price::{LongPrice, ModelPattern, Price, Rate, TokenPrices};

use super::members::{Kind, Left, Member, member};
use super::number::{Per, converted};

/// The modes of models that answer with text, or with vectors. The others are paid by other units.
static MODES: [&str; 4] = ["chat", "completion", "responses", "embedding"];

/// An entry that explains the others.
const SAMPLE: &str = "sample_spec";

/// Which entries are taken.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Those of these providers, without the provider before the name. Empty: all of them.
    pub providers: Vec<String>,
    /// Also those that cost nothing.
    pub free: bool,
}

/// Why an entry has no price here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Without {
    /// It is of a model of another mode.
    Mode,
    /// It has no price of input, or none of output.
    Tokens,
    /// It costs nothing.
    Free,
    /// Its name is not the name of a model here.
    Name,
    /// It has a price that is not a price here.
    Price,
}

/// The prices, and what is to be told of them.
#[derive(Debug, Default)]
pub struct Taken {
    /// The prices by the names of models, which are in lower case as keys.
    pub prices: BTreeMap<String, (ModelPattern, Price)>,
    /// The entries of the table that were looked at.
    pub entries: usize,
    /// Entries without a price here.
    pub without: BTreeMap<Without, Vec<String>>,
    /// Prices with more decimals than are written: the model and the member.
    pub rounded: Vec<(String, String)>,
    /// Models of which several entries are, with other prices.
    pub several: Vec<String>,
    /// Models for which the prices of long inputs have several thresholds.
    pub thresholds: Vec<String>,
    /// Members with prices that were not taken: how many models have them.
    pub left: BTreeMap<Left, BTreeMap<String, usize>>,
    /// Members that this version does not know: how many models have them.
    pub unknown: BTreeMap<String, usize>,
    /// The providers of the table.
    pub providers: BTreeMap<String, usize>,
}

/// The prices of a table.
///
/// # Errors
/// What is wrong with it.
pub fn read(text: &str, wanted: &Wanted) -> Result<Taken, String> {
    let table: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| format!("this is not a table of prices in JSON: {error}"))?;
    let mut taken = Taken::default();
    for (name, entry) in table.iter().filter(|(name, _)| *name != SAMPLE) {
        let Some(entry) = entry.as_object() else {
            return Err(format!("the entry {name:?} is not an object"));
        };
        let provider = entry.get("litellm_provider").and_then(Value::as_str).unwrap_or_default();
        *taken.providers.entry(provider.to_owned()).or_default() += 1;
        let Some(model) = wanted.model(name, provider) else { continue };
        taken.entries += 1;
        let target = entry.get("alias_of").and_then(Value::as_str);
        let target = target.and_then(|it| table.get(it)?.as_object()).unwrap_or(entry);
        if let Err(why) = taken.take(model, target, wanted) {
            taken.without.entry(why).or_default().push(model.to_owned());
        }
    }
    Ok(taken)
}

impl Wanted {
    /// The name of the model of an entry. None: it is not wanted.
    fn model<'n>(&self, name: &'n str, provider: &str) -> Option<&'n str> {
        if self.providers.is_empty() {
            return Some(name);
        }
        let is_wanted = self.providers.iter().any(|it| it == provider);
        let without = || name.strip_prefix(provider)?.strip_prefix('/');
        is_wanted.then(|| without().unwrap_or(name))
    }
}

/// The prices of one entry, as they are read.
#[derive(Default)]
struct Read<'t> {
    tokens: Tokens,
    thought: Option<Rate>,
    request: Rate,
    /// By their thresholds.
    long: BTreeMap<u64, Tokens>,
    /// Members with more decimals than are written.
    rounded: Vec<&'t str>,
}

/// The prices of tokens that are written.
#[derive(Clone, Copy, Default)]
struct Tokens {
    input: Option<Rate>,
    cache_read: Option<Rate>,
    cache_write: Option<Rate>,
    output: Option<Rate>,
}

impl Tokens {
    /// Sets a price, if it is dearer than the one before.
    fn set(&mut self, kind: Kind, rate: Rate) {
        let place = match kind {
            Kind::Input => &mut self.input,
            Kind::CacheRead => &mut self.cache_read,
            Kind::CacheWrite => &mut self.cache_write,
            Kind::Output => &mut self.output,
        };
        *place = (*place).max(Some(rate));
    }
}

impl<'t> Read<'t> {
    fn of(entry: &'t Map<String, Value>) -> Result<Self, Without> {
        let mut read = Self::default();
        for (name, value) in entry {
            let member = member(name);
            let per = match member {
                Member::Token(_) | Member::Long(..) | Member::Thought => Per::Token,
                Member::Request => Per::Request,
                Member::Left(_) | Member::About | Member::Unknown => continue,
            };
            if value.is_null() {
                continue;
            }
            let price = value.as_f64().and_then(|number| converted(number, per));
            let price = price.ok_or(Without::Price)?;
            if price.is_rounded {
                read.rounded.push(name);
            }
            match member {
                Member::Token(kind) => read.tokens.set(kind, price.rate),
                Member::Long(kind, above) => {
                    read.long.entry(above).or_default().set(kind, price.rate);
                }
                Member::Thought => read.thought = Some(price.rate),
                _ => read.request = price.rate,
            }
        }
        Ok(read)
    }

    /// The price of a model with this mode.
    fn price(&self, mode: &str) -> Result<Price, Without> {
        let no_output = (mode == "embedding").then(Rate::default);
        let base = TokenPrices {
            input: self.tokens.input.ok_or(Without::Tokens)?,
            cache_read: self.tokens.cache_read.or(self.tokens.input).unwrap_or_default(),
            cache_write: self.tokens.cache_write.or(self.tokens.input).unwrap_or_default(),
            output: self.tokens.output.or(no_output).ok_or(Without::Tokens)?,
        };
        let output = base.output.max(self.thought.unwrap_or_default());
        let tokens = TokenPrices { output, ..base };
        let longs = self.long.iter().map(|(above, long)| {
            let input = long.input.unwrap_or(tokens.input);
            LongPrice {
                above: *above,
                tokens: TokenPrices {
                    input,
                    cache_read: long.cache_read.or(self.tokens.cache_read).unwrap_or(input),
                    cache_write: long.cache_write.or(self.tokens.cache_write).unwrap_or(input),
                    output: long.output.unwrap_or(output).max(self.thought.unwrap_or_default()),
                },
            }
        });
        let long = longs.reduce(dearer_long);
        let long = long.filter(|long| long.tokens != tokens);
        Ok(Price { tokens, request: self.request, long })
    }
}

impl Taken {
    /// Takes the price of an entry for a model.
    fn take(
        &mut self,
        model: &str,
        entry: &Map<String, Value>,
        wanted: &Wanted,
    ) -> Result<(), Without> {
        let mode = entry.get("mode").and_then(Value::as_str);
        if mode.is_some_and(|mode| !MODES.contains(&mode)) {
            return Err(Without::Mode);
        }
        let read = Read::of(entry)?;
        let price = read.price(mode.unwrap_or("chat"))?;
        if price.is_free() && !wanted.free {
            return Err(Without::Free);
        }
        // A name with a star is that of many models.
        let pattern = if model.contains('*') { None } else { model.parse::<ModelPattern>().ok() };
        let pattern = pattern.ok_or(Without::Name)?;
        self.tell(model, entry, &read);
        match self.prices.entry(pattern.folded()) {
            Entry::Vacant(place) => {
                place.insert((pattern, price));
            }
            Entry::Occupied(mut place) => {
                let (_, before) = place.get_mut();
                if *before != price {
                    *before = dearer(*before, price);
                    self.several.push(model.to_owned());
                }
            }
        }
        Ok(())
    }

    /// Remembers what is to be told of an entry whose price is taken.
    fn tell(&mut self, model: &str, entry: &Map<String, Value>, read: &Read<'_>) {
        let rounded = read.rounded.iter().map(|name| (model.to_owned(), (*name).to_owned()));
        self.rounded.extend(rounded);
        if read.long.len() > 1 {
            self.thresholds.push(model.to_owned());
        }
        for (name, value) in entry {
            let counted = match member(name) {
                // A price of nothing is not one that is missed.
                Member::Left(_) if value.as_f64() == Some(0.0) || value.is_null() => continue,
                Member::Left(left) => self.left.entry(left).or_default(),
                Member::Unknown => &mut self.unknown,
                _ => continue,
            };
            *counted.entry(name.clone()).or_default() += 1;
        }
    }
}

/// A price that is at least each of two, for all requests.
fn dearer(one: Price, other: Price) -> Price {
    let above = [one.long, other.long].into_iter().flatten().map(|long| long.above).min();
    let anywhere =
        |price: Price| price.long.map_or(price.tokens, |it| dearest(it.tokens, price.tokens));
    let tokens = dearest(anywhere(one), anywhere(other));
    Price {
        tokens: dearest(one.tokens, other.tokens),
        request: one.request.max(other.request),
        long: above.map(|above| LongPrice { above, tokens }),
    }
}

/// A price that is at least each of two, for all requests with an input above the lower threshold.
fn dearer_long(one: LongPrice, other: LongPrice) -> LongPrice {
    LongPrice { above: one.above.min(other.above), tokens: dearest(one.tokens, other.tokens) }
}

fn dearest(one: TokenPrices, other: TokenPrices) -> TokenPrices {
    TokenPrices {
        input: one.input.max(other.input),
        cache_read: one.cache_read.max(other.cache_read),
        cache_write: one.cache_write.max(other.cache_write),
        output: one.output.max(other.output),
    }
}

#[cfg(test)]
mod tests;

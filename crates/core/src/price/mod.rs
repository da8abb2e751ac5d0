//! What tokens of language models cost: prices by model, and budgets in a currency.
//!
//! All arithmetic is in integers. A price is a number of 10^-12 of the currency for a token, the
//! cost of a request is a sum of such numbers, and the sum is rounded up once, to a unit of the
//! [`Denomination`]. So a cost never depends on the order of additions, and is never too low.

mod amount;
mod decimal;
mod denomination;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod model;
mod table;
#[cfg(test)]
mod tests;
mod usage;

use std::sync::Arc;

pub use amount::{Amount, AmountError};
pub use decimal::{Decimal, DecimalError};
pub use denomination::{Currency, CurrencyError, Denomination, MAX_DIGITS, Money};
pub use model::{LongPrice, MAX_PRICE, Price, Rate, RateError, TokenPrices};
pub use table::{MAX_ENTRIES, MAX_MODEL_BYTES, ModelPattern, PatternError, PriceTable};
pub use usage::Usage;

/// The name of models without an entry, in metrics.
pub const OTHER: &str = "_other";

/// The prices of all models, in one currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices {
    /// The currency, and how finely it is counted.
    pub denomination: Denomination,
    /// The prices by model.
    pub table: Arc<PriceTable>,
    /// The price of models without an entry. None: their requests are refused.
    pub unknown: Option<Price>,
}

/// Which price a model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceEntry {
    /// That of the entry with this index.
    Listed(u16),
    /// That of models without an entry.
    Unknown,
}

impl Prices {
    /// The price of the model that a request names. None: the request is refused.
    pub fn of_request(&self, model: Option<&str>) -> Option<PriceEntry> {
        let listed = model.and_then(|model| self.table.find(model)).map(PriceEntry::Listed);
        listed.or_else(|| self.unknown.is_some().then_some(PriceEntry::Unknown))
    }

    /// The price for an answer of this model to a request whose model has the price `asked`. None:
    /// neither model has a price.
    pub fn of_answer(&self, model: Option<&str>, asked: Option<PriceEntry>) -> Option<PriceEntry> {
        let listed = model.and_then(|model| self.table.find(model)).map(PriceEntry::Listed);
        listed.or(asked).or_else(|| self.of_request(None))
    }

    /// The name of an entry, in metrics: never a text of a client.
    pub fn name(&self, entry: PriceEntry) -> &str {
        match entry {
            PriceEntry::Listed(index) => self.table.name(index).unwrap_or(OTHER),
            PriceEntry::Unknown => OTHER,
        }
    }

    /// The units that these tokens cost.
    pub fn units(&self, entry: PriceEntry, usage: &Usage) -> u64 {
        self.price(entry).map_or(u64::MAX, |price| price.units(usage, self.denomination))
    }

    /// The units that are reserved for these tokens, of which [`Usage::input`] are all of the
    /// input. Whether a cache has them is not known before the answer, so they count by the dearer
    /// of input and cache write.
    pub fn estimated_units(&self, entry: PriceEntry, usage: &Usage) -> u64 {
        self.price(entry).map_or(u64::MAX, |price| price.estimated_units(usage, self.denomination))
    }

    /// Whether requests of this entry cost nothing, whatever they use.
    pub fn is_free(&self, entry: PriceEntry) -> bool {
        self.price(entry).is_some_and(Price::is_free)
    }

    /// The price of an entry of this table.
    pub fn price(&self, entry: PriceEntry) -> Option<&Price> {
        match entry {
            PriceEntry::Listed(index) => self.table.price(index),
            PriceEntry::Unknown => self.unknown.as_ref(),
        }
    }
}

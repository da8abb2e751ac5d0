//! Prices of tokens, currencies, and names of models.

use std::str::FromStr;

use tollgate_core::price::{Currency, CurrencyError, ModelPattern, PatternError, Rate, RateError};
use tollgate_core::scalar::ScalarError;

use super::text::written_as_text;

/// A price, as a decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceText(pub Rate);

written_as_text!(
    PriceText, form PRICE,
    "A price with at most six decimals. It is read as text and never rounded",
    "1.25",
    "0.125",
    "0"
);

/// A currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrencyText(pub Currency);

written_as_text!(
    CurrencyText, text CURRENCY,
    "A currency, with 1 to 8 letters",
    "usd",
    "eur"
);

/// Which models an entry is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelText(pub ModelPattern);

impl FromStr for PriceText {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let wrong = |error: RateError| {
            let message = format!("\"{text}\" is not a price: {error}");
            ScalarError::new(message, "write a number with at most 6 decimals, like 1.25")
        };
        text.parse().map(Self).map_err(wrong)
    }
}

impl FromStr for CurrencyText {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let wrong = |error: CurrencyError| {
            ScalarError::new(format!("\"{text}\" is not a currency: {error}"), "write usd or eur")
        };
        text.parse().map(Self).map_err(wrong)
    }
}

impl FromStr for ModelText {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let wrong = |error: PatternError| {
            let message = format!("\"{text}\" is not the name of a model: {error}");
            ScalarError::new(message, "write a name, or its beginning and *, like gpt-5*")
        };
        text.parse().map(Self).map_err(wrong)
    }
}

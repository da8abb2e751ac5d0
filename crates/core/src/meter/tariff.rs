//! How tokens become units: by weights, or by prices.

use std::sync::Arc;

use super::usage::Weights;
use crate::price::{PriceEntry, Prices, Usage};

/// How tokens become units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tariff {
    /// A token of each kind counts its weight.
    Weights(Weights),
    /// A token of each kind costs its price, which depends on the model.
    Prices(Arc<Prices>),
}

impl Default for Tariff {
    /// Each token is one unit.
    fn default() -> Self {
        Self::Weights(Weights::default())
    }
}

impl From<Weights> for Tariff {
    fn from(weights: Weights) -> Self {
        Self::Weights(weights)
    }
}

impl Tariff {
    /// The prices, if units are money.
    pub const fn prices(&self) -> Option<&Arc<Prices>> {
        match self {
            Self::Weights(_) => None,
            Self::Prices(prices) => Some(prices),
        }
    }

    /// The units of these tokens. None: it is not known what they cost, because neither the answer
    /// nor the request names a model with a price.
    pub fn units(&self, usage: &Usage, entry: Option<PriceEntry>) -> Option<u64> {
        match self {
            Self::Weights(weights) => Some(weights.units(usage)),
            Self::Prices(prices) => entry.map(|entry| prices.units(entry, usage)),
        }
    }

    /// The units that are reserved for these tokens, of which [`Usage::input`] are all of the
    /// input. `entry` is the price of the model that the request names. None: it is not known what
    /// they cost.
    pub fn estimated_units(&self, usage: &Usage, entry: Option<PriceEntry>) -> Option<u64> {
        match self {
            Self::Weights(weights) => Some(weights.estimated_units(usage)),
            Self::Prices(prices) => entry.map(|entry| prices.estimated_units(entry, usage)),
        }
    }
}

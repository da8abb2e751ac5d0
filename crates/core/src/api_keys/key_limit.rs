//! The limit of a key as it is written, before the policy that counts it is known.

use std::fmt;

use super::Override;
use crate::algorithm::WindowText;
use crate::price::Amount;
use crate::time::Span;

/// The limit of a key or a team. How many units an amount of money is, depends on the prices of the
/// policy, so the amount is kept and not its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyLimit {
    /// No limit, or a number of units.
    Units(Override),
    /// An amount of money.
    Money {
        /// The amount.
        amount: Amount,
        /// Its window, if it differs from that of the policy.
        window: Option<Span>,
    },
}

impl From<Override> for KeyLimit {
    fn from(units: Override) -> Self {
        Self::Units(units)
    }
}

/// Formats the limit so that it can be read again: `500/1m`, `unlimited`, `2.5 usd/1d`.
impl fmt::Display for KeyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Units(units) => units.fmt(f),
            Self::Money { amount, window: None } => amount.fmt(f),
            Self::Money { amount, window: Some(window) } => {
                write!(f, "{amount}/{}", WindowText(*window))
            }
        }
    }
}

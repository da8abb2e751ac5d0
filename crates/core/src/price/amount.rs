//! Amounts of money in limits: `500 usd`, `0.25 usd`.

use std::fmt;
use std::str::FromStr;

use super::{Currency, Decimal, DecimalError, Denomination};

/// An amount of money as it is written. How many units it is depends on the [`Denomination`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Amount {
    number: Decimal,
    /// Its currency.
    pub currency: Currency,
}

/// Why a text is not an amount of money, or cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// It is not a number, a space and a currency.
    #[error("it is not an amount of money")]
    NoAmount,
    /// Its number cannot be counted.
    #[error(transparent)]
    Number(#[from] DecimalError),
    /// Prices are in another currency.
    #[error("the prices are in {0}")]
    OtherCurrency(Currency),
}

impl Amount {
    /// Whether a text looks like an amount: a number, a space and letters.
    pub fn is_meant(text: &str) -> bool {
        let text = text.trim();
        let begins = text.starts_with(|first: char| first.is_ascii_digit());
        begins
            && text.split_once(' ').is_some_and(|(_, rest)| {
                let rest = rest.trim_start();
                !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphabetic())
            })
    }

    /// The number of units of this denomination.
    ///
    /// # Errors
    /// If the currency is another one, or the number is finer than a unit or too large.
    pub fn units(&self, denomination: Denomination) -> Result<u64, AmountError> {
        if self.currency != denomination.currency {
            return Err(AmountError::OtherCurrency(denomination.currency));
        }
        Ok(self.number.in_units(denomination.digits)?)
    }
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let (number, currency) = text.trim().split_once(' ').ok_or(AmountError::NoAmount)?;
        let currency = currency.trim_start().parse().map_err(|_| AmountError::NoAmount)?;
        Ok(Self { number: Decimal::read(number)?, currency })
    }
}

/// Writes it so that it can be read again.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number, self.currency)
    }
}

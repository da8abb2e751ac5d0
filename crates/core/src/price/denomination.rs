//! Currencies, and how finely they are counted.

use std::fmt;
use std::str::FromStr;

use super::decimal::write_units;

/// The most decimals of a unit.
pub const MAX_DIGITS: u8 = 9;

/// The most letters of a currency.
const MAX_LETTERS: usize = 8;

/// A currency, such as `usd`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency {
    letters: [u8; MAX_LETTERS],
}

/// Why a text is not a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a currency has from 1 to {MAX_LETTERS} letters from a to z")]
pub struct CurrencyError;

/// A currency, and how finely it is counted. Both are parts of the identity of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Denomination {
    /// The currency.
    pub currency: Currency,
    /// A unit is 10 to the power of `-digits` of the currency.
    pub digits: u8,
}

impl Currency {
    /// Its letters.
    pub fn as_str(&self) -> &str {
        let end = self.letters.iter().position(|letter| *letter == 0).unwrap_or(MAX_LETTERS);
        std::str::from_utf8(&self.letters[..end]).unwrap_or_default()
    }
}

/// Upper case is read as lower case.
impl FromStr for Currency {
    type Err = CurrencyError;

    fn from_str(text: &str) -> Result<Self, CurrencyError> {
        let is_good = (1..=MAX_LETTERS).contains(&text.len())
            && text.bytes().all(|letter| letter.is_ascii_alphabetic());
        if !is_good {
            return Err(CurrencyError);
        }
        let mut letters = [0; MAX_LETTERS];
        letters.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from.to_ascii_lowercase());
        Ok(Self { letters })
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Denomination {
    /// These units as an amount of money, like `12.50 usd`. It has two decimals at least, and as
    /// many more as it needs.
    pub const fn shown(self, units: u64) -> Money {
        Money { units, denomination: self }
    }
}

/// A number of units of a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Money {
    /// The units.
    pub units: u64,
    /// What a unit is.
    pub denomination: Denomination,
}

impl Money {
    /// The number alone, like `12.50`. It has two decimals at least, and as many more as it needs.
    pub fn number(self) -> impl fmt::Display {
        struct Number(Money);
        impl fmt::Display for Number {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_units(f, self.0.units, self.0.denomination.digits, 2)
            }
        }
        Number(self)
    }
}

/// Writes the number and the currency, like `12.50 usd`.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number(), self.denomination.currency)
    }
}

/// Writes the name of the unit, as in the parameter `qu` of response fields: `usd-6`.
impl fmt::Display for Denomination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.currency, self.digits)
    }
}

/// Reads the name of the unit.
impl FromStr for Denomination {
    type Err = CurrencyError;

    fn from_str(text: &str) -> Result<Self, CurrencyError> {
        let (currency, digits) = text.split_once('-').ok_or(CurrencyError)?;
        let digits = digits.parse().ok().filter(|digits| *digits <= MAX_DIGITS);
        Ok(Self { currency: currency.parse()?, digits: digits.ok_or(CurrencyError)? })
    }
}

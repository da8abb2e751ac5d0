//! The price of one model.

use std::fmt;
use std::str::FromStr;

use super::{Decimal, DecimalError, Denomination, Usage};

/// A price is at most this much for a million tokens, or for a request.
pub const MAX_PRICE: u64 = 1_000_000_000;

/// The decimals of a price.
const PRICE_DIGITS: u8 = 6;

/// Costs are added in units of 10 to the power of minus this: a millionth of the currency for a
/// million tokens is one of them for a token.
const SUM_DIGITS: u8 = 12;

/// A price in millionths of the currency: for a million tokens, or for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

/// Why a text is not a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// It is not a number of at most six decimals.
    #[error(transparent)]
    Number(#[from] DecimalError),
    /// It is above [`MAX_PRICE`].
    #[error("it is above {MAX_PRICE}")]
    TooHigh,
}

impl Rate {
    /// This many millionths, if the price is not above [`MAX_PRICE`].
    pub const fn from_millionths(millionths: u64) -> Option<Self> {
        if millionths <= MAX_PRICE * 1_000_000 { Some(Self(millionths)) } else { None }
    }

    /// In millionths.
    pub const fn millionths(self) -> u64 {
        self.0
    }

    fn times(self, tokens: u64) -> u128 {
        u128::from(self.0) * u128::from(tokens)
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let millionths = match Decimal::read(text.trim())?.in_units(PRICE_DIGITS) {
            Err(DecimalError::TooLarge) => return Err(RateError::TooHigh),
            other => other?,
        };
        Self::from_millionths(millionths).ok_or(RateError::TooHigh)
    }
}

/// Writes it so that it can be read again.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::decimal::write_units(f, self.0, PRICE_DIGITS, 0)
    }
}

/// The prices of the kinds of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenPrices {
    /// Of [`Usage::input`].
    pub input: Rate,
    /// Of [`Usage::cache_read`].
    pub cache_read: Rate,
    /// Of [`Usage::cache_write`].
    pub cache_write: Rate,
    /// Of [`Usage::output`].
    pub output: Rate,
}

impl TokenPrices {
    fn is_free(&self) -> bool {
        *self == Self::default()
    }

    /// The sum of the costs of all tokens. Four products of 50 and 64 bits have less than 117
    /// bits.
    fn sum(&self, usage: &Usage) -> u128 {
        self.input.times(usage.input)
            + self.cache_read.times(usage.cache_read)
            + self.cache_write.times(usage.cache_write)
            + self.output.times(usage.output)
    }

    /// With the dearer of input and cache write for the input.
    fn dearer(self) -> Self {
        Self { input: self.input.max(self.cache_write), ..self }
    }
}

/// The prices of requests with a long input. They hold for all tokens of such a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongPrice {
    /// The input is long if it has more tokens than this.
    pub above: u64,
    /// The prices.
    pub tokens: TokenPrices,
}

/// What requests to one model cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// The prices of tokens.
    pub tokens: TokenPrices,
    /// The price of a request, beside those of its tokens.
    pub request: Rate,
    /// The prices of requests with a long input, if they differ.
    pub long: Option<LongPrice>,
}

impl Price {
    /// Whether requests cost nothing, whatever they use.
    pub fn is_free(&self) -> bool {
        let is_long_free = self.long.is_none_or(|long| long.tokens.is_free());
        self.tokens.is_free() && self.request == Rate::default() && is_long_free
    }

    /// The prices of tokens for a request with this input.
    fn tokens_for(&self, usage: &Usage) -> TokenPrices {
        match self.long {
            Some(long) if usage.all_input() > long.above => long.tokens,
            _ => self.tokens,
        }
    }

    /// The units that a request with these tokens costs. The sum is rounded up once.
    pub fn units(&self, usage: &Usage, denomination: Denomination) -> u64 {
        self.rounded_up(self.tokens_for(usage).sum(usage), denomination)
    }

    /// The units that are reserved for these tokens, of which [`Usage::input`] are all of the
    /// input. It counts by the dearer of input and cache write. A request without tokens reserves
    /// nothing. If the model is not free, other requests reserve one unit at least: a request that
    /// reserves nothing is never refused.
    pub fn estimated_units(&self, usage: &Usage, denomination: Denomination) -> u64 {
        if *usage == Usage::default() || self.is_free() {
            return 0;
        }
        let sum = self.tokens_for(usage).dearer().sum(usage);
        self.rounded_up(sum, denomination).max(1)
    }

    /// The price of a request and this sum for its tokens.
    fn rounded_up(&self, tokens: u128, denomination: Denomination) -> u64 {
        let request =
            u128::from(self.request.0) * 10_u128.pow(u32::from(SUM_DIGITS - PRICE_DIGITS));
        let unit = 10_u128.pow(u32::from(SUM_DIGITS.saturating_sub(denomination.digits)));
        u64::try_from((tokens + request).div_ceil(unit)).unwrap_or(u64::MAX)
    }
}

//! Limits: a rate, or a bare count where time does not matter.

use std::str::FromStr;

use super::rate::Rate;
use super::rate::count;
use super::text::{ScalarError, written_as_text};
use crate::algorithm::Quota;
use crate::store::overrides::Override;
use crate::time::Span;

/// How much a policy admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum Limit {
    /// So much in so long a time.
    Rate(Quota),
    /// So much at the same time.
    Count(u64),
}

written_as_text!(
    Limit,
    "A count per window of time; or a bare count of what may be in flight at once",
    "100/minute",
    "5/s",
    "1_000/15m",
    "20"
);

impl Limit {
    /// Units.
    pub(in crate::config) const fn units(self) -> u64 {
        match self {
            Self::Rate(quota) => quota.limit(),
            Self::Count(units) => units,
        }
    }

    /// In which time they count; zero if it does not matter.
    pub(in crate::config) const fn window(self) -> Span {
        match self {
            Self::Rate(quota) => quota.window(),
            Self::Count(_) => Span::ZERO,
        }
    }
}

impl FromStr for Limit {
    type Err = ScalarError;

    /// What is neither is most likely meant to be a rate.
    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let bare = count(text.trim()).map(Self::Count);
        bare.or_else(|_| text.parse().map(|Rate(quota)| Self::Rate(quota)))
    }
}

/// What a policy or a plan admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum Allowance {
    /// Everything.
    Unlimited,
    /// This much.
    Limited(Limit),
}

written_as_text!(
    Allowance,
    "A count per window of time; a bare count of what may be in flight at once; or unlimited",
    "1000/minute",
    "20",
    "unlimited"
);

impl FromStr for Allowance {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
            let advice = "write a count per time, like 1000/minute, or unlimited";
            return Err(ScalarError::new(format!("\"{text}\" is no limit"), advice));
        }
        text.parse().map(Self::Limited)
    }
}

/// The limit of a single key: `unlimited`, a rate, or a bare count in its
/// policy's own window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimit(pub Override);

impl FromStr for KeyLimit {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        Ok(Self(match text.parse()? {
            Allowance::Unlimited => Override::Unlimited,
            Allowance::Limited(Limit::Count(units)) => Override::Limited { units, window: None },
            Allowance::Limited(Limit::Rate(quota)) => {
                Override::Limited { units: quota.limit(), window: Some(quota.window()) }
            }
        }))
    }
}

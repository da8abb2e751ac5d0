//! Limits: a rate, or a count without a time.

use std::str::FromStr;

use tollgate_core::algorithm::Quota;
use tollgate_core::store::overrides::Override;
use tollgate_core::time::Span;

use super::rate::Rate;
use super::rate::count;
use super::text::{ScalarError, written_as_text};

/// How much a policy admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum Limit {
    /// A number of units in a window of time.
    Rate(Quota),
    /// A number of units at the same time.
    Count(u64),
}

written_as_text!(
    Limit, form LIMIT,
    "A count per window of time, or a count without a time for requests in progress",
    "100/minute",
    "5/s",
    "1_000/15m",
    "20"
);

impl Limit {
    /// The number of units.
    pub(in crate::config) const fn units(self) -> u64 {
        match self {
            Self::Rate(quota) => quota.limit(),
            Self::Count(units) => units,
        }
    }

    /// The window of time. Zero for a count.
    pub(in crate::config) const fn window(self) -> Span {
        match self {
            Self::Rate(quota) => quota.window(),
            Self::Count(_) => Span::ZERO,
        }
    }
}

impl FromStr for Limit {
    type Err = ScalarError;

    /// A text that is neither gets the error of a rate, which is most likely intended.
    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let bare = count(text.trim()).map(Self::Count);
        bare.or_else(|_| text.parse().map(|Rate(quota)| Self::Rate(quota)))
    }
}

/// The limit of a policy or a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum Allowance {
    /// No limit.
    Unlimited,
    /// This limit.
    Limited(Limit),
}

written_as_text!(
    Allowance, form ALLOWANCE,
    "A count per window of time, a count without a time for requests in progress, or unlimited",
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
            return Err(ScalarError::new(format!("\"{text}\" is not a limit"), advice));
        }
        text.parse().map(Self::Limited)
    }
}

/// The limit of a single key: `unlimited`, a rate, or a count in the window of its policy.
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

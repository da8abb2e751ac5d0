//! Limits: a rate, or a count without a time.

use std::str::FromStr;

use tollgate_core::policy::spec::LimitSpec;
use tollgate_core::scalar::ScalarError;
use tollgate_core::store::overrides::Override;

use super::text::written_as_text;

/// How much a policy admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub LimitSpec);

written_as_text!(
    Limit, form LIMIT,
    "A count per window of time, or a count without a time for requests in progress",
    "100/minute",
    "5/s",
    "1_000/15m",
    "20"
);

impl FromStr for Limit {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(Self)
    }
}

/// The limit of a policy or a plan. None means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance(pub Option<LimitSpec>);

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
            return Ok(Self(None));
        }
        if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
            let advice = "write a count per time, like 1000/minute, or unlimited";
            return Err(ScalarError::new(format!("\"{text}\" is not a limit"), advice));
        }
        text.parse().map(|Limit(limit)| Self(Some(limit)))
    }
}

impl Allowance {
    /// The limit of a single key: a count is in the window of its policy.
    pub fn as_override(self) -> Override {
        match self.0 {
            None => Override::Unlimited,
            Some(LimitSpec::Count(units)) => Override::Limited { units, window: None },
            Some(LimitSpec::Rate(quota)) => {
                Override::Limited { units: quota.limit(), window: Some(quota.window()) }
            }
        }
    }
}

/// The limit of a single key: `unlimited`, a rate, or a count in the window of its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimit(pub Override);

impl FromStr for KeyLimit {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(|allowance: Allowance| Self(allowance.as_override()))
    }
}

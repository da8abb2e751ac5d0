//! Limits: a rate, or a count without a time.

use std::str::FromStr;

use tollgate_core::api_keys;
use tollgate_core::policy::Policy;
use tollgate_core::policy::spec::LimitSpec;
use tollgate_core::scalar::ScalarError;
use tollgate_core::store::overrides::Override;

use super::text::{read_as_text, written_as_text};

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
    "A count or an amount of money per window of time, a count without a time for requests in \
     progress, or unlimited",
    "1000/minute",
    "20",
    "500 usd/day",
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
        LimitSpec::with_money(text).map(|limit| Self(Some(limit)))
    }
}

/// The limit of a single key: `unlimited`, a rate, or a count or an amount of money in the window of
/// its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimit(pub api_keys::KeyLimit);

read_as_text!(KeyLimit);

impl FromStr for KeyLimit {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(|Allowance(limit)| Self(limit.into()))
    }
}

impl KeyLimit {
    /// The limit under this policy.
    ///
    /// # Errors
    /// If the policy counts money and the limit does not, or the other way round.
    pub fn under(self, policy: &Policy) -> Result<Override, ScalarError> {
        policy.in_units(self.0)
    }
}

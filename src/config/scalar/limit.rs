//! Limits: a rate, or a count without a time.

use std::str::FromStr;

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

impl Allowance {
    /// The limit of a single key: a count is in the window of its policy. None: it is money, which
    /// only its policy can count.
    pub fn as_override(self) -> Option<Override> {
        Some(match self.0 {
            None => Override::Unlimited,
            Some(LimitSpec::Count(units)) => Override::Limited { units, window: None },
            Some(LimitSpec::Rate(quota)) => {
                Override::Limited { units: quota.limit(), window: Some(quota.window()) }
            }
            Some(LimitSpec::Money(_)) => return None,
        })
    }
}

/// The limit of a single key: `unlimited`, a rate, or a count or an amount of money in the window of
/// its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimit(Allowance);

impl FromStr for KeyLimit {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(Self)
    }
}

impl KeyLimit {
    /// The limit under this policy.
    ///
    /// # Errors
    /// If the policy counts money and the limit does not, or the other way round.
    pub fn under(self, policy: &Policy) -> Result<Override, ScalarError> {
        let Self(Allowance(limit)) = self;
        let limit = limit.map(|limit| policy.limit_in_units(limit)).transpose()?;
        Allowance(limit).as_override().ok_or_else(of_no_policy)
    }

    /// The limit of a key that is created before its policies are known.
    ///
    /// # Errors
    /// If it is money.
    pub fn of_any_policy(self) -> Result<Override, ScalarError> {
        self.0.as_override().ok_or_else(of_no_policy)
    }
}

/// The limit of an API key under a policy, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitLimit(pub Override);

read_as_text!(UnitLimit);

impl FromStr for UnitLimit {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().and_then(KeyLimit::of_any_policy).map(Self)
    }
}

fn of_no_policy() -> ScalarError {
    let message = "the limits of an API key are numbers of units, and not money";
    ScalarError::new(message, "write a number of units: 1 usd is 1_000_000 with 6 digits")
}

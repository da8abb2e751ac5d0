//! The limit of an API key or a team under its policy: an amount of money becomes units.
//!
//! A limit that is not in the units of its policy says nothing about how much the key may use. Then
//! requests of the key are refused: the policy's own limit may be far above what was meant.

use thiserror::Error;

use super::spec::{LimitSpec, MoneyLimit};
use super::{OverrideLimit, Policy};
use crate::algorithm::QuotaError;
use crate::api_keys::{KeyLimit, Override};
use crate::scalar::ScalarError;

/// Why a policy cannot count the limit of an API key or a team.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnfitLimit {
    /// The limit is not in the units of the policy, or is an amount that cannot be counted. Requests
    /// of the key are refused.
    #[error(transparent)]
    Refused(#[from] ScalarError),
    /// The algorithm of the policy cannot count so many units in this window. The policy's own limit
    /// holds.
    #[error(transparent)]
    Ignored(#[from] QuotaError),
}

/// None: there is no limit.
impl From<Option<LimitSpec>> for KeyLimit {
    fn from(limit: Option<LimitSpec>) -> Self {
        Self::Units(match limit {
            None => Override::Unlimited,
            Some(LimitSpec::Count(units)) => Override::Limited { units, window: None },
            Some(LimitSpec::Rate(quota)) => {
                Override::Limited { units: quota.limit(), window: Some(quota.window()) }
            }
            Some(LimitSpec::Money(money)) => {
                let window = money.per.map(|quota| quota.window());
                return Self::Money { amount: money.amount, window };
            }
        })
    }
}

impl Policy {
    /// A limit of a single key in the units of this policy.
    ///
    /// # Errors
    /// If the policy counts units of another kind, or the amount cannot be counted.
    pub fn in_units(&self, limit: KeyLimit) -> Result<Override, ScalarError> {
        match (limit, self.cost.prices()) {
            (KeyLimit::Units(Override::Unlimited), _) => Ok(Override::Unlimited),
            (KeyLimit::Units(Override::Limited { window: None, .. }), _) if self.is_unlimited => {
                let message = format!("the policy \"{}\" has no limit, and so no time", self.name);
                Err(ScalarError::new(message, "write the time, too, like 500/minute"))
            }
            (KeyLimit::Units(units), None) => Ok(units),
            (KeyLimit::Money { amount, window }, Some(prices)) => {
                let units = MoneyLimit { amount, per: None }.units(prices.denomination)?;
                Ok(Override::Limited { units, window })
            }
            (KeyLimit::Money { .. }, None) => {
                let message = format!("the policy \"{}\" does not count money", self.name);
                Err(ScalarError::new(message, "write a number of units, like 500"))
            }
            (KeyLimit::Units(_), Some(prices)) => {
                let money = prices.denomination.currency;
                let message = format!("the policy \"{}\" counts money in {money}", self.name);
                Err(ScalarError::new(message, "write an amount and its currency, like 500 usd"))
            }
        }
    }

    /// The limit of an API key or a team under this policy. None: there is no limit.
    ///
    /// # Errors
    /// If this policy cannot count it.
    pub fn key_limit(&self, limit: KeyLimit) -> Result<Option<OverrideLimit>, UnfitLimit> {
        let Override::Limited { units, window } = self.in_units(limit)? else { return Ok(None) };
        self.override_limit(units, window).map(Some).map_err(|error| match limit {
            KeyLimit::Units(_) => UnfitLimit::Ignored(error),
            KeyLimit::Money { .. } => {
                let message = format!("the policy \"{}\" cannot count {limit}: {error}", self.name);
                UnfitLimit::Refused(ScalarError::new(message, "write another amount or window"))
            }
        })
    }
}

#[cfg(test)]
mod tests;

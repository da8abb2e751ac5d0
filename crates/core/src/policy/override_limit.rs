//! The limit of a single key instead of its policy's: the same algorithm with other
//! numbers.

use super::{Limit, Policy};
use crate::algorithm::{Algorithm, Quota, QuotaError};
use crate::digest::Counter;
use crate::time::Span;

/// Whose limit holds instead of the policy's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitOwner {
    /// The key of the counter, by an override.
    Override,
    /// The API key of the request.
    Key,
    /// The team of the API key.
    Team,
}

/// The limit that holds for one key instead of its policy's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideLimit {
    /// The limit that responses name.
    pub algorithm: Algorithm,
    /// The same counter with the soft limit, if there is one. It differs only in its
    /// [capacity](Algorithm::capacity), as that of the [policy](Policy::soft) does.
    pub soft: Option<Algorithm>,
    /// The identity of the counter: the policy's own, unless the window differs.
    pub counter: Counter,
    /// Whose limit it is.
    pub owner: LimitOwner,
}

impl OverrideLimit {
    /// The limit with its soft limit.
    pub const fn limit(&self) -> Limit<'_> {
        Limit { algorithm: &self.algorithm, soft: self.soft.as_ref() }
    }

    /// The limit that decides: the soft limit, if there is one.
    pub(crate) fn widest(&self) -> &Algorithm {
        self.limit().widest()
    }
}

impl Policy {
    /// This policy's limit for a key with an own limit of `units`, and an own window if
    /// `window` is given.
    ///
    /// # Errors
    /// If the policy's algorithm cannot count this limit.
    pub fn override_limit(
        &self,
        units: u64,
        window: Option<Span>,
    ) -> Result<OverrideLimit, QuotaError> {
        let own = &self.algorithm;
        let (algorithm, counter) = match window.filter(|window| *window != own.window()) {
            None => (own.with_limit(units)?, self.counter),
            Some(window) => {
                let algorithm = own.with_quota(Quota::new(units, window)?)?;
                let counter = self.identity(&algorithm);
                (algorithm, counter)
            }
        };
        let percent = self.overrides.map_or(0, |overrides| overrides.soft_percent);
        let capacity = algorithm.capacity();
        let beyond = capacity * u64::from(percent) / 100;
        let soft = (beyond > 0).then(|| algorithm.with_capacity(capacity + beyond)).transpose()?;
        let owner = LimitOwner::Override;
        Ok(OverrideLimit { algorithm, soft, counter, owner })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::testing::cases;
    use crate::algorithm::{FixedWindow, SlidingLog, SlidingWindow, TokenBucket};
    use crate::policy::{KeyExpr, Overridable};

    proptest! {
        #![proptest_config(cases())]

        /// A larger limit would be refilled faster.
        #[test]
        fn a_soft_limit_of_a_key_differs_only_in_its_capacity(
            own in 1..1000_u64,
            units in 1..1000_u64,
            percent in 1..=100_u8,
            window_s in prop::option::of(1..1000_u64),
        ) {
            let quota = Quota::new(own, Span::from_secs(60)).unwrap();
            for algorithm in [
                Algorithm::TokenBucket(TokenBucket::new(quota, 100).unwrap()),
                Algorithm::SlidingWindow(SlidingWindow::new(quota)),
                Algorithm::SlidingLog(SlidingLog::new(quota).unwrap()),
                Algorithm::FixedWindow(FixedWindow::new(quota)),
            ] {
                let overrides = Some(Overridable::new("each", percent));
                let policy = Policy { overrides, ..Policy::new("each", KeyExpr::Ip, algorithm) };
                let limit = policy.override_limit(units, window_s.map(Span::from_secs)).unwrap();
                let capacity = limit.algorithm.capacity();
                let beyond = capacity * u64::from(percent) / 100;
                let soft = limit.widest().capacity();
                prop_assert_eq!(soft, capacity + beyond);
                let without = limit.widest().with_capacity(capacity).unwrap();
                prop_assert_eq!(without, limit.algorithm);
            }
        }
    }
}

//! `retries` of a route: when a request is sent again.

use std::ops::RangeInclusive;

use super::Compiler;
use crate::config::raw::RawRetries;
use crate::proxy::RetrySettings;

/// More only makes a failing upstream fail longer.
const ATTEMPTS: RangeInclusive<u64> = 1..=10;

impl Compiler<'_> {
    pub(super) fn retries(&self, raw: &RawRetries) -> RetrySettings {
        let mut retries = RetrySettings::default();
        if let Some(attempts) = self.number(&raw.attempts, "attempts", ATTEMPTS) {
            retries.attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
        }
        self.not_empty(&raw.on, "this route sends nothing again", "leave \"retries\" out");
        if !raw.on.is_absent() {
            retries.on = raw.on.items().map(|on| on.value.0).collect();
        }
        self.not_empty(&raw.methods, "this route sends nothing again", "leave \"retries\" out");
        if !raw.methods.is_absent() {
            retries.methods = raw.methods.items().map(|method| method.value.0.clone()).collect();
        }
        let budget = raw.budget.value().map(|percent| percent.0);
        retries.budget_percent = budget.unwrap_or(retries.budget_percent);
        retries
    }
}

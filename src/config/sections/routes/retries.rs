//! `retries` of a route: when a request is sent again.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::field::{Field, List};
use crate::config::scalar::{MethodName, Percent, RetryOn};
use crate::config::sections::context::Context;
use crate::proxy::RetrySettings;

/// More attempts only prolong the failure of an upstream.
const ATTEMPTS: RangeInclusive<u64> = 1..=10;

/// When a request is sent again.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "retries", default)]
#[schemars(deny_unknown_fields)]
pub struct RawRetries {
    /// How many more times a request is sent at most, from 1 to 10.
    #[schemars(extend("default" = 2))]
    #[schemars(example = 1)]
    #[schemars(range(min = *ATTEMPTS.start(), max = *ATTEMPTS.end()))]
    attempts: Field<u64>,
    /// The failures after which a request is sent again.
    #[schemars(extend("x-default" = "all of them"))]
    #[schemars(example = ["connect", "503"])]
    on: List<RetryOn>,
    /// The methods of requests that are sent again.
    #[schemars(extend("x-default" = "GET, HEAD, PUT and DELETE"))]
    #[schemars(example = ["GET", "HEAD"])]
    methods: List<MethodName>,
    /// The most retries, as a share of the requests that may be sent again.
    #[schemars(extend("default" = "20%"))]
    #[schemars(example = &"10%")]
    budget: Field<Percent>,
}

impl RawRetries {
    pub fn compile(&self, cx: &Context<'_>) -> RetrySettings {
        let mut retries = RetrySettings::default();
        let attempts = cx.number(&self.attempts, "attempts", ATTEMPTS);
        retries.attempts = attempts.unwrap_or(retries.attempts);
        cx.not_empty(
            &self.on,
            "the list is empty, so no request is sent again",
            "leave \"retries\" out",
        );
        if !self.on.is_absent() {
            retries.on = self.on.items().map(|on| on.value.0).collect();
        }
        cx.not_empty(
            &self.methods,
            "the list is empty, so no request is sent again",
            "leave \"retries\" out",
        );
        if !self.methods.is_absent() {
            retries.methods = self.methods.items().map(|method| method.value.0.clone()).collect();
        }
        let budget = self.budget.value().map(|percent| percent.0);
        retries.budget_percent = budget.unwrap_or(retries.budget_percent);
        retries
    }
}

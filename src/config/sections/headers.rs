//! `headers`: the header fields that tell clients about their limits.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::decision::{Dialect, HeaderSettings};

use super::context::Context;
use crate::config::field::{Field, List};
use crate::config::words::{Word, words};

/// The header fields that tell clients about their limits.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "headers", default)]
#[schemars(deny_unknown_fields)]
pub struct RawHeaders {
    /// The families of header fields.
    #[schemars(extend("x-default" = "all"))]
    #[schemars(example = ["ietf", "retry_after"])]
    dialects: List<Word<Dialect>>,
    /// Whether scripts from other origins may read these fields.
    #[schemars(extend("default" = true))]
    expose_cors: Field<bool>,
}

words! {
    /// A family of header fields.
    Dialect as "dialect" {
        /// X-Ratelimit-Limit, -Remaining, -Reset and -Retry-After.
        "x_ratelimit" => Dialect::XRatelimit,
        /// RateLimit-Policy and RateLimit.
        "ietf" => Dialect::Ietf,
        /// Retry-After.
        "retry_after" => Dialect::RetryAfter,
    }
}

impl RawHeaders {
    pub fn compile(&self, cx: &Context<'_>) -> HeaderSettings {
        let mut headers = HeaderSettings::default();
        if self.dialects.given().is_some() {
            headers.dialects.clear();
        }
        for given in self.dialects.items() {
            let Word(dialect) = given.value;
            if headers.dialects.contains(&dialect) {
                let message = "the dialect appears a second time";
                cx.error(given.span, message, "remove one of them");
            }
            headers.dialects.push(dialect);
        }
        headers.expose_cors = self.expose_cors.copied().unwrap_or(headers.expose_cors);
        headers
    }
}

//! One rule of a list.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::{AccessEffect, AccessRule};

use super::conditions::RawConditions;
use crate::config::field::Field;
use crate::config::node::TextSpan;
use crate::config::sections::client::RawClient;
use crate::config::sections::context::Context;
use crate::config::sections::key::NeededParam;

/// A rule: either `allow` or `deny`, with the conditions that a request must meet.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "rule", default)]
#[schemars(rename = "access rule", deny_unknown_fields)]
pub struct RawRule {
    /// The list allows the requests that meet these conditions.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "ips": ["10.0.0.0/8"] }))]
    allow: Field<RawConditions>,
    /// The list denies the requests that meet these conditions.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "countries": ["DE"] }))]
    deny: Field<RawConditions>,
}

impl RawRule {
    pub fn compile(
        &self,
        span: TextSpan,
        client: &RawClient,
        cx: &Context<'_>,
    ) -> Option<AccessRule> {
        let (effect, conditions) = match (self.allow.is_absent(), self.deny.is_absent()) {
            (false, true) => (AccessEffect::Allow, &self.allow),
            (true, false) => (AccessEffect::Deny, &self.deny),
            _ => {
                let advice = "write - allow: { ... } or - deny: { ... }";
                cx.error(span, "a rule has one of \"allow\" and \"deny\"", advice);
                return None;
            }
        };
        Some(conditions.value()?.compile(effect, client, cx))
    }

    /// The conditions of a rule that allows.
    pub fn allowed(&self) -> Option<&RawConditions> {
        self.allow.value()
    }

    pub fn conditions(&self) -> impl Iterator<Item = &RawConditions> {
        self.allow.value().into_iter().chain(self.deny.value())
    }

    pub fn blocks(&self) -> usize {
        self.conditions().map(RawConditions::blocks).sum()
    }

    /// The path parameters that it compares.
    pub fn params(&self) -> Vec<NeededParam> {
        self.conditions().flat_map(RawConditions::params).collect()
    }
}

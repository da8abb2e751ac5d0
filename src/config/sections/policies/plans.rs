//! `plans` of a policy: other limits for some clients.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::spec::{self, PlanSpec, PlansSpec};

use crate::config::field::{Entries, Field, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::Allowance;
use crate::config::sections::context::Context;
use crate::config::sections::key::RawKey;

/// Other limits for some clients.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "plans", default)]
#[schemars(deny_unknown_fields, extend("required" = ["from", "limits"]))]
pub struct RawPlans {
    /// The key that contains the name of the plan of a request.
    #[schemars(example = &"jwt:plan")]
    from: Field<RawKey>,
    /// The limits by plan. A request with any other plan has the limit of the policy.
    #[schemars(example = serde_json::json!({ "pro": "1000/minute", "internal": "unlimited" }))]
    limits: Field<Entries<Allowance>>,
}

impl RawPlans {
    /// The plans, with errors for what cannot be read.
    pub fn spec(&self, cx: &Context<'_>) -> PlansSpec {
        let plan = |(name, limit): &(Spanned<String>, Field<Allowance>)| PlanSpec {
            name: name.value.clone(),
            limit: limit.written(|limit| limit.0),
        };
        PlansSpec {
            from: self.from.read(|from| from.value.compile(from.span, cx)),
            limits: self.limits.written(|Entries(plans)| plans.iter().map(plan).collect()),
        }
    }

    /// Where this field of plans is written.
    pub fn span_of(&self, field: &spec::Field) -> Option<TextSpan> {
        let plans = self.limits.entries();
        match field {
            spec::Field::PlansFrom(place) => self.from.given().map(|from| from.span_at(place)),
            spec::Field::PlanLimits => self.limits.span(),
            spec::Field::PlanName(index) => plans.get(*index).map(|(name, _)| name.span),
            spec::Field::PlanLimit(index) => plans.get(*index)?.1.span(),
            _ => None,
        }
    }

    /// The key that contains the name of the plan.
    pub fn source_key(&self) -> Option<&Spanned<RawKey>> {
        self.from.given()
    }
}

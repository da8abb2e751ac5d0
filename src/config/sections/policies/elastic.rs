//! `elastic` of a policy: more than the limit while the upstream has capacity.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::spec::{self, ElasticSpec, WhenSpec};

use crate::config::field::Field;
use crate::config::node::TextSpan;
use crate::config::scalar::{Limit, Percent, Period};

/// A higher limit, which applies while the upstream has capacity.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "elastic", default)]
#[schemars(deny_unknown_fields, extend("required" = ["limit", "when"]))]
pub struct RawElastic {
    /// The higher limit, in the same window of time as the limit of the policy.
    #[schemars(example = &"300/minute")]
    limit: Field<Limit>,
    /// The conditions for the higher limit. All that are given must hold. At least one is needed.
    when: Field<RawWhen>,
}

/// The conditions under which an upstream has capacity.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "when", default)]
#[schemars(deny_unknown_fields)]
struct RawWhen {
    /// The upstream responds faster than this.
    #[schemars(extend("x-default" = "no condition"))]
    #[schemars(example = &"200ms")]
    upstream_latency_below: Field<Period>,
    /// Fewer requests are in progress at the upstream than this share of its `max_in_flight`.
    #[schemars(extend("x-default" = "no condition"))]
    #[schemars(example = &"50%")]
    upstream_in_flight_below: Field<Percent>,
}

impl RawElastic {
    pub fn spec(&self) -> ElasticSpec {
        ElasticSpec {
            limit: self.limit.written(|limit| limit.0),
            when: self.when.written(|when| WhenSpec {
                latency_below: when.upstream_latency_below.written(Period::span),
                in_flight_below_percent: when.upstream_in_flight_below.written(|share| share.0),
            }),
        }
    }

    /// Where this field of an elastic limit is written.
    pub fn span_of(&self, field: &spec::Field) -> Option<TextSpan> {
        let when = self.when.value();
        match field {
            spec::Field::ElasticLimit => self.limit.span(),
            spec::Field::When => self.when.span(),
            spec::Field::LatencyBelow => when?.upstream_latency_below.span(),
            spec::Field::InFlightBelow => when?.upstream_in_flight_below.span(),
            _ => None,
        }
    }
}

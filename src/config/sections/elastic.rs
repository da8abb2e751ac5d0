//! `elastic` of a policy: more than the limit while the upstream has capacity.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::policy::Elastic;
use tollgate_core::time::Span;

use super::algorithm::{same_window, valid};
use super::context::Context;
use crate::config::field::Field;
use crate::config::node::TextSpan;
use crate::config::scalar::{Limit, Percent, Period};

/// No upstream answers in less than a millisecond. One that needs more than ten minutes is broken.
const LATENCY: RangeInclusive<Span> = Span::MILLISECOND..=Span::from_secs(600);

/// A higher limit, which applies while the upstream has capacity.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "elastic", default)]
#[schemars(deny_unknown_fields, extend("required" = ["limit", "when"]))]
pub(super) struct RawElastic {
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
    /// The section, which is written at `span`. `own` is the algorithm of the policy.
    pub(super) fn compile(
        &self,
        span: TextSpan,
        own: Option<&Algorithm>,
        cx: &Context<'_>,
    ) -> Option<Elastic> {
        let message = "the elastic limit has no \"limit\"";
        cx.required(&self.limit, span, message, "write the higher one, like limit: 300/minute");
        let advice = "like when: { upstream_latency_below: 200ms }";
        cx.required(&self.when, span, "the elastic limit has no \"when\"", advice);
        let beyond = own.and_then(|own| self.beyond(own, cx));
        let when = self.when.given()?;
        let RawWhen { upstream_latency_below, upstream_in_flight_below } = &when.value;
        if upstream_latency_below.is_absent() && upstream_in_flight_below.is_absent() {
            cx.error(when.span, "the elastic limit has no condition", advice);
        }
        Some(Elastic {
            beyond: beyond?,
            latency_below: cx.duration(upstream_latency_below, "upstream_latency_below", LATENCY),
            in_flight_below_percent: share(upstream_in_flight_below, cx),
        })
    }

    /// What is admitted beyond the limit of `own`.
    fn beyond(&self, own: &Algorithm, cx: &Context<'_>) -> Option<Algorithm> {
        let limit = self.limit.given()?;
        let names = ["the elastic limit", "the policy's own"];
        let units = same_window(limit.value, limit.span, own, names, cx)?;
        let beyond = units.checked_sub(own.limit()).filter(|beyond| *beyond > 0);
        if beyond.is_none() {
            let message = "the elastic limit is not above the policy's own";
            cx.error(limit.span, message, "write a higher one");
        }
        valid(own.with_limit(beyond?), limit.span, cx)
    }
}

fn share(raw: &Field<Percent>, cx: &Context<'_>) -> Option<u8> {
    let given = raw.given()?;
    if given.value == Percent(0) {
        let message = "fewer requests than 0% are never in progress";
        cx.error(given.span, message, "write a percentage above 0%, like 50%");
    }
    Some(given.value.0)
}

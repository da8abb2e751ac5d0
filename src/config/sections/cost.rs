//! `cost` and `count` of a policy: how much of the limit a request uses, and whether it is counted.

use std::num::NonZeroU64;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::algorithm::{Algorithm, MAX_LIMIT};
use tollgate_core::meter::MeterSpec;
use tollgate_core::policy::{Cost, Count, Left};

use super::client::RawClient;
use super::context::Context;
use crate::config::field::{Either, Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::{FieldName, PointerText, Size};
use crate::config::words::{Word, words};

/// A number of units, or the section with more fields.
pub(super) type CostForm = Either<u64, RawCost>;

/// How many units a request costs: exactly one of `header`, `body_bytes` and `reserve`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "cost", default)]
#[schemars(deny_unknown_fields)]
pub(super) struct RawCost {
    /// The request field that contains the cost. The gateway believes it only from trusted proxies.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"x-cost")]
    header: Field<FieldName>,
    /// With `header`: the cost of a request without the field.
    #[schemars(extend("default" = 1))]
    #[schemars(example = 2)]
    default: Field<u64>,
    /// With `header`: the highest cost that the field can give.
    #[schemars(extend("x-default" = "as many units as the policy admits at once"))]
    #[schemars(example = 100)]
    max: Field<u64>,
    /// The number of body bytes that cost one unit. A part of this number costs one unit too.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"1KiB")]
    body_bytes: Field<Size>,
    /// The units that a request costs at first. The response corrects them, see `settle`.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = 2000)]
    reserve: Field<u64>,
    /// With `reserve`: where the response says what the request cost.
    #[schemars(extend("x-default" = "none, but `reserve` needs it"))]
    settle: Field<RawSettle>,
}

/// Where a response says what its request cost: exactly one of these fields.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "settle", default)]
#[schemars(deny_unknown_fields)]
struct RawSettle {
    /// In this response field.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"x-tokens-used")]
    header: Field<FieldName>,
    /// At this place in its body, which is a JSON document.
    #[schemars(extend("x-default" = "none"))]
    json: Field<PointerText>,
    /// At this place in its body, which consists of server-sent events with JSON. The last event
    /// that has the place counts.
    #[schemars(extend("x-default" = "none"))]
    sse_json: Field<PointerText>,
    /// The number of body bytes that cost one unit. A part of this number costs one unit too.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"1KiB")]
    response_bytes: Field<Size>,
}

/// What a request costs. `own` is the algorithm of the policy.
pub(super) fn compile(
    raw: &Field<CostForm>,
    own: Option<&Algorithm>,
    client: &RawClient,
    cx: &Context<'_>,
) -> Option<Cost> {
    let given = raw.given()?;
    match &given.value {
        Either::Short(units) => {
            cx.within(*units, given.span, "cost", 1..=MAX_LIMIT).map(Cost::Fixed)
        }
        Either::Long(long) => long.compile(given.span, own, client, cx),
    }
}

impl RawCost {
    fn compile(
        &self,
        span: TextSpan,
        own: Option<&Algorithm>,
        client: &RawClient,
        cx: &Context<'_>,
    ) -> Option<Cost> {
        self.check_companions(cx);
        match (self.header.is_absent(), self.body_bytes.is_absent(), self.reserve.is_absent()) {
            (false, true, true) => self.by_header(own, client, cx),
            (true, false, true) => {
                unit(&self.body_bytes, cx).map(|unit_bytes| Cost::Body { unit_bytes })
            }
            (true, true, false) => self.reserved(span, cx),
            _ => {
                let message = "a cost is one of \"header\", \"body_bytes\" and \"reserve\"";
                cx.error(span, message, "write exactly one of them");
                None
            }
        }
    }

    /// Reports fields that belong to another kind of cost, because they have no effect.
    fn check_companions(&self, cx: &Context<'_>) {
        let lone = |is_needed: bool, span: Option<TextSpan>, field: &str, owner: &str| {
            if let Some(span) = span.filter(|_| !is_needed) {
                let message = format!("\"{field}\" belongs to a cost with \"{owner}\"");
                let advice = format!("leave it out, or write \"{owner}\" too");
                cx.error(span, &message, &advice);
            }
        };
        let has_header = !self.header.is_absent();
        lone(has_header, self.default.span(), "default", "header");
        lone(has_header, self.max.span(), "max", "header");
        lone(!self.reserve.is_absent(), self.settle.span(), "settle", "reserve");
    }

    fn by_header(
        &self,
        own: Option<&Algorithm>,
        client: &RawClient,
        cx: &Context<'_>,
    ) -> Option<Cost> {
        let name = self.header.given()?;
        if !client.has_trusted_proxies() {
            let message = "a cost is accepted from trusted proxies only, and there are none";
            let advice = "name your proxies in client.trusted_proxies, or write a fixed cost";
            cx.error(name.span, message, advice);
        }
        // With a default of 0, a request without the field would cost nothing.
        let default = cx.number(&self.default, "default", 1..=MAX_LIMIT).unwrap_or(1);
        let max = cx.number(&self.max, "max", 1..=MAX_LIMIT);
        if let (Some(max), Some(span)) = (max, self.max.span())
            && max < default
        {
            cx.error(span, "the highest cost is below the default", "write a higher one");
        }
        let max = max.unwrap_or_else(|| own.map_or(default, Algorithm::capacity).max(default));
        Some(Cost::Field { name: name.value.0.clone(), default, max })
    }

    fn reserved(&self, span: TextSpan, cx: &Context<'_>) -> Option<Cost> {
        // With nothing reserved, a request would be admitted however high the debt is.
        let reserve = cx.number(&self.reserve, "reserve", 1..=MAX_LIMIT);
        let advice = "like settle: { header: x-tokens-used }; a fixed cost is written cost: 4";
        let message = "the reserved cost is never settled, because there is no \"settle\"";
        cx.required(&self.settle, span, message, advice);
        let settle = self.settle.given()?;
        let meter = settle.value.compile(settle.span, cx);
        Some(Cost::Metered { reserve: reserve?, meter: meter? })
    }
}

impl RawSettle {
    fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<MeterSpec> {
        let Self { header, json, sse_json, response_bytes } = self;
        let sources = [
            header.is_absent(),
            json.is_absent(),
            sse_json.is_absent(),
            response_bytes.is_absent(),
        ];
        if sources.iter().filter(|absent| !**absent).count() != 1 {
            let message = "a cost is settled by one of \"header\", \"json\", \"sse_json\" and \
                           \"response_bytes\"";
            cx.error(span, message, "write exactly one of them");
            return None;
        }
        if !response_bytes.is_absent() {
            return unit(response_bytes, cx).map(|unit| MeterSpec::Bytes { unit });
        }
        let header = header.value().map(|name| MeterSpec::Header(name.0.clone()));
        let json = || json.value().map(|pointer| MeterSpec::Json(pointer.0.clone()));
        let sse_json = || sse_json.value().map(|pointer| MeterSpec::SseJson(pointer.0.clone()));
        header.or_else(json).or_else(sse_json)
    }
}

/// How many bytes cost one unit.
fn unit(raw: &Field<Size>, cx: &Context<'_>) -> Option<NonZeroU64> {
    let given = raw.given()?;
    let unit = NonZeroU64::new(given.value.0);
    if unit.is_none() {
        let message = "a unit cannot have 0 bytes";
        cx.error(given.span, message, "write a size, like 1KiB");
    }
    unit
}

/// Warns of a cost above the units that `admitting` admits at once. `whose` names `admitting`.
pub(super) fn warn_never_passes(
    raw: &Field<CostForm>,
    admitting: &Algorithm,
    whose: &str,
    cx: &Context<'_>,
) {
    if let Some(cost) = least_cost(raw).filter(|cost| cost.value > admitting.capacity()) {
        let message =
            format!("no request is ever admitted: one costs more than {whose} admits at once");
        cx.warning(cost.span, &message, "write a smaller cost, or a higher limit");
    }
}

/// The fewest units that every request takes at once, as far as the file says.
fn least_cost(raw: &Field<CostForm>) -> Option<Spanned<u64>> {
    let given = raw.given()?;
    match &given.value {
        Either::Short(units) => Some(given.with(*units)),
        Either::Long(long) => long.reserve.given().or_else(|| long.default.given()).cloned(),
    }
}

/// The field of a cost that is known only after the response, and where it is written.
pub(super) fn settled_field(raw: &Field<CostForm>) -> (&'static str, Option<TextSpan>) {
    let Some(Either::Long(cost)) = raw.value() else { return ("cost", None) };
    match (cost.settle.span(), cost.body_bytes.span()) {
        (Some(settle), _) => ("settle", Some(settle)),
        (None, Some(body)) => ("body_bytes", Some(body)),
        (None, None) => ("cost", None),
    }
}

/// `all`, or the section with more fields.
pub(super) type CountForm = Either<RawCountAll, RawCount>;

/// The word that stands for every outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "count", rename_all = "snake_case")]
#[schemars(rename = "count of all")]
pub(super) enum RawCountAll {
    /// Every outcome.
    All,
}

/// The outcomes that are counted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "count", default)]
#[schemars(deny_unknown_fields, extend("required" = ["status"]))]
pub(super) struct RawCount {
    /// Responses with one of these statuses. Requests with other responses get their cost back.
    #[schemars(example = [401, 403])]
    status: List<u64>,
    /// What happens to requests whose client has left before the response. A client that leaves
    /// early can still have the upstream do its work, such as to try a password.
    #[schemars(extend("default" = "count"))]
    #[schemars(example = &"ignore")]
    left: Field<Word<Left>>,
}

words! {
    /// What happens to requests whose client has left before the response.
    Left as "left" {
        /// They are counted.
        "count" => Left::Counted,
        /// They get their cost back.
        "ignore" => Left::Ignored,
    }
}

/// Which outcomes are counted.
pub(super) fn compile_count(raw: &Field<CountForm>, cx: &Context<'_>) -> Count {
    let Some(given) = raw.given() else { return Count::All };
    let Either::Long(RawCount { status, left }) = &given.value else { return Count::All };
    let advice = "like status: [401, 403]";
    cx.required(status, given.span, "there is no \"status\" to count", advice);
    cx.not_empty(status, "no outcome is counted", advice);
    let statuses = status.items().filter_map(|status| {
        let code = cx.within(status.value, status.span, "status", 200..=599)?;
        StatusCode::from_u16(u16::try_from(code).ok()?).ok()
    });
    let left = left.word().unwrap_or_default();
    Count::Statuses { statuses: statuses.collect(), left }
}

/// Where the field is written, if it counts only some outcomes.
pub(super) fn by_status(raw: &Field<CountForm>) -> Option<TextSpan> {
    raw.given().filter(|given| matches!(given.value, Either::Long(_))).map(|given| given.span)
}

//! `cost` and `count` of a policy: how much of the limit a request uses, and whether it is counted.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::algorithm::MAX_LIMIT;
use tollgate_core::policy::Left;
use tollgate_core::policy::spec::{self, CostSpec, CountSpec, Written};

use crate::config::field::{Either, Field, List};
use crate::config::node::TextSpan;
use crate::config::scalar::{FieldName, Size};
use crate::config::sections::context::Context;
use crate::config::sections::policies::reserve::{self, ReserveForm};
use crate::config::sections::policies::settle::RawSettle;
use crate::config::words::{Word, words};

/// A number of units, or the section with more fields.
pub type CostForm = Either<u64, RawCost>;

/// How many units a request costs: exactly one of `header`, `body_bytes`, `messages` and `reserve`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "cost", default)]
#[schemars(deny_unknown_fields)]
pub struct RawCost {
    /// The request field that contains the cost. The gateway believes it only from trusted proxies.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"x-cost")]
    header: Field<FieldName>,
    /// With `header`: the cost of a request without the field.
    #[schemars(extend("default" = 1))]
    #[schemars(example = 2)]
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    default: Field<u64>,
    /// With `header`: the highest cost that the field can give.
    #[schemars(extend("x-default" = "as many units as the limit of the client admits at once"))]
    #[schemars(example = 100)]
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    max: Field<u64>,
    /// The number of body bytes that cost one unit. A part of this number costs one unit too.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"1KiB")]
    body_bytes: Field<Size>,
    /// One unit for each message of JSON-RPC in the body that has a `method` and an `id`, also in a
    /// batch, whatever the content type of the body is. Other messages and requests without a body
    /// cost nothing. A call of gRPC costs one unit, and a body of another content type than JSON at
    /// least one. A body that is not JSON gets 400 if its content type is one of JSON, or if it begins
    /// with `[` or `{`.
    #[schemars(extend("default" = false))]
    #[schemars(example = true)]
    messages: Field<bool>,
    /// The units that a request costs at first. The response corrects them, see `settle`.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = 2000)]
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    reserve: Field<ReserveForm>,
    /// With `reserve`: where the response says what the request cost.
    #[schemars(extend("x-default" = "none, but `reserve` needs it"))]
    settle: Field<RawSettle>,
}

/// What a request costs, with errors for fields that do not go together.
pub fn spec(raw: &Field<CostForm>, cx: &Context<'_>) -> Written<CostSpec> {
    raw.read(|given| match &given.value {
        Either::Short(units) => Some(CostSpec::Fixed(*units)),
        Either::Long(long) => long.spec(given.span, cx),
    })
}

/// Where this field of a cost is written.
pub fn span_of(raw: &Field<CostForm>, field: &spec::Field) -> Option<TextSpan> {
    let Either::Long(cost) = raw.value()? else { return None };
    match field {
        spec::Field::CostHeader => cost.header.span(),
        spec::Field::CostDefault => cost.default.span(),
        spec::Field::CostMax => cost.max.span(),
        spec::Field::BodyBytes => cost.body_bytes.span(),
        spec::Field::Reserve => cost.reserve.span(),
        spec::Field::Settle => cost.settle.span(),
        spec::Field::ResponseBytes => cost.settle.value()?.response_bytes_span(),
        spec::Field::Unsettled => cost.settle.value()?.unsettled_span(),
        other => reserve::span_of(&cost.reserve, other),
    }
}

impl RawCost {
    fn spec(&self, span: TextSpan, cx: &Context<'_>) -> Option<CostSpec> {
        self.check_companions(cx);
        let by_messages = !self.messages.is_absent() && self.messages.copied() != Some(false);
        let kinds = [
            !self.header.is_absent(),
            !self.body_bytes.is_absent(),
            by_messages,
            !self.reserve.is_absent(),
        ];
        match kinds {
            [true, false, false, false] => Some(CostSpec::Header {
                name: self.header.value()?.0.clone(),
                default: self.default.written(|units| *units),
                max: self.max.written(|units| *units),
            }),
            [false, true, false, false] => {
                self.body_bytes.value().map(|Size(bytes)| CostSpec::Body(*bytes))
            }
            [false, false, true, false] => Some(CostSpec::Calls),
            [false, false, false, true] => Some(CostSpec::Reserve {
                units: reserve::spec(&self.reserve),
                settle: self.settle.read(|settle| settle.value.spec(settle.span, cx)),
                asks_usage: self.settle.value().is_some_and(RawSettle::asks_usage),
            }),
            _ => {
                let message =
                    "a cost is one of \"header\", \"body_bytes\", \"messages\" and \"reserve\"";
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
}

/// `all`, or the section with more fields.
pub type CountForm = Either<RawCountAll, RawCount>;

/// The word for all outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "count", rename_all = "snake_case")]
#[schemars(rename = "count of all")]
pub enum RawCountAll {
    /// Every outcome.
    All,
}

/// The outcomes that are counted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "count", default)]
#[schemars(deny_unknown_fields, extend("required" = ["status"]))]
pub struct RawCount {
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
pub fn count_spec(raw: &CountForm) -> CountSpec {
    let Either::Long(RawCount { status, left }) = raw else { return CountSpec::All };
    let codes = |codes: &Vec<Field<u64>>| codes.iter().map(|code| code.written(|it| *it)).collect();
    CountSpec::Statuses { statuses: status.written(codes), left: left.word().unwrap_or_default() }
}

/// Where this field of `count` is written.
pub fn span_of_count(raw: &Field<CountForm>, field: &spec::Field) -> Option<TextSpan> {
    let Either::Long(count) = raw.value()? else { return None };
    match field {
        spec::Field::Statuses => count.status.span(),
        spec::Field::Status(index) => count.status.value()?.get(*index)?.span(),
        _ => None,
    }
}

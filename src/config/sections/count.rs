//! `count` of a policy: which outcomes it counts.

use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::context::Context;
use crate::config::field::{Either, Field, List};
use crate::config::node::TextSpan;
use crate::policy::Count;

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
    /// Responses with one of these statuses. Other requests get their cost back.
    #[schemars(example = [401, 403])]
    status: List<u64>,
}

/// Which outcomes are counted.
pub(super) fn compile(raw: &Field<CountForm>, cx: &Context<'_>) -> Count {
    let Some(given) = raw.given() else { return Count::All };
    let Either::Long(RawCount { status }) = &given.value else { return Count::All };
    let advice = "like status: [401, 403]";
    cx.required(status, given.span, "there is no \"status\" to count", advice);
    cx.not_empty(status, "no outcome is counted", advice);
    let statuses = status.items().filter_map(|status| {
        let code = cx.within(status.value, status.span, "status", 200..=599)?;
        StatusCode::from_u16(u16::try_from(code).ok()?).ok()
    });
    Count::Statuses(statuses.collect())
}

/// Where the field is written, if it counts only some outcomes.
pub(super) fn by_status(raw: &Field<CountForm>) -> Option<TextSpan> {
    raw.given().filter(|given| matches!(given.value, Either::Long(_))).map(|given| given.span)
}

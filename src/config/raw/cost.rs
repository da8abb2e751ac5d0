//! How much of a limit a request takes, and when, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::List;
use crate::config::field::Field;
use crate::config::scalar::{FieldName, PointerText, Size};

/// How many units a request costs: one of `header`, `body_bytes` and `reserve`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "cost")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawCost {
    /// As many as this field of the request says, believed from trusted proxies only.
    #[serde(default)]
    pub(in crate::config) header: Field<FieldName>,
    /// header: the cost without the field. Default: 1.
    #[serde(default)]
    pub(in crate::config) default: Field<u64>,
    /// header: the most that the field can say. Default: all that the policy admits at once.
    #[serde(default)]
    pub(in crate::config) max: Field<u64>,
    /// One for each started unit of so many bytes of the request's body.
    #[serde(default)]
    pub(in crate::config) body_bytes: Field<Size>,
    /// So many at first; how many it were is settled by the response.
    #[serde(default)]
    pub(in crate::config) reserve: Field<u64>,
    /// reserve: where the response says what it cost.
    #[serde(default)]
    pub(in crate::config) settle: Field<RawSettle>,
}

/// Where a response says what it cost: one of these.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "settle")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawSettle {
    /// In this field.
    #[serde(default)]
    pub(in crate::config) header: Field<FieldName>,
    /// In its body, a JSON document.
    #[serde(default)]
    pub(in crate::config) json: Field<PointerText>,
    /// In its body, server-sent events: in the last one that has it.
    #[serde(default)]
    pub(in crate::config) sse_json: Field<PointerText>,
    /// One for each started unit of so many bytes of its body.
    #[serde(default)]
    pub(in crate::config) response_bytes: Field<Size>,
}

/// `all`, where the long form would say more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "count", rename_all = "snake_case")]
#[schemars(rename = "count of all")]
pub(in crate::config) enum RawCountAll {
    /// Every outcome.
    All,
}

/// Which outcomes are counted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "count")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawCount {
    /// Responses with one of these statuses; other requests get their cost back.
    pub(in crate::config) status: List<u64>,
}

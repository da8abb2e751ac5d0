//! `routes`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::List;
use crate::config::field::{Entries, Field};
use crate::config::scalar::{
    FieldValue, HostText, MethodName, PathText, Percent, Period, RetryOn, Size,
};

/// Which requests, judged by which policies, go where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "route")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawRoute {
    /// Its name in logs and keys. Default: its number.
    #[serde(default)]
    pub(in crate::config) name: Field<String>,
    /// Any of these hosts. Default: every host.
    #[serde(default)]
    pub(in crate::config) hosts: List<HostText>,
    /// The path.
    pub(in crate::config) path: Field<PathText>,
    /// Any of these methods. Default: every method.
    #[serde(default)]
    pub(in crate::config) methods: List<MethodName>,
    /// All of these header fields, with exactly this value.
    #[serde(default)]
    pub(in crate::config) headers: Field<Entries<FieldValue>>,
    /// All must admit; a refused request consumes none of them.
    #[serde(default)]
    pub(in crate::config) policies: List<String>,
    /// The upstream that admitted requests go to.
    #[serde(default)]
    pub(in crate::config) upstream: Field<String>,
    /// Or an answer given here.
    #[serde(default)]
    pub(in crate::config) respond: Field<RawRespond>,
    /// How long the upstream may take.
    #[serde(default)]
    pub(in crate::config) timeouts: Field<RawRouteTimeouts>,
    /// When a request is sent again that got no answer. Default: never.
    #[serde(default)]
    pub(in crate::config) retries: Field<RawRetries>,
    /// The largest request body. Default: no bound.
    #[serde(default)]
    pub(in crate::config) max_body: Field<Size>,
    /// false: the policies under `defaults` do not judge this route.
    #[serde(default)]
    pub(in crate::config) defaults: Field<bool>,
}

/// A fixed answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "respond")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawRespond {
    /// 200 to 599. Default: 200.
    #[serde(default)]
    pub(in crate::config) status: Field<u64>,
    /// Default: text/plain.
    #[serde(default)]
    pub(in crate::config) content_type: Field<FieldValue>,
    /// Default: empty.
    #[serde(default)]
    pub(in crate::config) body: Field<String>,
}

/// When a request is sent again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "retries")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawRetries {
    /// How many more times, at most. Default: 2.
    #[serde(default)]
    pub(in crate::config) attempts: Field<u64>,
    /// After which failures. Default: all of them.
    #[serde(default)]
    pub(in crate::config) on: List<RetryOn>,
    /// Requests of which methods. Default: GET, HEAD, PUT and DELETE.
    #[serde(default)]
    pub(in crate::config) methods: List<MethodName>,
    /// Retries as a share of the requests that may be repeated. Default: 20%.
    #[serde(default)]
    pub(in crate::config) budget: Field<Percent>,
}

/// How long the upstream may take.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "route timeouts")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawRouteTimeouts {
    /// Until the head of the response. Default: 30s.
    #[serde(default)]
    pub(in crate::config) response: Field<Period>,
    /// Between two pieces of the response. Default: 60s.
    #[serde(default)]
    pub(in crate::config) idle: Field<Period>,
}

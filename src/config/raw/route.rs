//! `routes`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::List;
use crate::config::field::{Entries, Field};
use crate::config::scalar::{
    FieldName, FieldValue, HostAndPort, HostText, LocationText, MethodName, PathText, Percent,
    Period, PrefixText, RetryOn, Size,
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
    /// How paths are compared with it.
    #[serde(default)]
    pub(in crate::config) path_match: Field<RawPathMatch>,
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
    /// Or a redirect.
    #[serde(default)]
    pub(in crate::config) redirect: Field<RawRedirect>,
    /// Another target at the upstream than the client's.
    #[serde(default)]
    pub(in crate::config) rewrite: Field<RawRewrite>,
    /// Fields of the request, as the upstream gets it.
    #[serde(default)]
    pub(in crate::config) request_headers: Field<RawFieldEdits>,
    /// Fields of the response. The gateway's own answers gain what they do not have.
    #[serde(default)]
    pub(in crate::config) response_headers: Field<RawFieldEdits>,
    /// How long one request may take.
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

/// How paths are compared with the path of a route.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "path_match")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawPathMatch {
    /// Whether /Login is /login. Default: ignore.
    #[serde(default)]
    pub(in crate::config) case: Field<RawComparison>,
    /// Whether /login/ is /login. Default: ignore.
    #[serde(default)]
    pub(in crate::config) trailing_slash: Field<RawComparison>,
    /// Whether /login;x is /login. Default: ignore.
    #[serde(default)]
    pub(in crate::config) parameters: Field<RawComparison>,
    /// Whether /a%2Fb may be /a/b, so that a request is refused which that would lead to another
    /// route or key. Default: ignore.
    #[serde(default)]
    pub(in crate::config) escaped_slash: Field<RawComparison>,
}

/// Whether a difference between two paths counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "comparison", rename_all = "snake_case")]
pub(in crate::config) enum RawComparison {
    /// The paths are the same: safe in front of any backend.
    Ignore,
    /// The paths are different: for backends that tell them apart.
    Exact,
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

/// Where a client is sent instead.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "redirect")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawRedirect {
    /// A path, or an address. Filled in are {host}, {path}, {query} (with its ?) and
    /// parameters of the route's path.
    pub(in crate::config) to: Field<LocationText>,
    /// 301, 302, 303, 307 or 308. Default: 308.
    #[serde(default)]
    pub(in crate::config) status: Field<u64>,
}

/// Another target at the upstream than the client's. The query stays.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "rewrite")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawRewrite {
    /// Taken from the start of the path, and told in X-Forwarded-Prefix.
    #[serde(default)]
    pub(in crate::config) strip_prefix: Field<PrefixText>,
    /// Put before the path.
    #[serde(default)]
    pub(in crate::config) add_prefix: Field<PrefixText>,
    /// What Host says. Default: what the client asked for.
    #[serde(default)]
    pub(in crate::config) host: Field<HostAndPort>,
}

/// Header fields that are set and removed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "header edits")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawFieldEdits {
    /// Fields with their values, whatever they were before.
    #[serde(default)]
    pub(in crate::config) set: Field<Entries<FieldValue>>,
    /// Fields that are not passed on.
    #[serde(default)]
    pub(in crate::config) remove: List<FieldName>,
}

/// How long one request may take.
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
    /// From the request to the end of the response. Default: no bound.
    #[serde(default)]
    pub(in crate::config) request: Field<Period>,
}

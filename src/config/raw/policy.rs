//! `policies`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::List;
use crate::config::field::{Either, Entries, Field};
use crate::config::scalar::{Cidr, FieldValue, KeyWord, MethodName, Rate};

/// One limit: on whom, how much, and what then.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "policy")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawPolicy {
    /// On whom: what one counter belongs to.
    pub(in crate::config) key: Field<RawKey>,
    /// How much.
    pub(in crate::config) limit: Field<Rate>,
    /// How it is counted. Default: sliding_window.
    #[serde(default)]
    pub(in crate::config) algorithm: Field<RawAlgorithm>,
    /// sliding_window: sub-windows, 1 to 100; more are more exact. Default: 1.
    #[serde(default)]
    pub(in crate::config) buckets: Field<u64>,
    /// token_bucket: how many at once. Default: the count of the limit.
    #[serde(default)]
    pub(in crate::config) burst: Field<u64>,
    /// What to do with a request that has no such key. Default: ip.
    #[serde(default)]
    pub(in crate::config) missing_key: Field<RawMissingKey>,
    /// Requests that the policy leaves alone.
    #[serde(default)]
    pub(in crate::config) exempt: Field<RawExempt>,
    /// What a refused client is sent instead of the default answer.
    #[serde(default)]
    pub(in crate::config) response: Field<RawResponse>,
}

/// What one counter belongs to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "key")]
pub(in crate::config) struct RawKey(pub(in crate::config) Either<KeyWord, RawKeyList>);

/// Several keys: one of the two.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "key")]
#[schemars(rename = "keys", deny_unknown_fields)]
pub(in crate::config) struct RawKeyList {
    /// The first of these that the request has.
    #[serde(default)]
    pub(in crate::config) first: List<RawKey>,
    /// All of these together.
    #[serde(default)]
    pub(in crate::config) all: List<RawKey>,
}

/// How requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "algorithm", rename_all = "snake_case")]
pub(in crate::config) enum RawAlgorithm {
    /// Two counters, the older one fading.
    SlidingWindow,
    /// One counter that starts again at the edge of every window.
    FixedWindow,
    /// A bucket that refills steadily.
    TokenBucket,
}

/// What to do with a request that lacks the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "missing_key", rename_all = "snake_case")]
pub(in crate::config) enum RawMissingKey {
    /// The client's address stands in.
    Ip,
    /// The policy does not judge the request.
    Skip,
    /// The request is refused.
    Deny,
}

/// Requests that a policy leaves alone; any one condition suffices.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "exempt")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawExempt {
    /// Clients by address.
    #[serde(default)]
    pub(in crate::config) ips: List<Cidr>,
    /// Methods.
    #[serde(default)]
    pub(in crate::config) methods: List<MethodName>,
    /// Header fields with exactly this value.
    #[serde(default)]
    pub(in crate::config) headers: Field<Entries<FieldValue>>,
}

/// What a refused client is sent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "response")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawResponse {
    /// 400 to 599. Default: 429.
    #[serde(default)]
    pub(in crate::config) status: Field<u64>,
    /// Default: text/plain.
    #[serde(default)]
    pub(in crate::config) content_type: Field<FieldValue>,
    /// The body; `{retry_after}`, `{limit}`, `{remaining}` and `{policy}` are filled in.
    #[serde(default)]
    pub(in crate::config) body: Field<String>,
}

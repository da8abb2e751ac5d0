//! `policies`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{List, RawCost, RawCount, RawCountAll, RawOnFailure, RawStoreMode};
use crate::config::field::{Either, Entries, Field};
use crate::config::scalar::{
    Allowance, Cidr, FieldValue, KeyWord, Limit, MethodName, Percent, Period, PlaceCode, Rate,
};

/// One limit: on whom, how much, and what then.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "policy")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawPolicy {
    /// On whom: what one counter belongs to.
    pub(in crate::config) key: Field<RawKey>,
    /// How much, or `unlimited`.
    pub(in crate::config) limit: Field<Allowance>,
    /// How it is counted. Default: sliding_window.
    #[serde(default)]
    pub(in crate::config) algorithm: Field<RawAlgorithm>,
    /// sliding_window: sub-windows, 1 to 100; more are more exact. Default: 1.
    #[serde(default)]
    pub(in crate::config) buckets: Field<u64>,
    /// token_bucket: how many at once. Default: the count of the limit.
    /// leaky_bucket: how many may be held. Default: as many as `max_delay` allows.
    #[serde(default)]
    pub(in crate::config) burst: Field<u64>,
    /// leaky_bucket: how long a request may be held before it is refused instead.
    #[serde(default)]
    pub(in crate::config) max_delay: Field<Period>,
    /// fixed_window: the time zone by whose clocks an hour, a day or a week begins.
    #[serde(default)]
    pub(in crate::config) calendar: Field<String>,
    /// How many units a request costs. Default: 1.
    #[serde(default)]
    pub(in crate::config) cost: Field<Either<u64, RawCost>>,
    /// Which outcomes are counted. Default: all.
    #[serde(default)]
    pub(in crate::config) count: Field<Either<RawCountAll, RawCount>>,
    /// Whether it refuses. Default: enforce.
    #[serde(default)]
    pub(in crate::config) mode: Field<RawMode>,
    /// How exact its counters are on several nodes. Default: the store's `mode`.
    #[serde(default)]
    pub(in crate::config) store_mode: Field<RawStoreMode>,
    /// What becomes of its requests while the store is away. Default: local.
    #[serde(default)]
    pub(in crate::config) on_store_failure: Field<RawOnFailure>,
    /// How much is admitted beyond the limit, with a mark. Default: 0%.
    #[serde(default)]
    pub(in crate::config) soft: Field<Percent>,
    /// What to do with a request that has no such key. Default: ip.
    #[serde(default)]
    pub(in crate::config) missing_key: Field<RawMissingKey>,
    /// Requests that the policy leaves alone.
    #[serde(default)]
    pub(in crate::config) exempt: Field<RawExempt>,
    /// Whether CORS preflights are left out of its count. They are counted by address then,
    /// under ten times the limit. Default: true.
    #[serde(default)]
    pub(in crate::config) exempt_preflights: Field<bool>,
    /// Other limits for some clients.
    #[serde(default)]
    pub(in crate::config) plans: Field<RawPlans>,
    /// What happens to those who are refused too often.
    #[serde(default)]
    pub(in crate::config) penalty: Field<RawPenalty>,
    /// What is admitted beyond the limit while the upstream has room.
    #[serde(default)]
    pub(in crate::config) elastic: Field<RawElastic>,
    /// Whether single keys may have a limit of their own, set by `tollgate override`. Default: false.
    #[serde(default)]
    pub(in crate::config) overrides: Field<bool>,
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
    /// Every request of the last window, one by one.
    SlidingLog,
    /// One counter that starts again at the edge of every window.
    FixedWindow,
    /// A bucket that refills steadily.
    TokenBucket,
    /// A queue that lets requests go at even distances.
    LeakyBucket,
    /// What is in flight at the same time.
    Concurrency,
}

/// Whether a policy refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "mode", rename_all = "snake_case")]
pub(in crate::config) enum RawMode {
    /// It does.
    Enforce,
    /// It counts and reports, and refuses nobody.
    Shadow,
    /// It is checked with the file, and judges no request.
    Off,
}

/// What to do with a request that lacks the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "missing_key", rename_all = "snake_case")]
pub(in crate::config) enum RawMissingKey {
    /// The client's address stands in.
    Ip,
    /// The policy does not judge the request.
    Skip,
    /// The request is refused, with 403.
    Deny,
    /// The request is refused, with 401: the client is asked for a bearer token.
    Unauthorized,
}

/// Requests that a policy leaves alone; any one condition suffices.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "exempt")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawExempt {
    /// Clients by address.
    #[serde(default)]
    pub(in crate::config) ips: List<Cidr>,
    /// Clients in these countries, such as DE (ISO 3166-1).
    #[serde(default)]
    pub(in crate::config) countries: List<PlaceCode>,
    /// Clients in these regions, such as DE-BE (ISO 3166-2).
    #[serde(default)]
    pub(in crate::config) regions: List<PlaceCode>,
    /// Clients in these networks (autonomous systems), such as AS64500.
    #[serde(default)]
    pub(in crate::config) asns: List<PlaceCode>,
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

/// Other limits for some clients.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "plans")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawPlans {
    /// What names the plan of a request.
    pub(in crate::config) from: Field<RawKey>,
    /// The limits by plan. For any other name the policy's own limit holds.
    pub(in crate::config) limits: Field<Entries<Allowance>>,
}

/// What happens to those who are refused too often.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "penalty")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawPenalty {
    /// How many refusals are borne.
    pub(in crate::config) after: Field<Rate>,
    /// How long the first ban lasts; each further one twice as long.
    pub(in crate::config) ban: Field<Period>,
    /// The longest ban. Default: 1d, or the first ban if that is longer.
    #[serde(default)]
    pub(in crate::config) max_ban: Field<Period>,
}

/// What is admitted beyond the limit while the upstream has room.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "elastic")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawElastic {
    /// The higher limit, in the same window of time.
    pub(in crate::config) limit: Field<Limit>,
    /// When there is room: all of these, and at least one.
    pub(in crate::config) when: Field<RawRoom>,
}

/// When an upstream has room.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "when")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawRoom {
    /// While it answers faster than this.
    #[serde(default)]
    pub(in crate::config) upstream_latency_below: Field<Period>,
    /// While less than this share of its `max_in_flight` is in flight.
    #[serde(default)]
    pub(in crate::config) upstream_in_flight_below: Field<Percent>,
}

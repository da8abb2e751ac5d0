//! What was written: types that mirror the file, field by field.
//!
//! They say how each field is written, nothing about what holds together; that
//! is the compiler's part. The comments on the fields are what editors show,
//! by way of the JSON Schema that is made from these types. Names in `rename`
//! are those of sections in messages.

mod client;
mod cost;
mod listener;
mod policy;
mod process;
mod route;
mod store;
mod upstream;

use schemars::JsonSchema;
use serde::Deserialize;

pub(super) use client::{
    RawApiKey, RawClient, RawJwks, RawJwksForm, RawJwt, RawJwtAlgorithm, RawUser,
};
pub(super) use cost::{RawCost, RawCount, RawCountAll, RawSettle};
pub(super) use listener::{
    RawCertificate, RawHttp2, RawListener, RawListenerTimeouts, RawListenerTls, RawTlsVersion,
};
pub(super) use policy::{
    RawAlgorithm, RawElastic, RawExempt, RawKey, RawKeyList, RawMissingKey, RawMode, RawPenalty,
    RawPlans, RawPolicy, RawResponse, RawRoom,
};
pub(super) use process::{
    RawAccessLog, RawDialect, RawFormat, RawHeaders, RawRuntime, RawTelemetry,
};
pub(super) use route::{
    RawComparison, RawFieldEdits, RawPathMatch, RawRedirect, RawRespond, RawRetries, RawRewrite,
    RawRoute,
};
pub(super) use store::{
    RawLease, RawOnFailure, RawOverrides, RawReadFrom, RawRedis, RawRedisTls, RawStore,
    RawStoreMode,
};
pub(super) use upstream::{
    RawBalance, RawEject, RawEndpoint, RawHealth, RawUpstream, RawUpstreamTls,
};

use super::field::{Either, Entries, Field};

/// A list whose items may each be wrong on their own.
pub(super) type List<T> = Field<Vec<Field<T>>>;

/// A single value, or a list of them.
pub(super) type OneOrMore<T> = Field<Either<T, Vec<Field<T>>>>;

/// The configuration of the gateway.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "configuration")]
#[schemars(deny_unknown_fields)]
pub(super) struct RawConfig {
    /// Where to listen. At least one.
    pub(super) listeners: List<RawListener>,
    /// Who is asking.
    #[serde(default)]
    pub(super) client: Field<RawClient>,
    /// Where the counters live.
    #[serde(default)]
    pub(super) store: Field<RawStore>,
    /// Limits by name: on whom, how much, and what then.
    #[serde(default)]
    pub(super) policies: Field<Entries<RawPolicy>>,
    /// What holds for every route.
    #[serde(default)]
    pub(super) defaults: Field<RawDefaults>,
    /// Which requests go where. The first match wins. At least one.
    pub(super) routes: List<RawRoute>,
    /// Groups of endpoints by name.
    #[serde(default)]
    pub(super) upstreams: Field<Entries<RawUpstream>>,
    /// What clients are told about their limits.
    #[serde(default)]
    pub(super) headers: Field<RawHeaders>,
    /// Whether the gateway's own errors are problem+json (RFC 9457). Default: true.
    #[serde(default)]
    pub(super) problem_json: Field<bool>,
    /// Logs.
    #[serde(default)]
    pub(super) telemetry: Field<RawTelemetry>,
    /// The process.
    #[serde(default)]
    pub(super) runtime: Field<RawRuntime>,
}

/// What holds for every route that does not say `defaults: false`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "defaults")]
#[schemars(deny_unknown_fields)]
pub(super) struct RawDefaults {
    /// Policies that judge every request, besides the route's own.
    #[serde(default)]
    pub(super) policies: List<String>,
}

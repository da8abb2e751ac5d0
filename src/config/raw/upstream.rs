//! `upstreams`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::List;
use crate::config::field::{Either, Field};
use crate::config::scalar::{Endpoint, Period};

/// A group of endpoints that serve the same thing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "upstream")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawUpstream {
    /// At least one.
    pub(in crate::config) endpoints: List<Either<Endpoint, RawEndpoint>>,
    /// How one of them is chosen. Default: least_requests.
    #[serde(default)]
    pub(in crate::config) balance: Field<RawBalance>,
    /// Time limits.
    #[serde(default)]
    pub(in crate::config) timeouts: Field<RawUpstreamTimeouts>,
    /// Connections that wait for the next request.
    #[serde(default)]
    pub(in crate::config) keep_alive: Field<RawKeepAlive>,
    /// Requests in flight at once; beyond it 503. Default: no bound.
    #[serde(default)]
    pub(in crate::config) max_in_flight: Field<u64>,
}

/// An endpoint with its share of the traffic.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "endpoint")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawEndpoint {
    /// Where it is.
    pub(in crate::config) url: Field<Endpoint>,
    /// Its share against the others'. Default: 1.
    #[serde(default)]
    pub(in crate::config) weight: Field<u64>,
}

/// How one of several endpoints is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "balance", rename_all = "snake_case")]
pub(in crate::config) enum RawBalance {
    /// The less busy of two drawn at random.
    LeastRequests,
    /// Each in turn.
    RoundRobin,
    /// Drawn at random.
    Random,
}

/// Time limits towards an upstream.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "upstream timeouts")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawUpstreamTimeouts {
    /// Until a connection stands. Default: 1s.
    #[serde(default)]
    pub(in crate::config) connect: Field<Period>,
}

/// Connections that wait for the next request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "keep_alive")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawKeepAlive {
    /// How many are kept for each endpoint, by each worker. Default: 256.
    #[serde(default)]
    pub(in crate::config) max_idle: Field<u64>,
    /// How long one is kept. Default: 60s.
    #[serde(default)]
    pub(in crate::config) idle: Field<Period>,
}

//! `upstreams`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{List, RawKey};
use crate::config::field::{Either, Field};
use crate::config::scalar::{Endpoint, Percent, Period, ServerNameText, TargetText};

/// A group of endpoints that serve the same thing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "upstream")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawUpstream {
    /// At least one.
    pub(in crate::config) endpoints: List<Either<Endpoint, RawEndpoint>>,
    /// How one of them is chosen. Default: least_requests.
    #[serde(default)]
    pub(in crate::config) balance: Field<Either<RawBalance, RawHash>>,
    /// Time limits.
    #[serde(default)]
    pub(in crate::config) timeouts: Field<RawUpstreamTimeouts>,
    /// Connections that wait for the next request.
    #[serde(default)]
    pub(in crate::config) keep_alive: Field<RawKeepAlive>,
    /// Requests in flight at once; beyond it 503. Default: no bound.
    #[serde(default)]
    pub(in crate::config) max_in_flight: Field<u64>,
    /// How https is spoken with the endpoints.
    #[serde(default)]
    pub(in crate::config) tls: Field<RawUpstreamTls>,
    /// Asks the endpoints whether they are well. Default: they are not asked.
    #[serde(default)]
    pub(in crate::config) health: Field<RawHealth>,
    /// Leaves out endpoints at which requests fail. Default: none.
    #[serde(default)]
    pub(in crate::config) eject: Field<RawEject>,
    /// How long it takes until an endpoint that is back has its whole share again. Default: 10s.
    #[serde(default)]
    pub(in crate::config) slow_start: Field<Period>,
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

/// By a key: its requests go to one endpoint, and stay there as far as that is possible.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "balance")]
#[schemars(rename = "balance by hash", deny_unknown_fields)]
pub(in crate::config) struct RawHash {
    /// The key. A request without it goes to the less busy of two endpoints.
    pub(in crate::config) hash: Field<RawKey>,
}

/// Whom to trust, and who we are. Paths of files in PEM.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "tls")]
#[schemars(rename = "tls of upstreams", deny_unknown_fields)]
pub(in crate::config) struct RawUpstreamTls {
    /// The authorities that may have signed the endpoints' certificates. Default: the system's.
    #[serde(default)]
    pub(in crate::config) ca: Field<String>,
    /// Our own certificate, for endpoints that ask for one.
    #[serde(default)]
    pub(in crate::config) cert: Field<String>,
    /// Its private key.
    #[serde(default)]
    pub(in crate::config) key: Field<String>,
    /// The name that certificates must be for. Default: each endpoint's host.
    #[serde(default)]
    pub(in crate::config) server_name: Field<ServerNameText>,
    /// false: certificates are not looked at, and anybody can be the endpoint. Default: true.
    #[serde(default)]
    pub(in crate::config) verify: Field<bool>,
}

/// A GET that endpoints must answer with a status from 200 to 399.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "health")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawHealth {
    /// What is asked for.
    pub(in crate::config) path: Field<TargetText>,
    /// From one check to the next. Default: 5s.
    #[serde(default)]
    pub(in crate::config) interval: Field<Period>,
    /// How long one may take. Default: 1s.
    #[serde(default)]
    pub(in crate::config) timeout: Field<Period>,
    /// Good ones in a row until an endpoint is back. Default: 2.
    #[serde(default)]
    pub(in crate::config) rise: Field<u64>,
    /// Bad ones in a row until it is down. Default: 3.
    #[serde(default)]
    pub(in crate::config) fall: Field<u64>,
}

/// Endpoints that cannot be connected, break off, are too slow, or answer 502, 503 or 504.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "eject")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawEject {
    /// So many failures in a row. Default: 5.
    #[serde(default)]
    pub(in crate::config) consecutive_errors: Field<u64>,
    /// For so long; up to eight times that if it happens soon again. Default: 30s.
    #[serde(default, rename = "for")]
    pub(in crate::config) period: Field<Period>,
    /// How many at once, of all endpoints. Default: 50%.
    #[serde(default)]
    pub(in crate::config) max_percent: Field<Percent>,
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

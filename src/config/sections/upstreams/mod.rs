//! `upstreams`: groups of endpoints by name.

pub mod health;
mod queue;
pub mod tls;

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::KeyExpr;
use tollgate_core::time::Span;

use crate::config::field::{Either, Entries, Field, List, Spanned};
use crate::config::scalar::{Endpoint, Period};
use crate::config::sections::client::RawClient;
use crate::config::sections::context::Context;
use crate::config::sections::key::{NeededParam, RawKey, needed_params, refuse_body};
use crate::config::words::{Word, words};
use crate::proxy::{Balance, EndpointSettings, Target, UpstreamSettings};
use health::{RawEject, RawHealth};
use queue::{MAX_CONNECTIONS, RawQueue};
use tls::RawUpstreamTls;

/// The name of an authorizer's upstream is this and the name of the authorizer.
pub const OF_AUTHORIZER: &str = "authorizer:";
const MAX_WEIGHT: u64 = 65_535;
/// One machine does not have more ports for connections.
const MAX_IN_FLIGHT: u64 = 10_000_000;
/// Idle connections to one endpoint, for each worker.
const MAX_IDLE: u64 = 65_535;
const SLOW_START: RangeInclusive<Span> = Span::ZERO..=Span::from_secs(3600);

/// A group of endpoints that serve the same content.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "upstream", default)]
#[schemars(deny_unknown_fields, extend("required" = ["endpoints"]))]
pub struct RawUpstream {
    /// The endpoints. At least one is needed.
    endpoints: List<Either<Endpoint, RawEndpoint>>,
    /// How the endpoint for a request is chosen.
    #[schemars(extend("default" = "least_requests"))]
    #[schemars(example = &"round_robin")]
    balance: Field<Either<Word<Balance>, RawHash>>,
    /// Time limits for connections to the endpoints.
    timeouts: Field<RawUpstreamTimeouts>,
    /// Connections that are kept open for later requests.
    keep_alive: Field<RawKeepAlive>,
    /// The most requests that are in progress at once. Further requests get 503.
    #[schemars(extend("x-default" = "no limit"))]
    #[schemars(example = 1000)]
    #[schemars(range(min = 1, max = MAX_IN_FLIGHT))]
    max_in_flight: Field<u64>,
    /// The most connections to each endpoint, over all workers. Further requests wait for one.
    #[schemars(extend("x-default" = "no limit"))]
    #[schemars(example = 100)]
    #[schemars(range(min = 1, max = MAX_CONNECTIONS))]
    max_connections: Field<u64>,
    /// How requests wait for a connection. Needs max_connections.
    #[schemars(extend("x-default" = "1000 requests for 1s, with max_connections"))]
    queue: Field<RawQueue>,
    /// TLS for endpoints with `https`.
    #[schemars(extend(
        "x-default" = "the authorities that the system trusts, and no certificate for the gateway"
    ))]
    tls: Field<RawUpstreamTls>,
    /// Active health checks.
    #[schemars(extend("x-default" = "no checks"))]
    health: Field<RawHealth>,
    /// Endpoints at which requests fail get no requests for some time.
    #[schemars(extend("x-default" = "no ejection"))]
    eject: Field<RawEject>,
    /// How long it takes until an endpoint that has recovered gets its full share of the requests.
    #[schemars(extend("default" = "10s"))]
    #[schemars(example = &"1m")]
    slow_start: Field<Period>,
}

/// An endpoint with its share of the requests.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "endpoint", default)]
#[schemars(deny_unknown_fields, extend("required" = ["url"]))]
struct RawEndpoint {
    /// The address of the endpoint.
    url: Field<Endpoint>,
    /// Its share of the requests, relative to the other endpoints.
    #[schemars(extend("default" = 1))]
    #[schemars(example = 2)]
    #[schemars(range(min = 1, max = MAX_WEIGHT))]
    weight: Field<u64>,
}

words! {
    /// How the endpoint for a request is chosen.
    Balance as "balance" {
        /// Of two random endpoints, the one with fewer requests in progress.
        "least_requests" => Balance::LeastRequests,
        /// Each endpoint in turn.
        "round_robin" => Balance::RoundRobin,
        /// A random endpoint.
        "random" => Balance::Random,
    }
}

/// The endpoint is chosen by a key. Requests with the same key go to the same endpoint as far as
/// possible.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "balance", default)]
#[schemars(rename = "balance by hash", deny_unknown_fields, extend("required" = ["hash"]))]
struct RawHash {
    /// The key. A request without it goes to the endpoint that least_requests would choose.
    #[schemars(example = &"api_key")]
    hash: Field<RawKey>,
}

/// Time limits for connections to the endpoints.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "upstream timeouts", default)]
#[schemars(deny_unknown_fields)]
struct RawUpstreamTimeouts {
    /// The longest time until a connection is open.
    #[schemars(extend("default" = "1s"))]
    #[schemars(example = &"2s")]
    connect: Field<Period>,
}

/// Connections that are kept open for later requests.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "keep_alive", default)]
#[schemars(deny_unknown_fields)]
struct RawKeepAlive {
    /// The most idle connections that each worker keeps to each endpoint. Without it, a worker
    /// keeps 256, and for 5 seconds also those above 256 that it has used, up to 16,384 more for
    /// all endpoints.
    #[schemars(extend("x-default" = "as many as were used lately"))]
    #[schemars(example = 64)]
    #[schemars(range(min = 0, max = MAX_IDLE))]
    max_idle: Field<u64>,
    /// How long an idle connection is kept.
    #[schemars(extend("default" = "60s"))]
    #[schemars(example = &"30s")]
    idle: Field<Period>,
}

/// An upstream, and what its routes must know.
pub struct Upstream {
    pub settings: UpstreamSettings,
    /// The key that chooses the endpoint, if one does.
    pub affinity: Option<KeyExpr>,
}

/// All upstreams that are not broken, in the order of the file.
pub fn compile(
    raw: &Field<Entries<RawUpstream>>,
    client: &RawClient,
    cx: &Context<'_>,
) -> Vec<Upstream> {
    let upstreams = raw.entries().iter().filter_map(|(name, upstream)| {
        cx.check_name(name, "upstream");
        if name.value.starts_with(OF_AUTHORIZER) {
            let message = format!("the name {:?} is that of an authorizer's upstream", name.value);
            cx.error(name.span, &message, "choose a name that does not begin with authorizer:");
        }
        Some(upstream.value()?.compile(name, client, cx))
    });
    upstreams.collect()
}

impl RawUpstream {
    fn compile(&self, name: &Spanned<String>, client: &RawClient, cx: &Context<'_>) -> Upstream {
        let advice = "like endpoints: [http://127.0.0.1:9000]";
        let message = format!("the upstream \"{}\" has no \"endpoints\"", name.value);
        cx.required(&self.endpoints, name.span, &message, advice);
        cx.not_empty(&self.endpoints, &message, advice);
        let endpoints = self.endpoints.items().filter_map(|raw| endpoint(raw, cx));
        let mut upstream = UpstreamSettings::new(&name.value, endpoints.collect());
        let affinity = self.set_balance(&mut upstream, client, cx);
        if let Some(timeouts) = self.timeouts.value() {
            upstream.connect_timeout =
                cx.timeout(&timeouts.connect, "connect", upstream.connect_timeout);
        }
        if let Some(keep_alive) = self.keep_alive.value() {
            upstream.max_idle = cx.number(&keep_alive.max_idle, "max_idle", 0..=MAX_IDLE);
            upstream.idle_timeout = cx.timeout(&keep_alive.idle, "idle", upstream.idle_timeout);
        }
        upstream.max_in_flight = cx.number(&self.max_in_flight, "max_in_flight", 1..=MAX_IN_FLIGHT);
        let endpoints = upstream.endpoints.len();
        upstream.connections = queue::compile(
            &self.max_connections,
            &self.queue,
            endpoints,
            upstream.max_in_flight,
            cx,
        );
        let is_tls = |it: &EndpointSettings| matches!(it.target, Target::Https(..));
        let is_tls = upstream.endpoints.iter().any(is_tls);
        upstream.tls = RawUpstreamTls::compile(&self.tls, is_tls, name.span, cx);
        upstream.check = self.health.given().and_then(|it| it.value.compile(it.span, cx));
        upstream.eject = self.eject.value().map(|eject| eject.compile(cx));
        let slow_start = cx.duration(&self.slow_start, "slow_start", SLOW_START);
        upstream.slow_start = slow_start.map_or(upstream.slow_start, Duration::from);
        Upstream { settings: upstream, affinity }
    }

    /// Sets how an endpoint is chosen. Returns the key that chooses it, if one does.
    fn set_balance(
        &self,
        upstream: &mut UpstreamSettings,
        client: &RawClient,
        cx: &Context<'_>,
    ) -> Option<KeyExpr> {
        let given = self.balance.given()?;
        match &given.value {
            Either::Short(Word(balance)) => {
                upstream.balance = *balance;
                None
            }
            Either::Long(RawHash { hash }) => {
                upstream.balance = Balance::Hash;
                let advice = "like balance: { hash: api_key }";
                cx.required(hash, given.span, "the balance has no \"hash\"", advice);
                let raw = hash.given()?;
                let key = raw.value.compile(raw.span, cx)?;
                raw.check(&key, client, cx);
                if key.needs_authorizer() {
                    let message = "the endpoint is chosen before the authorizer has answered";
                    cx.error(raw.span, message, "hash another key");
                }
                refuse_body(&key, raw.span, cx);
                Some(key)
            }
        }
    }

    /// The path parameters of the key that chooses the endpoint.
    pub fn affinity_params(&self) -> Vec<NeededParam> {
        match self.balance.value() {
            Some(Either::Long(raw)) => raw.hash.given().map(needed_params).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Whether it refuses requests while it has no room.
    pub fn is_bounded(&self) -> bool {
        self.limits_in_flight() || !self.max_connections.is_absent()
    }

    /// Whether the number of requests in progress has a limit.
    pub fn limits_in_flight(&self) -> bool {
        !self.max_in_flight.is_absent()
    }
}

fn endpoint(
    raw: &Spanned<Either<Endpoint, RawEndpoint>>,
    cx: &Context<'_>,
) -> Option<EndpointSettings> {
    let (url, weight) = match &raw.value {
        Either::Short(url) => (url, 1),
        Either::Long(long) => {
            let advice = "like { url: http://127.0.0.1:9000, weight: 2 }";
            let weight = cx.number(&long.weight, "weight", 1..=MAX_WEIGHT).unwrap_or(1);
            let message = "the endpoint has no \"url\"";
            (cx.required(&long.url, raw.span, message, advice)?, weight)
        }
    };
    Some(EndpointSettings { target: url.0.clone(), weight })
}

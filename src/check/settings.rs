//! The settings of the listeners that answer questions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::rls::RateLimits;
use super::wildcard::Wildcard;
use crate::admin::TokenDigest;
use crate::proxy::{Target, TlsSettings};
use crate::server::ListenerSettings;

/// The listeners that answer questions.
#[derive(Clone, Debug, Default)]
pub struct CheckSettings {
    /// Over HTTP. None: there is no such listener.
    pub http: Option<Arc<HttpSettings>>,
    /// Over gRPC. None: there is no such listener.
    pub grpc: Option<Arc<GrpcSettings>>,
}

impl CheckSettings {
    /// The listeners that there are.
    pub fn listeners(&self) -> impl Iterator<Item = &ListenerSettings> {
        let http = self.http.iter().map(|it| &it.listener);
        http.chain(self.grpc.iter().map(|it| &it.listener))
    }

    /// The server that gives domains, if there is one.
    pub fn xds(&self) -> Option<&Arc<XdsSettings>> {
        self.grpc.as_ref()?.xds.as_ref()
    }

    /// Whether the rate limit service is served.
    pub fn serves_rate_limits(&self) -> bool {
        self.grpc.as_ref().is_some_and(|it| it.services.ratelimit)
    }
}

/// The listener for questions over HTTP.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Where it listens, with its bounds. Its callers are the peers that may ask.
    pub listener: ListenerSettings,
    /// The tokens, one of which each call of the JSON API needs. None: it needs no token.
    pub tokens: Vec<CheckToken>,
    /// The statuses of answers about requests of other proxies.
    pub statuses: Statuses,
    /// The bounds of leases.
    pub leases: LeaseSettings,
}

/// The listener for questions over gRPC.
#[derive(Clone, Debug)]
pub struct GrpcSettings {
    /// Where it listens, with its bounds. Its callers are the peers that may ask.
    pub listener: ListenerSettings,
    /// The services that it serves.
    pub services: RpcServices,
    /// Whether it tells what the services and their messages are.
    pub reflection: bool,
    /// What the rate limit service knows.
    pub rate_limits: RateLimits,
    /// The server that gives domains instead of files. None: there is none.
    pub xds: Option<Arc<XdsSettings>>,
}

/// A server that gives domains of the rate limit service, by the protocol xDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdsSettings {
    /// Its address.
    pub server: Target,
    /// The TLS settings, if it is reached over TLS.
    pub tls: Option<TlsSettings>,
    /// The id by which it knows this node.
    pub node: String,
    /// What this node tells about itself.
    pub metadata: Vec<(String, String)>,
    /// The largest message that it may send.
    pub max_bytes: usize,
    /// Whether this node is ready only when it has limits.
    pub wait: bool,
    /// Whether several resources may be about one domain.
    pub merge_domains: bool,
    /// The domains that the configuration itself contains.
    pub own_domains: BTreeSet<Box<str>>,
}

/// The services of the listener for gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcServices {
    /// `envoy.service.ratelimit.v3.RateLimitService`.
    pub ratelimit: bool,
    /// `envoy.service.auth.v3.Authorization`.
    pub authorization: bool,
}

/// A token for the JSON API, and what it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckToken {
    /// The digest by which it is compared.
    pub digest: TokenDigest,
    /// The policies that its owner may charge. None: all.
    pub policies: Option<Vec<Wildcard>>,
    /// Whether its owner may state limits in the question.
    pub dynamic: bool,
}

/// The statuses of answers about requests of other proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statuses {
    /// The request may pass.
    pub admitted: StatusCode,
    /// A limit refuses it.
    pub refused: StatusCode,
    /// No decision was possible, and a policy refuses such requests.
    pub unavailable: StatusCode,
}

impl Default for Statuses {
    fn default() -> Self {
        Self {
            admitted: StatusCode::OK,
            refused: StatusCode::TOO_MANY_REQUESTS,
            unavailable: StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The bounds of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// How long a lease lasts if the question does not say it.
    pub ttl: Duration,
    /// The longest time for which a question may have a lease.
    pub max_ttl: Duration,
    /// The most leases that a node keeps.
    pub max: usize,
}

impl Default for LeaseSettings {
    fn default() -> Self {
        Self { ttl: Duration::from_secs(60), max_ttl: Duration::from_secs(3600), max: 100_000 }
    }
}

//! The compiled configuration: what is true, with every name resolved.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;

use super::geo_file::GeoFile;
use super::scalar::Rate;
use crate::algorithm::{Algorithm, SlidingWindow};
use crate::limiter::HeaderSettings;
use crate::proxy::{
    DocumentSource, EndpointSettings, RouteTimeouts, Target, TlsError, TlsParts, TlsSettings,
    UpstreamSettings,
};
use crate::rules::{
    self, ApiKeySettings, ClientSettings, ForwardedHeader, KeyExpr, PathMatch, PathPattern, Policy,
};
use crate::server::{ListenAddress, ListenerSettings};
use crate::snapshot::{Action, Handling};
use crate::store::redis::RedisSettings;
use crate::telemetry::TelemetrySettings;

/// A whole configuration that holds together.
#[derive(Clone, Debug)]
pub struct Config {
    /// At least one.
    pub listeners: Vec<ListenerSettings>,
    /// Who is asking.
    pub client: ClientSettings,
    /// The files of its databases.
    pub geo_files: Vec<GeoFile>,
    /// Where the keys of tokens are fetched from, if they are.
    pub key_source: Option<KeySource>,
    /// Where the counters live.
    pub store: StoreSettings,
    /// All policies that are not off, in the order of the file.
    pub policies: Vec<Arc<Policy>>,
    /// All routes, in the order of the file: the first match wins.
    pub routes: Vec<Route>,
    /// All upstreams, in the order of the file.
    pub upstreams: Vec<UpstreamSettings>,
    /// What clients are told about their limits.
    pub headers: HeaderSettings,
    /// Whether the gateway's own errors are problem+json (RFC 9457) or plain text.
    pub problem_json: bool,
    /// Logs.
    pub telemetry: TelemetrySettings,
    /// The process.
    pub runtime: RuntimeSettings,
}

impl Config {
    /// One listener, one upstream and one policy for all requests: what
    /// `tollgate run --to` runs without a file.
    ///
    /// # Errors
    /// If `to` is reached by `https`, and the system knows no authorities.
    pub fn single(
        listen: ListenAddress,
        to: Target,
        Rate(quota): Rate,
        key: KeyExpr,
    ) -> Result<Self, TlsError> {
        let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(quota));
        let policy = Arc::new(Policy::new("limit", key, algorithm).sparing_preflights());
        let route = Route {
            rule: rules::Route {
                name: "1".into(),
                hosts: Vec::new(),
                path: PathPattern { segments: Vec::new(), tail: true },
                path_match: PathMatch::default(),
                methods: Vec::new(),
                headers: Vec::new(),
                policies: vec![Arc::clone(&policy)],
                affinity: None,
            },
            handling: Handling {
                action: Action::Forward(0),
                timeouts: RouteTimeouts::default(),
                retries: None,
                max_body_bytes: None,
                changes: None,
            },
            written: Written { hosts: Vec::new(), path: "/*".to_owned() },
        };
        let is_tls = matches!(to, Target::Https(..));
        let endpoint = EndpointSettings { target: to, weight: 1 };
        let mut upstream = UpstreamSettings::new("upstream", vec![endpoint]);
        if is_tls {
            upstream.tls = Some(TlsSettings::new(TlsParts::default())?);
        }
        Ok(Self {
            listeners: vec![ListenerSettings::new(listen)],
            client: default_client(),
            geo_files: Vec::new(),
            key_source: None,
            store: StoreSettings::default(),
            policies: vec![policy],
            routes: vec![route],
            upstreams: vec![upstream],
            headers: HeaderSettings::default(),
            problem_json: true,
            telemetry: TelemetrySettings::default(),
            runtime: RuntimeSettings::default(),
        })
    }
}

/// The section `client`, compiled.
pub(super) struct Client {
    /// How clients are identified, without the databases of `geo_files`.
    pub(super) settings: ClientSettings,
    pub(super) geo_files: Vec<GeoFile>,
    pub(super) key_source: Option<KeySource>,
}

/// How clients are identified if the file does not say it. Forwarded headers are not believed. An
/// IPv6 client is a /64, which is what one customer of a provider has.
pub(super) fn default_client() -> ClientSettings {
    ClientSettings {
        trusted_proxies: Vec::new(),
        forwarded_header: ForwardedHeader::XForwardedFor,
        ipv4_prefix: 32,
        ipv6_prefix: 64,
        api_key: ApiKeySettings {
            headers: vec![HeaderName::from_static("x-api-key")],
            bearer: true,
            query: None,
        },
        user: None,
        geo: Vec::new(),
    }
}

/// Where a set of keys is fetched from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySource {
    /// The set.
    pub document: DocumentSource,
    /// The algorithms of keys that are taken from it.
    pub algorithms: Vec<jsonwebtoken::Algorithm>,
    /// The longest time between two attempts to fetch it.
    pub refresh: Duration,
    /// Its URL as logs may show it.
    pub shown: String,
}

/// A route: which requests, and what becomes of them.
#[derive(Clone, Debug)]
pub struct Route {
    /// Which requests, and by which policies they are judged.
    pub rule: rules::Route,
    /// What becomes of them.
    pub handling: Handling,
    /// Which requests, as the file says it.
    pub written: Written,
}

/// What a route matches, as the file says it: a `${...}` in it may stand for a secret.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its hosts; none: every host.
    pub hosts: Vec<String>,
    /// Its path.
    pub path: String,
}

/// Where the counters live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// Keys that the memory of this process may hold.
    pub max_keys: usize,
    /// The servers that all nodes share. None: this is the only node.
    pub redis: Option<RedisSettings>,
    /// The file in which limits of single keys are kept without Redis.
    pub overrides: Option<PathBuf>,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self { max_keys: 1_000_000, redis: None, overrides: None }
    }
}

/// The process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeSettings {
    /// Worker threads; none: one for each core.
    pub workers: Option<usize>,
    /// How long requests under way may take to finish after the signal to stop.
    pub drain: Duration,
}

impl Default for RuntimeSettings {
    fn default() -> Self {
        Self { workers: None, drain: Duration::from_secs(30) }
    }
}

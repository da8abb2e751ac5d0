//! The compiled configuration, in which all names are resolved and all values are checked.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use tollgate_core::algorithm::{Algorithm, SlidingWindow};
use tollgate_core::decision::HeaderSettings;
use tollgate_core::policy::{
    AccessList, ApiKeySettings, BodyWords, ClientSettings, KeyExpr, Policy,
};
use tollgate_core::price::Prices;
use tollgate_core::routes;
use tollgate_core::store::keys::OnFailure;
use tollgate_core::time::Span;
use tollgate_redis::RedisSettings;

use super::held_files::HeldFiles;
use super::scalar::Rate;
use crate::admin::AdminSettings;
use crate::check::CheckSettings;
use crate::message::{AuthorizerSettings, Over, ReadBodySettings, USUAL_READ_BYTES};
use crate::patches::Definitions;
use crate::proxy::{
    DocumentSource, EndpointSettings, RouteTimeouts, Target, TlsError, TlsParts, TlsSettings,
    UpstreamSettings,
};
use crate::server::{CertificateDates, ListenAddress, ListenerSettings, USUAL_BODY_MEMORY};
use crate::snapshot::{Action, FixedResponse, Handling};
use crate::telemetry::TelemetrySettings;

/// A configuration without mistakes.
#[derive(Clone, Debug)]
pub struct Config {
    /// The listeners of the gateway. There is at least one, or one in `check`.
    pub listeners: Vec<ListenerSettings>,
    /// How clients are identified.
    pub client: ClientSettings,
    /// The large files that `client` names.
    pub files: HeldFiles,
    /// Where the keys for tokens are fetched from, if they are fetched.
    pub key_source: Option<KeySource>,
    /// Where the keys of the agents are fetched from, in the order of the agents.
    pub agent_sources: Vec<KeySource>,
    /// The set of keys for tokens that is in a file, if there is one.
    pub key_file: Option<KeyFile>,
    /// Where the counters are kept.
    pub store: StoreSettings,
    /// What is done with known API keys while their store cannot be read.
    pub keys_on_failure: OnFailure,
    /// What tokens cost, if that is known.
    pub prices: Option<Arc<Prices>>,
    /// All policies with an effect, in the order of the file.
    pub policies: Vec<Arc<Policy>>,
    /// All access lists, in the order of the file.
    pub access: Vec<Arc<AccessList>>,
    /// The policies and access lists as they are written, which can be changed at run time.
    pub definitions: Arc<Definitions>,
    /// All routes, in the order of the file. The first match applies.
    pub routes: Vec<Route>,
    /// All authorizers, in the order of the file.
    pub authorizers: Vec<Arc<AuthorizerSettings>>,
    /// All upstreams, in the order of the file, and then those of the authorizers.
    pub upstreams: Vec<UpstreamSettings>,
    /// The header fields that tell clients about their limits.
    pub headers: HeaderSettings,
    /// Whether the gateway's own errors are problem+json (RFC 9457) or plain text.
    pub problem_json: bool,
    /// Logs.
    pub telemetry: TelemetrySettings,
    /// The process.
    pub runtime: RuntimeSettings,
    /// The listeners that answer questions of other proxies and services.
    pub check: CheckSettings,
    /// The admin listener. None: there is none.
    pub admin: Option<AdminSettings>,
    /// The dates of all certificates that the gateway shows to clients and servers.
    pub certificates: Arc<[CertificateDates]>,
}

impl Config {
    /// One listener, one upstream and one policy for all requests. `tollgate run --to` uses it
    /// instead of a file.
    ///
    /// # Errors
    /// If `to` needs TLS, and the system has no list of trusted authorities.
    pub fn single(
        listen: ListenAddress,
        to: Target,
        Rate(quota): Rate,
        key: KeyExpr,
    ) -> Result<Self, TlsError> {
        let algorithm = Algorithm::usual(quota);
        let policy = Arc::new(Policy::new("limit", key, algorithm).sparing_preflights());
        let words = BodyWords::of([&policy.key]);
        let read = |words: &BodyWords| {
            let words = words.clone();
            let max = USUAL_READ_BYTES;
            Box::new(ReadBodySettings { words, max, over: Over::default() })
        };
        let route = |rule, action, path: &str| Route {
            rule,
            handling: Handling {
                action,
                timeouts: RouteTimeouts::default(),
                retries: None,
                fallback: None,
                compress: None,
                mirror: None,
                max_body_bytes: None,
                max_response_bytes: None,
                refusals: None,
                read_body: words.as_ref().map(read),
                changes: None,
                cors: None,
                authorizer: None,
            },
            written: Written { hosts: Vec::new(), path: path.to_owned() },
        };
        let mut routes = Vec::new();
        if to == Target::Echo {
            // A browser asks for an icon by itself, which would use up the limit.
            let path = ICON.parse().expect("it is a path");
            let rule =
                routes::Route { path, name: "icon".into(), ..routes::Route::for_all(vec![]) };
            routes.push(route(rule, Action::Respond(no_icon()), ICON));
        }
        let rule = routes::Route {
            reads_body: words.is_some(),
            ..routes::Route::for_all(vec![Arc::clone(&policy)])
        };
        routes.push(route(rule, Action::Forward(0), "/*"));
        let is_tls = matches!(to, Target::Https(..));
        let endpoint = EndpointSettings { target: to, weight: 1 };
        let mut upstream = UpstreamSettings::new("upstream", vec![endpoint]);
        if is_tls {
            upstream.tls = Some(TlsSettings::new(TlsParts::default())?);
        }
        Ok(Self {
            listeners: vec![ListenerSettings::new(listen)],
            client: default_client(),
            files: HeldFiles::default(),
            key_source: None,
            agent_sources: Vec::new(),
            store: StoreSettings::default(),
            keys_on_failure: KEYS_ON_FAILURE,
            prices: None,
            policies: vec![policy],
            access: Vec::new(),
            definitions: Arc::default(),
            routes,
            authorizers: Vec::new(),
            upstreams: vec![upstream],
            headers: HeaderSettings::default(),
            problem_json: true,
            telemetry: TelemetrySettings::default(),
            runtime: RuntimeSettings::default(),
            check: CheckSettings::default(),
            admin: None,
            certificates: Arc::default(),
            key_file: None,
        })
    }
}

/// The section `client`, compiled.
pub struct Client {
    /// How clients are identified, without the databases of `files`.
    pub settings: ClientSettings,
    pub files: HeldFiles,
    pub key_source: Option<KeySource>,
    /// In the order of the agents of `settings`.
    pub agent_sources: Vec<KeySource>,
}

/// Where browsers look for the icon of a site.
const ICON: &str = "/favicon.ico";

fn no_icon() -> FixedResponse {
    FixedResponse {
        status: StatusCode::NOT_FOUND,
        content_type: HeaderValue::from_static("text/plain"),
        body: Bytes::new(),
    }
}

/// How clients are identified if the file does not say it. Forwarded headers are not believed. An
/// IPv6 client is a /64, which is what one customer of a provider has.
pub fn default_client() -> ClientSettings {
    ClientSettings {
        api_key: ApiKeySettings {
            headers: vec![HeaderName::from_static("x-api-key")],
            bearer: true,
            query: None,
            cookie: None,
        },
        failures: Some(failures(None)),
        ..ClientSettings::default()
    }
}

/// How many wrong credentials an address may send: 30 in a minute, unless the file says it.
pub fn failures(rate: Option<&Rate>) -> Box<Algorithm> {
    let quota = rate.map_or_else(|| "30/minute".parse().expect("it is a rate"), |rate| *rate).0;
    Box::new(Algorithm::SlidingWindow(SlidingWindow::new(quota)))
}
/// A known key is trusted for ten minutes.
pub const KEYS_ON_FAILURE: OnFailure = OnFailure::Local(Span::from_secs(600));

/// Where a set of keys is fetched from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySource {
    /// The document with the set.
    pub document: DocumentSource,
    /// The algorithms of the keys that are used. Other keys are ignored.
    pub algorithms: Vec<jsonwebtoken::Algorithm>,
    /// The longest time between two attempts to fetch it.
    pub refresh: Duration,
    /// The URL in a form that logs may show.
    pub shown: String,
    /// What its keys sign: tokens, or requests of an agent.
    pub signed: Signed,
}

impl KeySource {
    /// Whether the same keys come from both, however they are fetched: with another interval, or with
    /// other authorities.
    pub fn has_keys_of(&self, other: &Self) -> bool {
        self.document.target == other.document.target
            && self.document.path == other.document.path
            && self.algorithms == other.algorithms
            && self.signed == other.signed
    }
}

/// What the keys of a set sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// Tokens of users.
    Tokens,
    /// Requests of an agent.
    Requests,
}

/// A set of keys for tokens that is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    /// The file.
    pub name: String,
    /// How many of its keys cannot be used.
    pub left_out: usize,
}

/// A route: which requests it matches, and how it handles them.
#[derive(Clone, Debug)]
pub struct Route {
    /// Which requests it matches, and which policies apply to them.
    pub rule: routes::Route,
    /// How it handles them.
    pub handling: Handling,
    /// Which requests it matches, as written in the file.
    pub written: Written,
}

/// What a route matches, as written in the file, because the value of a `${...}` may be secret.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its hosts. An empty list means every host.
    pub hosts: Vec<String>,
    /// Its path.
    pub path: String,
}

/// Where the counters are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// How many keys are kept in the memory of this process.
    pub max_keys: usize,
    /// The servers that all nodes share. None if there is only one node.
    pub redis: Option<RedisSettings>,
    /// The command that prints the password of the servers, if it is not in the file.
    pub password_command: Option<PasswordCommand>,
    /// The file for the limits of single keys, if there is no Redis.
    pub overrides: Option<PathBuf>,
    /// The file for API keys, if there is one and no Redis.
    pub keys: Option<PathBuf>,
}

/// A command that prints a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordCommand {
    /// The program, by its name or path.
    pub program: String,
    /// Its arguments. They are passed on as they are, without a shell.
    pub arguments: Vec<String>,
    /// The directory in which it runs: that of the configuration.
    pub directory: PathBuf,
    /// How long a password is valid from the end of the command on.
    pub lifetime: Duration,
}

impl Config {
    /// Whether API keys are looked up in a store.
    pub fn looks_keys_up(&self) -> bool {
        let keys = self.client.keys.as_ref();
        keys.is_some_and(|keys| keys.in_store) && self.store.keeps_keys()
    }
}

impl StoreSettings {
    /// Whether API keys can be kept anywhere.
    pub const fn keeps_keys(&self) -> bool {
        self.redis.is_some() || self.keys.is_some()
    }

    /// Whether a running store with these settings can adopt the others: they differ only in
    /// credentials, TLS settings and the number of connections.
    pub fn can_become(&self, other: &Self) -> bool {
        let same_servers = match (&self.redis, &other.redis) {
            (Some(own), Some(others)) => own.with_connections_of(others) == *others,
            (own, others) => own.is_none() && others.is_none(),
        };
        same_servers
            && self.max_keys == other.max_keys
            && self.overrides == other.overrides
            && self.keys == other.keys
    }
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            max_keys: 1_000_000,
            redis: None,
            password_command: None,
            overrides: None,
            keys: None,
        }
    }
}

/// The process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeSettings {
    /// The number of worker threads. None means one for each core.
    pub workers: Option<usize>,
    /// How long requests in progress may take after the signal to stop.
    pub drain: Duration,
    /// The most memory for bodies that are read before they are forwarded, in bytes.
    pub body_memory: u64,
}

impl Default for RuntimeSettings {
    fn default() -> Self {
        Self { workers: None, drain: Duration::from_secs(30), body_memory: USUAL_BODY_MEMORY }
    }
}

/// How a command reaches an admin listener, as a file says it.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminAccess {
    /// Where it listens.
    pub address: ListenAddress,
    /// Whether it uses TLS.
    pub is_encrypted: bool,
    /// The token with the most rights.
    pub token: Option<String>,
    /// The listener for health checks.
    pub probe: Option<ListenAddress>,
}

/// Without the token.
impl fmt::Debug for AdminAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminAccess").field("address", &self.address).finish_non_exhaustive()
    }
}

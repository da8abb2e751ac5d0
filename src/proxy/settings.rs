//! What an upstream is told.

use std::path::PathBuf;
use std::time::Duration;

use http::uri::{Authority, PathAndQuery};
use http::{Method, StatusCode};
use rustls::pki_types::ServerName;

use super::TlsSettings;

/// A group of endpoints that serve the same thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// Its name.
    pub name: String,
    /// At least one.
    pub endpoints: Vec<EndpointSettings>,
    /// How one of them is chosen.
    pub balance: Balance,
    /// Until a connection stands.
    pub connect_timeout: Duration,
    /// Idle connections kept for each endpoint, by each worker.
    pub max_idle: usize,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Requests in flight at once, over all workers; beyond it 503. None: no bound.
    pub max_in_flight: Option<usize>,
    /// How TLS is spoken. Endpoints of `https` are left out without it.
    pub tls: Option<TlsSettings>,
    /// How endpoints are asked whether they are well. None: they are not asked.
    pub check: Option<CheckSettings>,
    /// When those are left out at which requests fail. None: never.
    pub eject: Option<EjectSettings>,
    /// How long it takes until an endpoint that is back has its whole share again.
    pub slow_start: Duration,
}

impl UpstreamSettings {
    /// Endpoints by least requests, and what is safe for all else.
    pub fn new(name: &str, endpoints: Vec<EndpointSettings>) -> Self {
        Self {
            name: name.to_owned(),
            endpoints,
            balance: Balance::default(),
            connect_timeout: Duration::from_secs(1),
            max_idle: 256,
            idle_timeout: Duration::from_secs(60),
            max_in_flight: None,
            tls: None,
            check: None,
            eject: None,
            slow_start: Duration::from_secs(10),
        }
    }
}

/// How endpoints are asked whether they are well: by a GET that must be answered
/// with a status from 200 to 399.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSettings {
    /// What is asked for.
    pub path: PathAndQuery,
    /// From one check to the next.
    pub interval: Duration,
    /// How long one may take.
    pub timeout: Duration,
    /// Good ones in a row until an endpoint is back.
    pub rise: u32,
    /// Bad ones in a row until it is down.
    pub fall: u32,
}

impl CheckSettings {
    /// Asks for `path` as often as is usual.
    pub fn new(path: PathAndQuery) -> Self {
        let (interval, timeout) = (Duration::from_secs(5), Duration::from_secs(1));
        Self { path, interval, timeout, rise: 2, fall: 3 }
    }
}

/// When endpoints are left out at which requests fail: they cannot be connected,
/// break off, are too slow, or answer with 502, 503 or 504.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EjectSettings {
    /// So many failures in a row, over all workers.
    pub consecutive_errors: u32,
    /// For so long; up to eight times that if it happens soon again.
    pub period: Duration,
    /// Endpoints that are left out at once, in percent of all.
    pub max_percent: u8,
}

impl Default for EjectSettings {
    fn default() -> Self {
        Self { consecutive_errors: 5, period: Duration::from_secs(30), max_percent: 50 }
    }
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSettings {
    /// Where it is.
    pub target: Target,
    /// Its share of the traffic against the others', at least 1.
    pub weight: u32,
}

/// Where an endpoint is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `http://host:port`: the authority with its port always written.
    Http(Authority),
    /// `https://host:port`, and the host as certificates name it. HTTP/2 if the
    /// other side speaks it, else HTTP/1.1.
    Https(Authority, ServerName<'static>),
    /// `h2c://host:port`: HTTP/2 without TLS and without asking (RFC 9113, section 3.3).
    H2c(Authority),
    /// `unix:/path`: HTTP/1.1 over a socket of this machine.
    Unix(PathBuf),
    /// `builtin:echo`: a listener inside the process that answers with what it received.
    Echo,
}

/// How one of several endpoints is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// The one with fewer requests in flight of two drawn at random.
    #[default]
    LeastRequests,
    /// Each in turn.
    RoundRobin,
    /// Drawn at random.
    Random,
    /// The one to which the request's key leads; see [`Conditions::affinity`].
    /// A request without the key is balanced by least requests.
    Hash,
}

/// How long one request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteTimeouts {
    /// From the request's last byte to the response's head.
    pub response: Duration,
    /// Between two pieces of the response's body.
    pub idle: Duration,
    /// From the time it is admitted to the last byte of the response; none: no bound.
    pub request: Option<Duration>,
}

impl Default for RouteTimeouts {
    fn default() -> Self {
        Self { response: Duration::from_secs(30), idle: Duration::from_secs(60), request: None }
    }
}

/// When a request is sent again that got no answer, or none worth passing on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// How many more times, at most.
    pub attempts: u32,
    /// After which failures.
    pub on: Vec<RetryCause>,
    /// Requests of which methods: those that may be processed twice.
    pub methods: Vec<Method>,
    /// Retries in percent of the requests that may be repeated, by each worker.
    pub budget_percent: u8,
}

impl Default for RetrySettings {
    fn default() -> Self {
        use RetryCause::{BadGateway, Connect, GatewayTimeout, Reset, Unavailable};
        Self {
            attempts: 2,
            on: vec![Connect, Reset, BadGateway, Unavailable, GatewayTimeout],
            methods: vec![Method::GET, Method::HEAD, Method::PUT, Method::DELETE],
            budget_percent: 20,
        }
    }
}

/// After what a request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCause {
    /// No endpoint could be connected.
    Connect,
    /// The connection ended before an answer came.
    Reset,
    /// The answer was 502.
    BadGateway,
    /// The answer was 503.
    Unavailable,
    /// The answer was 504.
    GatewayTimeout,
}

impl RetryCause {
    /// The cause that an answer of this status is, if it is one.
    pub fn of_status(status: StatusCode) -> Option<Self> {
        match status {
            StatusCode::BAD_GATEWAY => Some(Self::BadGateway),
            StatusCode::SERVICE_UNAVAILABLE => Some(Self::Unavailable),
            StatusCode::GATEWAY_TIMEOUT => Some(Self::GatewayTimeout),
            _ => None,
        }
    }
}

/// What a route, and the request itself, say about how it is forwarded.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    /// How long it may take.
    pub timeouts: RouteTimeouts,
    /// When it is sent again. None: where that does no harm, and once.
    pub retries: Option<&'a RetrySettings>,
    /// The request's key for [`Balance::Hash`], if it has one.
    pub affinity: Option<u64>,
}

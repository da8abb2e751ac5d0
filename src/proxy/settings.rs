//! The settings of upstreams, and of the routes that use them.

use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::uri::{Authority, PathAndQuery};
use http::{Method, StatusCode};
use rustls::pki_types::ServerName;
use tollgate_core::policy::Clients;

use super::fallback::{Fallback, FallbackCause};
use super::interim::InterimRelay;
use super::limit::ConnectionSettings;
use super::tls::TlsSettings;
use crate::message::Forwarding;
use crate::telemetry::Attempts;

/// A group of endpoints that provide the same service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// Its name.
    pub name: String,
    /// At least one.
    pub endpoints: Vec<EndpointSettings>,
    /// How an endpoint is chosen.
    pub balance: Balance,
    /// The time in which a connection must be open, including TLS.
    pub connect_timeout: Duration,
    /// Idle connections that each worker keeps to each endpoint. None: as many as it used lately.
    pub max_idle: Option<usize>,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Requests in flight at once, over all workers. Further requests get 503. None: no
    /// bound.
    pub max_in_flight: Option<usize>,
    /// The bound of the connections to each endpoint. None: no bound.
    pub connections: Option<ConnectionSettings>,
    /// TLS settings. Endpoints of `https` are not used without them.
    pub tls: Option<TlsSettings>,
    /// Active health checks. None: there are none.
    pub check: Option<CheckSettings>,
    /// Ejection of endpoints at which requests fail. None: never.
    pub eject: Option<EjectSettings>,
    /// The time until an endpoint that is back in service has its whole share again.
    pub slow_start: Duration,
}

impl UpstreamSettings {
    /// Endpoints by least requests, with defaults for all other settings.
    pub fn new(name: &str, endpoints: Vec<EndpointSettings>) -> Self {
        Self {
            name: name.to_owned(),
            endpoints,
            balance: Balance::default(),
            connect_timeout: Duration::from_secs(1),
            max_idle: None,
            idle_timeout: Duration::from_secs(60),
            max_in_flight: None,
            connections: None,
            tls: None,
            check: None,
            eject: None,
            slow_start: Duration::from_secs(10),
        }
    }
}

/// Active health checks: a GET whose response must have a status from 200 to 399.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSettings {
    /// The path that is requested.
    pub path: PathAndQuery,
    /// The time from one check to the next.
    pub interval: Duration,
    /// How long one check may take.
    pub timeout: Duration,
    /// Successful checks in a row after which an endpoint is back in service.
    pub rise: u32,
    /// Failed checks in a row after which an endpoint is out of service.
    pub fall: u32,
}

impl CheckSettings {
    /// Checks of `path` with defaults for all other settings.
    pub fn new(path: PathAndQuery) -> Self {
        let interval = Duration::from_secs(5);
        let timeout = Duration::from_secs(1);
        Self { path, interval, timeout, rise: 2, fall: 3 }
    }
}

/// Ejection of endpoints at which requests fail: the endpoint cannot be connected to,
/// breaks off, is too slow, or responds with 502, 503 or 504.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EjectSettings {
    /// Failures in a row, over all workers, after which an endpoint is ejected.
    pub consecutive_errors: u32,
    /// For how long; up to eight times as long if ejections follow each other soon.
    pub period: Duration,
    /// The most endpoints that are ejected at once, in percent of all.
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
    /// Its address and protocol.
    pub target: Target,
    /// Its share of the traffic relative to the others, at least 1.
    pub weight: u32,
}

/// The address and protocol of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `http://host:port`. The authority always contains the port.
    Http(Authority),
    /// `https://host:port`, and the host as certificates name it. HTTP/2 if the endpoint
    /// supports it, else HTTP/1.1.
    Https(Authority, ServerName<'static>),
    /// `h2c://host:port`: HTTP/2 without TLS, with prior knowledge (RFC 9113, section 3.3).
    H2c(Authority),
    /// `unix:/path`: HTTP/1.1 over a socket of this machine.
    Unix(PathBuf),
    /// `builtin:echo`: a listener inside the process that responds with the request.
    Echo,
}

/// As users write it.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(authority) => write!(f, "http://{authority}"),
            Self::Https(authority, _) => write!(f, "https://{authority}"),
            Self::H2c(authority) => write!(f, "h2c://{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Echo => f.write_str("builtin:echo"),
        }
    }
}

/// How one of several endpoints is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// Of two random endpoints, the one with fewer requests in flight.
    #[default]
    LeastRequests,
    /// Each in turn.
    RoundRobin,
    /// A random one.
    Random,
    /// By consistent hashing of the request's key; see [`ForwardOptions::affinity`].
    /// A request without the key is balanced by least requests.
    Hash,
}

/// How long one request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteTimeouts {
    /// From the request's last byte to the response's head.
    pub response: Duration,
    /// Between two frames of the response's body.
    pub idle: Duration,
    /// From admission to the last byte of the response. None: no bound.
    pub request: Option<Duration>,
}

impl Default for RouteTimeouts {
    fn default() -> Self {
        Self { response: Duration::from_secs(30), idle: Duration::from_secs(60), request: None }
    }
}

/// When a request is sent again that got no response, or one with a certain status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// The most retries of one request.
    pub attempts: u32,
    /// The causes for a retry.
    pub on: Vec<RetryCause>,
    /// The methods of requests that may be retried, which may be processed twice.
    pub methods: Vec<Method>,
    /// The most retries of each worker, in percent of the requests that may be retried.
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

/// A cause for a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCause {
    /// No connection to an endpoint could be opened.
    Connect,
    /// The connection ended before a response came.
    Reset,
    /// The response was 502.
    BadGateway,
    /// The response was 503.
    Unavailable,
    /// The response was 504.
    GatewayTimeout,
}

impl RetryCause {
    /// Its name in the configuration and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Reset => "reset",
            Self::BadGateway => "502",
            Self::Unavailable => "503",
            Self::GatewayTimeout => "504",
        }
    }

    /// The cause for a fallback that it is if there was no response.
    pub const fn fallback(self) -> Option<FallbackCause> {
        match self {
            Self::Connect => Some(FallbackCause::Connect),
            Self::Reset => Some(FallbackCause::Reset),
            Self::BadGateway | Self::Unavailable | Self::GatewayTimeout => None,
        }
    }

    /// The cause that a response with this status is, if it is one.
    pub fn of_status(status: StatusCode) -> Option<Self> {
        match status {
            StatusCode::BAD_GATEWAY => Some(Self::BadGateway),
            StatusCode::SERVICE_UNAVAILABLE => Some(Self::Unavailable),
            StatusCode::GATEWAY_TIMEOUT => Some(Self::GatewayTimeout),
            _ => None,
        }
    }
}

/// How one request is forwarded.
#[derive(Clone, Copy, Debug)]
pub struct ForwardOptions<'a> {
    /// How long it may take.
    pub timeouts: &'a RouteTimeouts,
    /// When it is retried. None: once, if its method is idempotent.
    pub retries: Option<&'a RetrySettings>,
    /// The fallback of the request, if it has one.
    pub fallback: Option<&'a Fallback<'a>>,
    /// The request's key for [`Balance::Hash`], if it has one.
    pub affinity: Option<u64>,
    /// The client, which takes turns with others if requests wait for a connection. None: the request
    /// does not wait.
    pub client: Option<ForwardedClient<'a>>,
    /// Where interim responses go, if the client supports them.
    pub interim: Option<&'a InterimRelay>,
    /// Writes the fields about the client, if they are not among those of the request.
    pub forwarding: Option<&'a Forwarding>,
    /// Records the attempts, if there is a record.
    pub attempts: Option<&'a Attempts>,
    /// The time that attempts take is added here.
    pub waited: &'a Cell<Duration>,
    /// Where attempts are counted that were sent to an endpoint, which has neither answered nor said
    /// that it does not process them.
    pub unanswered: Option<&'a Cell<u32>>,
}

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub struct ForwardedClient<'a> {
    /// Its address.
    pub address: &'a IpAddr,
    /// Which addresses are one client.
    pub clients: &'a Clients,
}

impl ForwardedClient<'_> {
    /// The first address of the network that counts as one client.
    pub fn network(&self) -> IpAddr {
        self.clients.network(*self.address)
    }
}

impl<'a> ForwardOptions<'a> {
    /// How a request of the gateway itself is forwarded, which no client and no route describes.
    pub const fn own(timeouts: &'a RouteTimeouts, waited: &'a Cell<Duration>) -> Self {
        Self {
            timeouts,
            retries: None,
            fallback: None,
            affinity: None,
            client: None,
            interim: None,
            forwarding: None,
            attempts: None,
            waited,
            unanswered: None,
        }
    }
}

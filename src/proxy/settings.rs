//! What an upstream is told.

use std::time::Duration;

use http::uri::Authority;

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

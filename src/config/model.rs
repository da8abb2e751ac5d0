//! The compiled configuration: what is true, with every name resolved.

use std::sync::Arc;
use std::time::Duration;

use crate::limiter::HeaderSettings;
use crate::proxy::UpstreamSettings;
use crate::rules::{self, ClientSettings, Policy};
use crate::server::ListenerSettings;
use crate::snapshot::Handling;
use crate::telemetry::TelemetrySettings;

/// A whole configuration that holds together.
#[derive(Clone, Debug)]
pub struct Config {
    /// At least one.
    pub listeners: Vec<ListenerSettings>,
    /// Who is asking.
    pub client: ClientSettings,
    /// Keys that the memory store may hold.
    pub max_keys: usize,
    /// All policies, in the order of the file.
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

/// A route: which requests, and what becomes of them.
#[derive(Clone, Debug)]
pub struct Route {
    /// Which requests, and by which policies they are judged.
    pub rule: rules::Route,
    /// What becomes of them.
    pub handling: Handling,
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

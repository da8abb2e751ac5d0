//! Whether the gateway is well, and if not, why and since when.

use std::cell::RefCell;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_limiter::store::Standing;
use tollgate_limiter::time::Timestamp;

use super::figures::Figures;
use super::node::{Phase, View};
use crate::proxy::{EndpointState, UpstreamShared};

/// The state of the gateway.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct State {
    state: StateWord,
    reasons: Vec<ShownReason>,
    version: &'static str,
    /// How many configurations have been in use.
    generation: u64,
    /// The time since which this one is (RFC 3339).
    loaded: String,
    /// The nodes that share the store.
    nodes: u64,
}

/// Whether the gateway is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum StateWord {
    Ok,
    Degraded,
    Draining,
}

/// Why the gateway is not well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StateReason")]
struct ShownReason {
    code: &'static str,
    /// The time since which this node knows it (RFC 3339).
    since: String,
    text: String,
}

/// The state of the gateway with its rates.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Status")]
pub(super) struct StatusAnswer {
    #[serde(flatten)]
    pub(super) state: State,
    /// The figures of the last minute. Null in the first second of a process.
    pub(super) rates: Option<Figures>,
}

/// An upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Upstream {
    name: String,
    in_flight: Option<usize>,
    max_in_flight: Option<usize>,
    endpoints: Vec<Endpoint>,
}

/// An endpoint of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Endpoint {
    address: String,
    state: EndpointWord,
    /// The milliseconds for which it is still ejected.
    for_ms: Option<u64>,
}

/// Whether an endpoint gets requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum EndpointWord {
    Up,
    Starting,
    Down,
    Ejected,
}

/// Why the gateway is not well: a code, and what it is about.
type Reason = (&'static str, String);

/// The reasons of now, each with the time since which it is one.
#[derive(Debug, Default)]
pub(super) struct Status {
    since: RefCell<BTreeMap<Reason, Timestamp>>,
    store: RefCell<Option<Standing>>,
}

impl Status {
    /// Updates the reasons. To be called regularly. `store` is None if a worker does not
    /// answer; what was known of the store then stays.
    pub(super) fn update(&self, view: &View, store: Option<Option<Standing>>, now: Timestamp) {
        if let Some(store) = store {
            self.store.replace(store);
        }
        let reasons = reasons(view, *self.store.borrow());
        let mut since = self.since.borrow_mut();
        since.retain(|reason, _| reasons.contains(reason));
        for reason in reasons {
            since.entry(reason).or_insert(now);
        }
    }

    /// The answer to a call.
    pub(super) fn answer(&self, view: &View) -> State {
        let since = self.since.borrow();
        let reason = |((code, about), since): (&Reason, &Timestamp)| ShownReason {
            code,
            since: since.to_string(),
            text: text(code, about, view),
        };
        let reasons: Vec<ShownReason> = since.iter().map(reason).collect();
        let state = match (view.phase, reasons.is_empty()) {
            (Phase::Draining, _) => StateWord::Draining,
            (Phase::Serving, true) => StateWord::Ok,
            (Phase::Serving, false) => StateWord::Degraded,
        };
        let store = self.store.borrow();
        State {
            state,
            reasons,
            version: env!("CARGO_PKG_VERSION"),
            generation: view.generation,
            loaded: view.loaded.to_string(),
            nodes: store.map_or(1, |standing| standing.nodes),
        }
    }
}

fn reasons(view: &View, store: Option<Standing>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if view.failure.is_some() {
        reasons.push(("reload_failed", String::new()));
    }
    if store.is_some_and(|standing| !standing.is_up) {
        reasons.push(("store_away", String::new()));
    }
    let down = view.snapshot.upstreams.iter().filter(|upstream| !has_endpoint_up(upstream));
    reasons.extend(down.map(|upstream| ("upstream_down", upstream.settings().name.clone())));
    reasons
}

fn text(code: &str, about: &str, view: &View) -> String {
    match (code, &view.failure) {
        ("reload_failed", Some((at, why))) => {
            format!("the reload at {at} failed, and the configuration before it stays: {why}")
        }
        ("store_away", _) => "not all servers of the store answer: policies decide as their \
                              on_store_failure says"
            .to_owned(),
        ("upstream_down", _) => format!("no endpoint of the upstream {about:?} is in service"),
        _ => String::new(),
    }
}

fn has_endpoint_up(upstream: &UpstreamShared) -> bool {
    let is_up = |state| matches!(state, EndpointState::InService | EndpointState::Starting);
    upstream.health().into_iter().any(|endpoint| is_up(endpoint.state))
}

/// All upstreams with their endpoints, by name.
pub(super) fn upstreams(view: &View) -> Vec<(String, Upstream)> {
    let upstream = |upstream: &UpstreamShared| {
        let endpoints = upstream
            .health()
            .into_iter()
            .map(|endpoint| {
                let (state, for_ms) = match endpoint.state {
                    EndpointState::InService => (EndpointWord::Up, None),
                    EndpointState::Starting => (EndpointWord::Starting, None),
                    EndpointState::Down => (EndpointWord::Down, None),
                    EndpointState::Ejected(rest) => (EndpointWord::Ejected, Some(rest)),
                };
                let for_ms = for_ms.and_then(|it| u64::try_from(it.as_millis()).ok());
                Endpoint { address: endpoint.address.to_string(), state, for_ms }
            })
            .collect();
        let name = upstream.settings().name.clone();
        let shown = Upstream {
            name: name.clone(),
            in_flight: upstream.in_flight(),
            max_in_flight: upstream.settings().max_in_flight,
            endpoints,
        };
        (name, shown)
    };
    view.snapshot.upstreams.iter().map(|it| upstream(it)).collect()
}

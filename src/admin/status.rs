//! Whether the gateway is well, and if not, why and since when.

mod key_rules;
mod present;
mod rule;
mod rules;
#[cfg(test)]
mod tests;
mod traffic_rules;
mod window;
mod xds_rules;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_core::store::OutageCause;
use tollgate_core::time::Timestamp;

pub use self::present::Known;
use self::present::Present;
use self::rules::RULES;
use self::window::Window;
use super::figures::Figures;
use super::node::{Phase, View};
use crate::proxy::{EndpointState, UpstreamShared};
use crate::telemetry::{Metrics, Samples};

/// The state of the gateway.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct State {
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
    /// The alert with the same rule. Null: there is none.
    alert: Option<&'static str>,
    /// The time since which this node knows it (RFC 3339).
    since: String,
    text: String,
    /// What to do.
    advice: &'static str,
}

/// The state of the gateway with its rates.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Status")]
pub struct StatusAnswer {
    #[serde(flatten)]
    pub state: State,
    /// The figures of the last minute. Null in the first second of a process.
    pub rates: Option<Figures>,
}

/// An upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Upstream {
    name: String,
    in_flight: Option<usize>,
    max_in_flight: Option<usize>,
    /// Connections to all endpoints. Null: their number has no bound.
    connections: Option<usize>,
    /// The most connections to each endpoint.
    max_connections: Option<usize>,
    /// Requests that wait for a connection.
    waiting: Option<usize>,
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

/// Why the gateway is not well: the index of a rule, and what it is about.
type Reason = (usize, String);

/// The reasons of now, each with the time since which it is one.
#[derive(Debug)]
pub struct Status {
    since: RefCell<BTreeMap<Reason, Timestamp>>,
    known: RefCell<Known>,
    window: RefCell<Window>,
}

/// All reasons with their numbers.
fn reasons(present: &Present<'_>) -> impl Iterator<Item = (Reason, f64)> {
    RULES.iter().enumerate().flat_map(|(index, rule)| {
        let values = (rule.values)(present).into_iter();
        let found = values.filter(|(_, value)| rule.bound.is_met(*value));
        found.map(move |(about, value)| ((index, about), value))
    })
}

impl Status {
    /// Nothing is known yet. What policies refused before becomes one of `metrics`.
    pub fn new(metrics: &Metrics) -> Self {
        let window = Window::default();
        metrics.add_source(window.source());
        Self { since: RefCell::default(), known: RefCell::default(), window: RefCell::new(window) }
    }

    /// Updates the reasons. To be called regularly. `learn` replaces what is known, and `samples`
    /// reads all metrics.
    pub fn update(
        &self,
        view: &View,
        learn: impl FnOnce(&mut Known),
        samples: impl FnOnce() -> Samples,
        now: Timestamp,
    ) {
        learn(&mut self.known.borrow_mut());
        let mut window = self.window.borrow_mut();
        if window.is_due(now) {
            window.read(&samples(), now);
        }
        let known = self.known.borrow();
        let present = Self::present(view, &known, &window);
        note(&mut self.since.borrow_mut(), &present, now);
    }

    fn present<'p>(view: &'p View, known: &'p Known, window: &'p Window) -> Present<'p> {
        let failure = view.failure.as_ref();
        let upstreams = &view.snapshot.upstreams;
        let origin = view.origin.as_ref();
        Present { failure, origin, upstreams, known, window }
    }

    /// Why servers of the store are not used, each cause once.
    pub fn store_causes(&self) -> BTreeSet<OutageCause> {
        let known = self.known.borrow();
        known.store.iter().flat_map(|it| &it.outages).map(|outage| outage.cause).collect()
    }

    /// The answer to a call.
    pub fn answer(&self, view: &View) -> State {
        let since = self.since.borrow();
        let window = self.window.borrow();
        let known = self.known.borrow();
        let present = Self::present(view, &known, &window);
        // What has begun after the last update has no time yet.
        let found = reasons(&present).filter_map(|(reason, value)| {
            let rule = &RULES[reason.0];
            let since = since.get(&reason)?;
            Some(ShownReason {
                code: rule.code,
                alert: rule.alert,
                since: since.to_string(),
                text: (rule.text)(&present, &reason.1, value),
                advice: rule.advice,
            })
        });
        let reasons: Vec<ShownReason> = found.collect();
        let state = match (view.phase, reasons.is_empty()) {
            (Phase::Draining, _) => StateWord::Draining,
            (Phase::Serving, true) => StateWord::Ok,
            (Phase::Serving, false) => StateWord::Degraded,
        };
        State {
            state,
            reasons,
            version: env!("CARGO_PKG_VERSION"),
            generation: view.generation,
            loaded: view.loaded.to_string(),
            nodes: known.store.as_ref().map_or(1, |standing| standing.nodes),
        }
    }
}

/// Adds the reasons that have begun at `now`, and removes those that have ended.
fn note(since: &mut BTreeMap<Reason, Timestamp>, present: &Present<'_>, now: Timestamp) {
    let found: BTreeSet<Reason> = reasons(present).map(|(reason, _)| reason).collect();
    since.retain(|reason, _| found.contains(reason));
    for reason in found {
        since.entry(reason).or_insert(now);
    }
}

/// All upstreams with their endpoints, by name.
pub fn upstreams(view: &View) -> Vec<(String, Upstream)> {
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
        let counts = upstream.connection_counts();
        let shown = Upstream {
            name: name.clone(),
            in_flight: upstream.in_flight(),
            max_in_flight: upstream.settings().max_in_flight,
            connections: counts.map(|it| it.open),
            max_connections: upstream.settings().connections.map(|it| it.max),
            waiting: counts.map(|it| it.waiting),
            endpoints,
        };
        (name, shown)
    };
    view.snapshot.upstreams.iter().map(|it| upstream(it)).collect()
}

//! Whether the gateway is well, and if not, why and since when.

mod present;
mod rules;
#[cfg(test)]
mod tests;
mod window;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tollgate_limiter::store::Standing;
use tollgate_limiter::time::Timestamp;

use self::present::Present;
use self::rules::RULES;
use self::window::Window;
use super::node::{Phase, View};
use crate::proxy::{EndpointState, UpstreamShared};
use crate::telemetry::Samples;

/// Why the gateway is not well: the index of a rule, and what it is about.
type Reason = (usize, String);

/// The reasons of now, each with the time since which it is one.
#[derive(Debug, Default)]
pub(super) struct Status {
    since: RefCell<BTreeMap<Reason, Timestamp>>,
    store: RefCell<Option<Standing>>,
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
    /// Updates the reasons. To be called regularly. `store` is None if a worker does not
    /// answer; what was known of the store then stays. `samples` reads all metrics.
    pub(super) fn update(
        &self,
        view: &View,
        store: Option<Option<Standing>>,
        samples: impl FnOnce() -> Samples,
        now: Timestamp,
    ) {
        if let Some(store) = store {
            self.store.replace(store);
        }
        let mut window = self.window.borrow_mut();
        if window.is_due(now) {
            window.read(&samples(), now);
        }
        let present = self.present(view, &window);
        note(&mut self.since.borrow_mut(), &present, now);
    }

    fn present<'p>(&self, view: &'p View, window: &'p Window) -> Present<'p> {
        let (failure, upstreams) = (view.failure.as_ref(), &view.snapshot.upstreams);
        Present { failure, upstreams, store: *self.store.borrow(), window }
    }

    /// The answer to a call.
    pub(super) fn answer(&self, view: &View) -> Value {
        let (since, window) = (self.since.borrow(), self.window.borrow());
        let present = self.present(view, &window);
        // What has begun after the last update has no time yet.
        let found = reasons(&present).filter_map(|(reason, value)| {
            let (rule, since) = (&RULES[reason.0], since.get(&reason)?);
            Some(json!({
                "code": rule.code,
                "alert": rule.alert,
                "since": since.to_string(),
                "text": (rule.text)(&present, &reason.1, value),
                "advice": rule.advice,
            }))
        });
        let reasons: Vec<Value> = found.collect();
        let state = match (view.phase, reasons.is_empty()) {
            (Phase::Draining, _) => "draining",
            (Phase::Serving, true) => "ok",
            (Phase::Serving, false) => "degraded",
        };
        json!({
            "state": state,
            "reasons": reasons,
            "version": env!("CARGO_PKG_VERSION"),
            "generation": view.generation,
            "loaded": view.loaded.to_string(),
            "nodes": present.store.map_or(1, |standing| standing.nodes),
        })
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
pub(super) fn upstreams(view: &View) -> Vec<(String, Value)> {
    let upstream = |upstream: &UpstreamShared| {
        let endpoints: Vec<Value> = upstream
            .health()
            .into_iter()
            .map(|endpoint| {
                let (state, for_ms) = match endpoint.state {
                    EndpointState::InService => ("up", None),
                    EndpointState::Starting => ("starting", None),
                    EndpointState::Down => ("down", None),
                    EndpointState::Ejected(rest) => ("ejected", Some(rest)),
                };
                let for_ms = for_ms.and_then(|it| u64::try_from(it.as_millis()).ok());
                json!({ "address": endpoint.address, "state": state, "for_ms": for_ms })
            })
            .collect();
        let name = upstream.settings().name.clone();
        let body = json!({
            "name": name,
            "in_flight": upstream.in_flight(),
            "max_in_flight": upstream.settings().max_in_flight,
            "endpoints": endpoints,
        });
        (name, body)
    };
    view.snapshot.upstreams.iter().map(|it| upstream(it)).collect()
}

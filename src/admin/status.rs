//! Whether the gateway is well, and if not, why and since when.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate_limiter::store::Standing;
use tollgate_limiter::time::Timestamp;

use super::node::{Phase, View};
use crate::proxy::{EndpointState, UpstreamShared};

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
    pub(super) fn answer(&self, view: &View) -> Value {
        let since = self.since.borrow();
        let reasons: Vec<Value> = since
            .iter()
            .map(|((code, about), since)| {
                let text = text(code, about, view);
                json!({ "code": code, "since": since.to_string(), "text": text })
            })
            .collect();
        let state = match (view.phase, reasons.is_empty()) {
            (Phase::Draining, _) => "draining",
            (Phase::Serving, true) => "ok",
            (Phase::Serving, false) => "degraded",
        };
        let store = self.store.borrow();
        json!({
            "state": state,
            "reasons": reasons,
            "version": env!("CARGO_PKG_VERSION"),
            "generation": view.generation,
            "loaded": view.loaded.to_string(),
            "nodes": store.map_or(1, |standing| standing.nodes),
        })
    }
}

fn reasons(view: &View, store: Option<Standing>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if view.failure.is_some() {
        reasons.push(("reload_failed", String::new()));
    }
    if view.origin.is_some() {
        reasons.push(("config_not_from_file", String::new()));
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
        ("config_not_from_file", _) => view.origin.as_ref().map_or_else(String::new, |by| {
            format!(
                "since {} this node runs a configuration that {} gave by a call; a change of the \
                 file, SIGHUP or a restart ends that",
                by.at, by.actor
            )
        }),
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

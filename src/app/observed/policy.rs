//! What a scrape says of a policy, whatever requests it has judged.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tollgate_core::digest::Counter;
use tollgate_core::policy::{Cost, Mode, Plan, Policy};

use crate::snapshot::Snapshot;
use crate::telemetry::{Samples, families};

/// The policies of all routes. A policy of several routes is among them several times.
pub fn of_routes(snapshot: &Snapshot) -> impl Iterator<Item = &Arc<Policy>> {
    (0..snapshot.routes.len()).flat_map(|index| &snapshot.rules.route(index).policies)
}

/// The counters that policies of each name have had in this process. A counter belongs to one
/// algorithm and one window, so a reload can give a policy other ones. What was counted with those
/// before still counts, because a counter of Prometheus never falls.
#[derive(Debug, Default)]
pub struct KnownCounters(BTreeMap<Arc<str>, HashSet<Counter>>);

impl KnownCounters {
    /// Adds the counters of the policies in use.
    pub fn note(&mut self, snapshot: &Snapshot) {
        for policy in of_routes(snapshot) {
            let known = self.0.entry(Arc::clone(&policy.name)).or_default();
            known.extend(policy.counters());
        }
    }

    /// All counters of the policies with this name.
    pub fn of(&self, policy: &str) -> impl Iterator<Item = &Counter> {
        self.0.get(policy).into_iter().flatten()
    }
}

/// The policies of all routes: their limits, and the series of their decisions. `is_shared`: their
/// counters can be in a shared store.
pub fn collect(snapshot: &Snapshot, is_shared: bool, samples: &mut Samples) {
    let has_keys = snapshot.rules.clients().settings().keys.is_some();
    for policy in of_routes(snapshot) {
        collect_limits(policy, snapshot.patches.is_patched(&policy.name), samples);
        begin_decisions(policy, is_shared, has_keys, samples);
    }
}

/// The limits of a policy.
fn collect_limits(policy: &Policy, is_patched: bool, samples: &mut Samples) {
    let name = &*policy.name;
    let mode = match policy.mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
    };
    let patched = if is_patched { "true" } else { "false" };
    let labels = [name, mode, policy.algorithm.name(), patched];
    samples.set_whole(&families::POLICY_INFO, &labels, 1);
    samples.set_seconds(&families::LIMIT_WINDOW, &[name], policy.algorithm.window());
    if !policy.is_unlimited {
        samples.set_whole(&families::LIMIT_UNITS, &[name, ""], policy.algorithm.limit());
    }
    for (plan, limit) in policy.plans.iter().flat_map(|plans| &plans.limits) {
        if let Plan::Limited { algorithm, .. } = limit {
            samples.set_whole(&families::LIMIT_UNITS, &[name, plan], algorithm.limit());
        }
    }
}

/// Begins the series of decisions that alerts watch, so that an alert sees the first ones. The
/// memory of this node never fails. With `has_keys`, API keys can have limits of their own.
fn begin_decisions(policy: &Policy, is_shared: bool, has_keys: bool, samples: &mut Samples) {
    let limits = policy.plans.iter().flat_map(|plans| &plans.limits);
    let plans = limits.filter(|(_, limit)| matches!(limit, Plan::Limited { .. }));
    let own = (!policy.is_unlimited).then_some("");
    let of_key = policy.overrides.as_ref().map(|_| "_override");
    let outcomes = [
        ("refused", policy.mode == Mode::Enforce),
        ("banned", policy.mode == Mode::Enforce && policy.penalty.is_some()),
        ("failed_open", is_shared),
    ];
    if has_keys {
        samples.begin(&families::DECISIONS, &[&policy.name, "", "key_limit_unfit"]);
    }
    if has_keys || policy.overrides.is_some() {
        samples.begin(&families::IGNORED_LIMITS, &[&policy.name]);
    }
    if matches!(policy.cost, Cost::Metered { .. }) {
        for cause in ["absent", "encoded"] {
            samples.begin(&families::UNSETTLED_REQUESTS, &[&policy.name, cause]);
        }
    }
    for share in policy.warn.iter().flat_map(|shares| shares.iter()) {
        samples.begin(&families::WARNED, &[&policy.name, &share.to_string()]);
    }
    let of_api_key = has_keys.then_some(["_key", "_team"]).into_iter().flatten();
    for plan in plans.map(|(name, _)| &**name).chain(own).chain(of_key).chain(of_api_key) {
        for (outcome, _) in outcomes.iter().filter(|(_, can_be)| *can_be) {
            samples.begin(&families::DECISIONS, &[&policy.name, plan, outcome]);
        }
    }
}

//! The definitions of policies.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tollgate_limiter::algorithm::Algorithm;
use tollgate_limiter::consistency::{OnFailure, StoreMode};
use tollgate_limiter::policy::{Cost, MissingKey, Mode, Plan, Policy};

use super::node::View;
use super::problem::Problem;

/// The policy of this name.
///
/// # Errors
/// 404, if there is none.
pub(super) fn policy(view: &View, name: &str) -> Result<Arc<Policy>, Problem> {
    let found = view.snapshot.policies.iter().find(|policy| &*policy.name == name);
    found.cloned().ok_or_else(|| Problem::not_found(format!("there is no policy {name:?}")))
}

/// A limit.
pub(super) fn limit_of(algorithm: &Algorithm) -> Value {
    json!({
        "units": algorithm.limit(),
        "window_ms": algorithm.window().as_millis_ceil(),
        "burst": algorithm.capacity(),
    })
}

/// What a policy does.
pub(super) fn definition(policy: &Policy) -> Value {
    let plans = policy.plans.as_ref().map(|plans| {
        let limits = plans.limits.iter().map(|(name, plan)| {
            let limit = match plan {
                Plan::Unlimited => json!("unlimited"),
                Plan::Limited { algorithm, .. } => limit_of(algorithm),
            };
            (name.to_string(), limit)
        });
        json!({ "from": plans.from.form(), "limits": limits.collect::<Map<_, _>>() })
    });
    let limit = match policy.is_unlimited {
        true => json!("unlimited"),
        false => limit_of(&policy.algorithm),
    };
    let penalty = policy.penalty.as_ref().map(|it| json!({ "after": limit_of(&it.after) }));
    json!({
        "name": *policy.name,
        "key": policy.key.form(),
        "algorithm": policy.algorithm.name(),
        "limit": limit,
        "soft": policy.soft.as_ref().map(limit_of),
        "mode": match policy.mode { Mode::Enforce => "enforce", Mode::Shadow => "shadow" },
        "cost": cost(&policy.cost),
        "missing_key": match policy.missing_key {
            MissingKey::Ip => "ip",
            MissingKey::Skip => "skip",
            MissingKey::Deny => "deny",
            MissingKey::Unauthorized => "unauthorized",
        },
        "plans": plans,
        "penalty": penalty,
        "elastic": policy.elastic.as_ref().map(|it| json!({ "beyond": limit_of(&it.beyond) })),
        "overrides": policy.overrides.is_some(),
        "store_mode": match policy.consistency.mode {
            StoreMode::Exact => "exact",
            StoreMode::Leased => "leased",
            StoreMode::WriteBack => "write_back",
        },
        "on_store_failure": match policy.consistency.on_failure {
            OnFailure::Local => "local",
            OnFailure::Allow => "allow",
            OnFailure::Deny => "deny",
        },
    })
}

fn cost(cost: &Cost) -> Value {
    match cost {
        Cost::Fixed(units) => json!(units),
        Cost::Field { name, default, max } => {
            json!({ "header": name.as_str(), "default": default, "max": max })
        }
        Cost::Body { unit_bytes } => json!({ "body_unit_bytes": unit_bytes }),
        Cost::Metered { reserve, .. } => json!({ "reserve": reserve, "settled": true }),
    }
}

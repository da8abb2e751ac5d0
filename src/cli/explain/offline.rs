//! A request explained by a configuration, without a gateway. The counters are empty, or have
//! the units of `--used`.

use std::sync::Arc;

use tollgate_core::decision::{Decision, HeaderWriter, RateLimiter};
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::policy::Policy;
use tollgate_core::routes::Rules;
use tollgate_core::store::{MemoryStore, Store};
use tollgate_core::time::Clock;

use super::args::Used;
use super::problem::Problem;
use crate::config::Config;
use crate::engine::{Asked, Explaining, Explanation, explain, preset};
use crate::patches::Resolved;

/// More counters than one request has.
const MAX_KEYS: usize = 1000;

/// What the request would get from a gateway with this configuration.
///
/// # Errors
/// If `used` names a policy that does not exist.
pub async fn explained(
    config: Config,
    used: &[Used],
    clock: &Clock,
    asked: &Asked,
) -> Result<Explanation, Problem> {
    let names: Vec<String> = config.policies.iter().map(|it| it.name.to_string()).collect();
    let unknown = used.iter().filter_map(|it| it.policy.as_ref()).find(|it| !names.contains(it));
    if let Some(unknown) = unknown {
        return Err(Problem::NoPolicy { name: unknown.clone(), known: names });
    }
    let has_overrides = config.policies.iter().any(|policy| policy.overrides.is_some());
    let headers = HeaderWriter::new(&config.headers);
    let routes = config.routes.iter().map(|route| route.rule.clone()).collect();
    let edited = config.routes.iter().filter_map(|route| route.handling.changes.as_ref());
    let edited = edited.flat_map(|changes| changes.request.names().cloned());
    // The ids of keys are the same in every run.
    let secret = Arc::new(SharedSecret::new(Secret::from_bytes(*b"tollgate explain")));
    let rules = Rules::new(routes, config.client, secret).guarding(edited);
    let memory = Arc::new(MemoryStore::new(MAX_KEYS));
    let limiter = RateLimiter::new(Store::Memory(Arc::clone(&memory)));
    let patches = Resolved::default();
    let headroom = |_| None;
    let overflow = |route: usize, decision: &Decision<&Arc<Policy>>| {
        rules.route(route).overflow.as_deref()?.route_after(decision)
    };
    let with = Explaining {
        rules: &rules,
        headers: &headers,
        patches: &patches,
        headroom: &headroom,
        overflow: &overflow,
    };
    let units = |policy: &str| {
        let of = |it: &&Used| it.policy.as_deref() == Some(policy);
        let all = |it: &&Used| it.policy.is_none();
        used.iter().rev().find(of).or_else(|| used.iter().rev().find(all)).map(|it| it.units)
    };
    preset(&limiter, &memory, clock, &with, asked, units).await;
    let mut explanation = explain(&limiter, None, clock, &with, asked).await;
    if has_overrides {
        explanation
            .warnings
            .push("limits of single keys are not read without a gateway".to_owned());
    }
    Ok(explanation)
}

#[cfg(test)]
mod tests;

//! Counters that are set before a request is explained, for `tollgate explain --used`.

use std::collections::HashSet;
use std::sync::Arc;

use tollgate_core::algorithm::{Algorithm, Op};
use tollgate_core::decision::{RateLimiter, Report};
use tollgate_core::digest::Key;
use tollgate_core::policy::Policy;
use tollgate_core::store::{Charge, MemoryStore};
use tollgate_core::time::{Clock, Timestamp};

use super::super::Placed;
use super::{Asked, Explaining, asked_first, is_preflight, place, with_values};

/// Counts units for the client of a request, under each policy of its route for which `used`
/// returns a number. If the request overflows then, the same is done for the later route. `memory`
/// is the store of `limiter`.
pub async fn preset(
    limiter: &RateLimiter,
    memory: &MemoryStore,
    clock: &Clock,
    with: &Explaining<'_>,
    asked: &Asked,
    used: impl Fn(&str) -> Option<u64>,
) {
    let now = clock.now();
    let mut later = None;
    let mut counted = HashSet::new();
    // A request is judged twice at most.
    for _ in 0..2 {
        let Ok(request) = asked.view() else { return };
        let values = asked.values(with.rules, later, &request);
        let request = with_values(request, values.as_ref());
        let Ok(placed) = place(with.rules, later, &request, clock.wall()) else { return };
        let Placed { route: index, subject, .. } = placed;
        let route = with.rules.route(index);
        if !is_preflight(route, &request) && route.needs_user() {
            subject.assume_password();
        }
        let policies = asked_first(route);
        let peeked = limiter.peek(&policies, &subject, Default::default(), now).await;
        for report in &peeked.decision.reports {
            if let Some(units) = used(&report.policy.name)
                && counted.insert(Arc::clone(&report.policy.name))
            {
                count(memory, report, units, now);
            }
        }
        let peeked = limiter.peek(&policies, &subject, Default::default(), now).await;
        later = (with.overflow)(index, &peeked.decision);
        if later.is_none() {
            return;
        }
    }
}

/// Counts units for the key of a report.
fn count(memory: &MemoryStore, report: &Report<&Arc<Policy>>, units: u64, now: Timestamp) {
    let limit = report.policy.limit(report.choice);
    let charge = Charge {
        key: Key { principal: report.client, counter: report.policy.counter },
        algorithm: limit.soft.unwrap_or(limit.algorithm),
        cost: units,
        binding: true,
        consistency: report.policy.consistency,
    };
    match charge.algorithm {
        // Units in flight cannot exceed their limit.
        Algorithm::Concurrency(_) => {
            let cost = units.min(charge.algorithm.limit());
            memory.apply(&[Charge { cost, ..charge }], now);
        }
        _ => {
            let op = Op::Settle { reserved: 0, actual: units, taken: now };
            memory.correct(&charge, op, now);
        }
    }
}

//! Counters that are set before a request is explained, for `tollgate explain --used`.

use tollgate_core::algorithm::{Algorithm, Op};
use tollgate_core::decision::RateLimiter;
use tollgate_core::digest::Key;
use tollgate_core::store::{Charge, MemoryStore};
use tollgate_core::time::Clock;

use super::super::Placed;
use super::super::view::{PeerView, view};
use super::{Asked, Explaining};

/// Counts units for the client of a request, under each policy of its route for which `used`
/// returns a number. `memory` is the store of `limiter`.
pub async fn preset(
    limiter: &RateLimiter,
    memory: &MemoryStore,
    clock: &Clock,
    with: &Explaining<'_>,
    asked: &Asked,
    used: impl Fn(&str) -> Option<u64>,
) {
    let identity = asked.identity.as_deref();
    let peer = PeerView { address: asked.peer, may_forward: true, identity };
    let Ok(request) = view(&asked.head, peer, false) else { return };
    let Ok(placed) = Placed::find(with.rules, &request, clock.wall()) else { return };
    let Placed { route: index, subject, .. } = placed;
    let policies = &with.rules.route(index).policies;
    let now = clock.now();
    let peeked = limiter.peek(policies, &subject, Default::default(), now).await;
    for report in &peeked.decision.reports {
        let Some(units) = used(&report.policy.name) else { continue };
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
}

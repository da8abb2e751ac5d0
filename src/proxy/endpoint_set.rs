//! The endpoints of an upstream as one worker knows them, until they change.

use std::rc::Rc;
use std::sync::Arc;

use super::balance::{Balancer, Candidate};
use super::endpoint::{Bound, Endpoint, IdleRoom};
use super::health;
use super::shared::UpstreamShared;
use crate::telemetry::UpstreamTraffic;

/// The endpoints, and the choice of the one that gets the next request.
#[derive(Debug)]
pub struct EndpointSet {
    generation: u64,
    /// The next time at which slow start changes a weight.
    changes_at_us: Option<u64>,
    pub endpoints: Vec<Rc<Endpoint>>,
    pub balancer: Balancer,
}

impl EndpointSet {
    /// The endpoints as they are now. Endpoints that are also in `before` keep their
    /// connections. The others of `before` are dropped with their idle connections.
    pub fn new(
        upstream: &UpstreamShared,
        before: &[Rc<Endpoint>],
        traffic: &UpstreamTraffic,
        room: &Rc<IdleRoom>,
        bound: Option<&Bound>,
    ) -> Self {
        let generation = upstream.generation();
        let now_us = upstream.now_us();
        let settings = upstream.settings();
        let all = upstream.endpoints();
        let mut changes_at_us: Option<u64> = None;
        let mut candidates: Vec<Candidate> = Vec::with_capacity(all.len());
        for shared in &all {
            let from_us = shared.in_service_from_us();
            let (percent, next_us) = health::share_percent(from_us, now_us, settings.slow_start);
            changes_at_us = [changes_at_us, next_us].into_iter().flatten().min();
            let weight = shared.weight.saturating_mul(percent);
            candidates.push(Candidate { identity: shared.identity, weight });
        }
        // If no endpoint is in service, all of them get requests: their health may be
        // judged wrongly, and requests without an endpoint fail in any case.
        if candidates.iter().all(|candidate| candidate.weight == 0) {
            for (candidate, shared) in candidates.iter_mut().zip(&all) {
                candidate.weight = shared.weight;
            }
        }
        if let Some(connections) = upstream.connections() {
            let in_service = candidates.iter().map(|it| (it.identity, it.weight > 0));
            connections.limit.set_endpoints(connections.version, in_service);
        }
        let endpoints = all.into_iter().map(|shared| {
            let known = before.iter().find(|it| Arc::ptr_eq(it.shared(), &shared));
            let new = || Rc::new(Endpoint::new(shared, settings, traffic, room, bound));
            known.cloned().unwrap_or_else(new)
        });
        Self {
            generation,
            changes_at_us,
            endpoints: endpoints.collect(),
            balancer: Balancer::new(settings.balance, candidates),
        }
    }

    /// Whether the endpoints or their weights have changed.
    pub fn is_outdated(&self, upstream: &UpstreamShared) -> bool {
        upstream.generation() != self.generation
            || self.changes_at_us.is_some_and(|at_us| at_us <= upstream.now_us())
    }
}

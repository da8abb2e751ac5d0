//! The endpoints of an upstream as one worker knows them, until they change.

use std::rc::Rc;
use std::sync::Arc;

use super::balance::{Balancer, Candidate};
use super::endpoint::Endpoint;
use super::health;
use super::shared::UpstreamShared;

/// The endpoints, and who gets the next request.
#[derive(Debug)]
pub(super) struct Roster {
    generation: u64,
    /// When an endpoint's share changes by itself, if one will.
    changes_at_us: Option<u64>,
    pub(super) endpoints: Vec<Rc<Endpoint>>,
    pub(super) balancer: Balancer,
}

impl Roster {
    /// The endpoints as they are now. Those known before keep their connections;
    /// the others of them are let go, which closes what is idle of theirs.
    pub(super) fn new(shared: &UpstreamShared, before: &[Rc<Endpoint>]) -> Self {
        let (generation, now_us) = (shared.generation(), shared.now_us());
        let settings = shared.settings();
        let members = shared.members();
        let mut changes_at_us: Option<u64> = None;
        let mut candidates: Vec<Candidate> = Vec::with_capacity(members.len());
        for member in &members {
            let from_us = member.in_service_from_us();
            let (percent, next_us) = health::share_percent(from_us, now_us, settings.slow_start);
            changes_at_us = [changes_at_us, next_us].into_iter().flatten().min();
            let weight = member.weight.saturating_mul(percent);
            candidates.push(Candidate { identity: member.identity, weight });
        }
        // To send everything nowhere would help nobody: what is said of the
        // endpoints may be wrong, and what fails can fail there as well as here.
        if candidates.iter().all(|candidate| candidate.weight == 0) {
            for (candidate, member) in candidates.iter_mut().zip(&members) {
                candidate.weight = member.weight;
            }
        }
        let endpoints = members.into_iter().map(|member| {
            let known = before.iter().find(|it| Arc::ptr_eq(it.member(), &member));
            known.cloned().unwrap_or_else(|| Rc::new(Endpoint::new(member, settings)))
        });
        Self {
            generation,
            changes_at_us,
            endpoints: endpoints.collect(),
            balancer: Balancer::new(settings.balance, candidates),
        }
    }

    /// Whether it is not what it was.
    pub(super) fn is_outdated(&self, shared: &UpstreamShared) -> bool {
        shared.generation() != self.generation
            || self.changes_at_us.is_some_and(|at_us| at_us <= shared.now_us())
    }
}

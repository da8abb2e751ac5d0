//! An upstream as one worker sees it.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use smallvec::SmallVec;

use super::endpoint::{Endpoint, Lease};
use super::retry::{self, Budget};
use super::roster::Roster;
use super::shared::{Place, UpstreamShared};
use crate::gradient::LatencyGradient;
use crate::message::Failure;
use crate::time::{Span, monotonic};

/// How an upstream is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// How long it takes to answer, of late; none before its first answer.
    pub latency: Option<Span>,
    /// What it has in flight, in percent of `max_in_flight`, if that is bounded.
    pub in_flight_percent: Option<u8>,
    /// Whether it takes longer and longer.
    pub is_slowing: bool,
}

/// An upstream as one worker sees it.
#[derive(Debug)]
pub(super) struct Upstream {
    shared: Arc<UpstreamShared>,
    roster: RefCell<Roster>,
    budget: RefCell<Budget>,
    rng: RefCell<Rng>,
    latency: RefCell<LatencyGradient>,
}

/// The endpoints at which a request has failed.
pub(super) type Tried = SmallVec<[Rc<Endpoint>; 2]>;

impl Upstream {
    pub(super) fn new(shared: Arc<UpstreamShared>) -> Self {
        Self {
            roster: RefCell::new(Roster::new(&shared, &[])),
            shared,
            budget: RefCell::new(Budget::new(monotonic())),
            rng: RefCell::new(Rng::new()),
            latency: RefCell::default(),
        }
    }

    /// What all workers share of it.
    pub(super) fn shared(&self) -> &Arc<UpstreamShared> {
        &self.shared
    }

    /// Takes the request with this place and this key to one of the endpoints,
    /// if it can to one that it has not tried.
    ///
    /// # Errors
    /// If there is no endpoint.
    pub(super) fn lease(
        &self,
        place: Option<Place>,
        affinity: Option<u64>,
        tried: &Tried,
    ) -> Result<Lease, Failure> {
        self.refresh();
        let Roster { endpoints, balancer, .. } = &mut *self.roster.borrow_mut();
        let rng = &mut self.rng.borrow_mut();
        let load = |index: usize| endpoints[index].load();
        let mut chosen = None;
        if !tried.is_empty() {
            let is_tried = |index: usize| is_among(&endpoints[index], tried);
            chosen = balancer.without(is_tried).choose(rng, affinity, load);
        }
        let chosen = chosen.or_else(|| balancer.choose(rng, affinity, load));
        let chosen = chosen.ok_or(Failure::UpstreamUnresolved)?;
        Ok(Lease::new(Rc::clone(&endpoints[chosen]), place))
    }

    /// Whether all endpoints have been tried.
    pub(super) fn is_exhausted(&self, tried: &Tried) -> bool {
        self.roster.borrow().endpoints.iter().all(|endpoint| is_among(endpoint, tried))
    }

    /// Learns what has become of the endpoints.
    fn refresh(&self) {
        if self.roster.borrow().is_outdated(&self.shared) {
            let renewed = Roster::new(&self.shared, &self.roster.borrow().endpoints);
            self.roster.replace(renewed);
        }
    }

    /// Retries that this worker may spend.
    pub(super) fn budget(&self) -> RefMut<'_, Budget> {
        self.budget.borrow_mut()
    }

    /// How long a request waits before its retry with this number.
    pub(super) fn pause(&self, number: u32) -> Duration {
        retry::pause(&mut self.rng.borrow_mut(), number)
    }

    /// An endpoint took so long to answer.
    pub(super) fn observe(&self, latency: Span) {
        self.latency.borrow_mut().observe(latency);
    }

    /// How it is doing.
    pub(super) fn pressure(&self) -> Pressure {
        let latency = self.latency.borrow();
        Pressure {
            latency: latency.latency(),
            in_flight_percent: self.shared.in_flight_percent(),
            is_slowing: latency.is_slowing(),
        }
    }

    /// Closes what has been idle for too long, and what nobody needs any more.
    pub(super) fn close_expired(&self) {
        self.refresh();
        self.roster.borrow().endpoints.iter().for_each(|endpoint| endpoint.close_expired());
    }
}

fn is_among(endpoint: &Rc<Endpoint>, tried: &Tried) -> bool {
    tried.iter().any(|it| Rc::ptr_eq(it, endpoint))
}

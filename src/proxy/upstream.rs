//! An upstream as one worker sees it.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use smallvec::SmallVec;
use tollgate_core::time::{Span, monotonic};
use tracing::warn;

use super::endpoint::{Bound, Endpoint, IdleRoom, InFlight, Room};
use super::endpoint_set::EndpointSet;
use super::fault::Fault;
use super::gradient::LatencyGradient;
use super::retry::{self, Budget};
use super::shared::{RequestPermit, UpstreamShared};
use crate::message::Failure;
use crate::telemetry::{UpstreamMetrics, Warnings, WorkerMetrics};

/// How much load an upstream has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// The recent time until a response; none before the first response.
    pub latency: Option<Span>,
    /// Requests in flight, in percent of `max_in_flight`, if that is set.
    pub in_flight_percent: Option<u8>,
    /// Whether the latency is rising.
    pub is_slowing: bool,
}

/// An upstream as one worker sees it.
#[derive(Debug)]
pub struct Upstream {
    shared: Arc<UpstreamShared>,
    endpoints: RefCell<EndpointSet>,
    /// The bound of the connections, if there is one.
    bound: Option<Bound>,
    budget: RefCell<Budget>,
    rng: RefCell<Rng>,
    latency: RefCell<LatencyGradient>,
    metrics: UpstreamMetrics,
    room: Rc<IdleRoom>,
    /// Of responses with too large a head.
    warnings: Warnings,
    /// Of failed TLS handshakes.
    handshake_warnings: Warnings,
    /// Of requests that get no connection.
    queue_warnings: Warnings,
}

/// The endpoints at which a request has failed.
pub type Tried = SmallVec<[Rc<Endpoint>; 2]>;

impl Upstream {
    pub fn new(
        shared: Arc<UpstreamShared>,
        metrics: &Rc<WorkerMetrics>,
        room: &Rc<IdleRoom>,
    ) -> Self {
        let metrics = UpstreamMetrics::new(metrics, &shared.settings().name);
        let bound = shared.connections().map(|connections| Bound {
            limit: Arc::clone(&connections.limit),
            room: Rc::new(Room::new()),
        });
        if bound.is_some() {
            metrics.has_queue();
        }
        let set = EndpointSet::new(&shared, &[], metrics.traffic(), room, bound.as_ref());
        Self {
            endpoints: RefCell::new(set),
            bound,
            queue_warnings: Warnings::default(),
            metrics,
            room: Rc::clone(room),
            warnings: Warnings::default(),
            handshake_warnings: Warnings::default(),
            shared,
            budget: RefCell::new(Budget::new(monotonic())),
            rng: RefCell::new(Rng::new()),
            latency: RefCell::default(),
        }
    }

    /// The part that all workers share.
    pub fn shared(&self) -> &Arc<UpstreamShared> {
        &self.shared
    }

    /// What this worker counts of it.
    pub fn metrics(&self) -> &UpstreamMetrics {
        &self.metrics
    }

    /// Assigns a request to an endpoint, if possible to one that it has not tried.
    ///
    /// # Errors
    /// If there is no endpoint.
    pub fn assign(
        &self,
        permit: Option<RequestPermit>,
        affinity: Option<u64>,
        tried: &Tried,
    ) -> Result<InFlight, Failure> {
        self.refresh();
        let EndpointSet { endpoints, balancer, .. } = &mut *self.endpoints.borrow_mut();
        let rng = &mut self.rng.borrow_mut();
        let load = |index: usize| endpoints[index].load();
        let mut chosen = None;
        if !tried.is_empty() {
            let is_tried = |index: usize| is_among(&endpoints[index], tried);
            chosen = balancer.without(is_tried).choose(rng, affinity, load);
        }
        let chosen = chosen.or_else(|| balancer.choose(rng, affinity, load));
        let chosen = chosen.ok_or_else(|| {
            self.shared.doubt_addresses();
            Failure::UpstreamUnresolved
        })?;
        Ok(InFlight::new(Rc::clone(&endpoints[chosen]), permit))
    }

    /// Whether all endpoints have been tried that get requests.
    pub fn is_exhausted(&self, tried: &Tried) -> bool {
        let EndpointSet { endpoints, balancer, .. } = &*self.endpoints.borrow();
        let mut untried = (0..endpoints.len()).filter(|it| !is_among(&endpoints[*it], tried));
        !untried.any(|index| balancer.serves(index))
    }

    /// The bound of the connections, if there is one.
    pub const fn bound(&self) -> Option<&Bound> {
        self.bound.as_ref()
    }

    /// The endpoints as they were when they were used last.
    pub(super) const fn endpoints(&self) -> &RefCell<EndpointSet> {
        &self.endpoints
    }

    pub(super) const fn rng(&self) -> &RefCell<Rng> {
        &self.rng
    }

    pub(super) const fn queue_warnings(&self) -> &Warnings {
        &self.queue_warnings
    }

    /// Applies changes of the endpoints.
    pub(super) fn refresh(&self) {
        if self.endpoints.borrow().is_outdated(&self.shared) {
            let before = &self.endpoints.borrow().endpoints.clone();
            let traffic = self.metrics.traffic();
            let current =
                EndpointSet::new(&self.shared, before, traffic, &self.room, self.bound.as_ref());
            self.endpoints.replace(current);
        }
    }

    /// The retry budget of this worker.
    pub fn budget(&self) -> RefMut<'_, Budget> {
        self.budget.borrow_mut()
    }

    /// The pause before the retry with this number.
    pub fn pause(&self, number: u32) -> Duration {
        retry::pause(&mut self.rng.borrow_mut(), number)
    }

    /// Records the latency of a response.
    pub fn observe(&self, latency: Span) {
        self.latency.borrow_mut().observe(latency);
    }

    /// Records that an attempt has failed.
    pub fn failed(&self, endpoint: &Endpoint, fault: Fault, took: Duration) {
        self.metrics.failed(fault.failure().reason(), took);
        match fault {
            Fault::Unreachable | Fault::ConnectTimeout => self.shared.doubt_addresses(),
            Fault::Untrusted => {
                self.shared.doubt_addresses();
                self.warn_of_handshake(endpoint);
            }
            Fault::Exhausted => self.room.set_exhausted(true),
            Fault::HeadTooLarge => self.warn_of_large_head(endpoint),
            Fault::QueueFull | Fault::QueueTimeout => {
                self.refused(fault);
            }
            _ => {}
        }
    }

    /// Warns of a response with too large a head, but not of each: clients may cause them.
    fn warn_of_large_head(&self, endpoint: &Endpoint) {
        if self.warnings.is_due(monotonic()) {
            warn!(
                upstream = %self.shared.settings().name,
                address = %endpoint.shared().shown,
                "{}, and is not relayed: let the application send fewer or shorter fields",
                Failure::UpstreamHeadTooLarge
            );
        }
    }

    /// Warns of a failed TLS handshake, but not of each: each request may cause one.
    pub fn warn_of_handshake(&self, endpoint: &Endpoint) {
        if let Some(failure) = endpoint.shared().handshake_failure()
            && self.handshake_warnings.is_due(monotonic())
        {
            warn!(
                upstream = %self.shared.settings().name,
                address = %endpoint.shared().shown,
                error = %failure,
                remedy = failure.remedy,
                "no connection to an endpoint can be opened"
            );
        }
    }

    /// Its load.
    pub fn pressure(&self) -> Pressure {
        let latency = self.latency.borrow();
        Pressure {
            latency: latency.latency(),
            in_flight_percent: self.shared.in_flight_percent(),
            is_slowing: latency.is_slowing(),
        }
    }

    /// Closes connections that have been idle for too long, and those of endpoints that
    /// have been removed. Shows the bytes of all connections in the metrics.
    pub fn close_expired(&self) {
        self.metrics.count_traffic();
        self.refresh();
        self.endpoints.borrow().endpoints.iter().for_each(|endpoint| endpoint.close_expired());
    }
}

/// Whether the request has failed at this endpoint.
pub fn is_among(endpoint: &Rc<Endpoint>, tried: &Tried) -> bool {
    tried.iter().any(|it| Rc::ptr_eq(it, endpoint))
}

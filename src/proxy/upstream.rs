//! An upstream: what all workers share of it, and what each has for itself.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;
use http::uri::Authority;

use super::balance::Balancer;
use super::endpoint::{Endpoint, Lease};
use super::{Target, UpstreamSettings};
use crate::gradient::LatencyGradient;
use crate::message::Failure;
use crate::time::Span;

/// What all workers share of an upstream.
#[derive(Debug)]
pub struct UpstreamShared {
    settings: UpstreamSettings,
    in_flight: Arc<AtomicUsize>,
}

impl UpstreamShared {
    /// An upstream without requests.
    pub fn new(settings: UpstreamSettings) -> Self {
        Self { settings, in_flight: Arc::default() }
    }

    /// What it was made of. Who makes another one of the same can keep this one.
    pub fn settings(&self) -> &UpstreamSettings {
        &self.settings
    }

    /// The upstream with other settings. What is in flight stays in flight.
    pub fn changed(&self, settings: UpstreamSettings) -> Self {
        Self { settings, in_flight: Arc::clone(&self.in_flight) }
    }

    /// Requests in flight in percent of the most that there may be, rounded up.
    fn in_flight_percent(&self) -> Option<u8> {
        let max = self.settings.max_in_flight?.max(1);
        let in_flight = self.in_flight.load(Ordering::Relaxed).min(max);
        Some(u8::try_from(in_flight.saturating_mul(100).div_ceil(max)).unwrap_or(u8::MAX))
    }

    /// A place for one more request, if there must be one.
    fn place(&self) -> Result<Option<Place>, Failure> {
        let Some(max) = self.settings.max_in_flight else {
            return Ok(None);
        };
        let place = Place(Arc::clone(&self.in_flight));
        // Counted first, so that of two that come at once one sees the other.
        if place.0.fetch_add(1, Ordering::Relaxed) < max {
            Ok(Some(place))
        } else {
            Err(Failure::UpstreamBusy)
        }
    }
}

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

/// One of the requests that an upstream may have in flight; dropped with it.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An upstream as one worker sees it.
#[derive(Debug)]
pub(super) struct Upstream {
    shared: Arc<UpstreamShared>,
    endpoints: Vec<Rc<Endpoint>>,
    balancer: RefCell<Balancer>,
    latency: RefCell<LatencyGradient>,
}

impl Upstream {
    /// `echo` is where `builtin:echo` listens.
    pub(super) fn new(shared: Arc<UpstreamShared>, echo: &Authority) -> Self {
        let settings = &shared.settings;
        let endpoints = settings
            .endpoints
            .iter()
            .map(|endpoint| match &endpoint.target {
                Target::Http(authority) => authority,
                Target::Echo => echo,
            })
            .map(|authority| Rc::new(Endpoint::new(authority, settings)))
            .collect();
        let weights = settings.endpoints.iter().map(|endpoint| endpoint.weight).collect();
        let balancer = RefCell::new(Balancer::new(settings.balance, weights));
        Self { shared, endpoints, balancer, latency: RefCell::default() }
    }

    /// What all workers share of it.
    pub(super) fn shared(&self) -> &Arc<UpstreamShared> {
        &self.shared
    }

    /// Takes a place at one of the endpoints.
    ///
    /// # Errors
    /// If the upstream has as many requests in flight as it may.
    pub(super) fn lease(&self, rng: &mut Rng) -> Result<Lease, Failure> {
        let place = self.shared.place()?;
        let load = |index: usize| self.endpoints[index].load();
        let chosen = self.balancer.borrow_mut().choose(rng, load);
        Ok(Lease::new(Rc::clone(&self.endpoints[chosen]), place))
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

    /// See [`Endpoint::close_expired`].
    pub(super) fn close_expired(&self) {
        self.endpoints.iter().for_each(|endpoint| endpoint.close_expired());
    }
}

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
use crate::message::Failure;

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
        Self { shared, endpoints, balancer }
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

    /// See [`Endpoint::close_expired`].
    pub(super) fn close_expired(&self) {
        self.endpoints.iter().for_each(|endpoint| endpoint.close_expired());
    }
}

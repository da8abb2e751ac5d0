//! The part of an upstream that all workers share: its endpoints, their health, and
//! the number of requests in flight.
//!
//! A request reads only atomics. The lock is taken by the control thread, for an
//! ejection, and by a worker that has noticed a change.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tollgate_core::time::{Span, monotonic};
use tracing::{info, warn};

use super::endpoint_shared::{Address, EndpointShared};
use super::health::{self, HealthChange, HealthState, KeptHealth};
use super::limit::{ConnectionCounts, ConnectionLimit};
use super::settings::{EndpointSettings, Target, UpstreamSettings};
use crate::message::Failure;

/// The part of an upstream that all workers share.
#[derive(Debug)]
pub struct UpstreamShared {
    settings: UpstreamSettings,
    in_flight: Arc<AtomicUsize>,
    connections: Option<Connections>,
    /// The time from which all others are counted.
    epoch: Instant,
    /// Grows with every change of the endpoints or their health.
    generation: AtomicU64,
    /// For each endpoint of the settings, one entry for each of its addresses.
    endpoints: Mutex<Vec<Vec<Arc<EndpointShared>>>>,
    /// Is notified when a connection to one of the addresses cannot be opened.
    address_doubts: Arc<Notify>,
}

/// The bound of the connections to each endpoint.
#[derive(Debug)]
pub struct Connections {
    pub limit: Arc<ConnectionLimit>,
    /// The version of the settings. The limit has it from [`UpstreamShared::begin`] on.
    pub version: u64,
}

/// The health of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointHealth {
    /// Its address.
    pub address: String,
    /// Whether it may get requests.
    pub state: EndpointState,
}

/// Whether an endpoint may get requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// It gets its whole share.
    InService,
    /// Slow start: it gets a share that grows step by step.
    Starting,
    /// Checks have failed, and it gets no requests.
    Down,
    /// Requests have failed, and it gets no requests for this long.
    Ejected(Duration),
}

impl UpstreamShared {
    /// An upstream without requests. `echo` is the address at which `builtin:echo`
    /// listens. An endpoint with a host name has no addresses before the first
    /// [lookup](super::resolve()).
    pub fn new(settings: UpstreamSettings, echo: SocketAddr) -> Self {
        let fixed = settings.endpoints.iter().map(|endpoint| {
            let address = match &endpoint.target {
                Target::Unix(path) => Some(Address::Path(path.clone())),
                Target::Echo => Some(Address::Socket(echo)),
                named => {
                    named.authority().and_then(|it| it.as_str().parse().ok().map(Address::Socket))
                }
            };
            let at =
                |address| EndpointShared::new(&settings, endpoint, address, HealthState::default());
            address.and_then(at).map(Arc::new).into_iter().collect()
        });
        Self {
            endpoints: Mutex::new(fixed.collect()),
            connections: settings.connections.map(|connections| Connections {
                limit: ConnectionLimit::new(connections),
                version: 0,
            }),
            settings,
            in_flight: Arc::default(),
            epoch: monotonic(),
            generation: AtomicU64::new(0),
            address_doubts: Arc::default(),
        }
    }

    /// The settings from which it was made. A reload with equal settings keeps it.
    pub fn settings(&self) -> &UpstreamSettings {
        &self.settings
    }

    /// The upstream with other settings. Requests in flight and open connections are still counted.
    /// An endpoint that stays keeps its addresses and what is known of its health. This upstream is
    /// as before until the other one [begins](Self::begin).
    pub fn changed(&self, settings: UpstreamSettings, echo: SocketAddr) -> Self {
        let bounds = self.connections.as_ref().filter(|_| settings.connections.is_some());
        let kept = bounds.map(|Connections { limit, version }| Connections {
            limit: Arc::clone(limit),
            version: version + 1,
        });
        let new = Self::new(settings, echo);
        for (endpoint, addresses) in new.settings.endpoints.iter().zip(&mut *new.endpoints.lock()) {
            if let Some(kept) = self.kept(endpoint, &new.settings) {
                *addresses = kept;
            }
        }
        let connections = kept.or(new.connections);
        Self { in_flight: Arc::clone(&self.in_flight), epoch: self.epoch, connections, ..new }
    }

    /// The upstream is in use from now on: the bound of the connections is that of its settings.
    pub fn begin(&self) {
        if let (Some(Connections { limit, version }), Some(settings)) =
            (&self.connections, self.settings.connections)
        {
            limit.change(*version, settings);
        }
    }

    /// The addresses of this endpoint in an upstream with other settings; none if it is new there,
    /// or has no address yet.
    fn kept(
        &self,
        endpoint: &EndpointSettings,
        settings: &UpstreamSettings,
    ) -> Option<Vec<Arc<EndpointShared>>> {
        let is_same = |it: &EndpointSettings| it.target == endpoint.target;
        let index = self.settings.endpoints.iter().position(is_same)?;
        let keeps = KeptHealth::between(&self.settings, settings);
        let addresses = self.endpoints.lock();
        let kept = addresses[index].iter().filter_map(|old| {
            let health = old.health().kept(keeps);
            EndpointShared::new(settings, endpoint, old.address.clone(), health).map(Arc::new)
        });
        let kept: Vec<_> = kept.collect();
        (!kept.is_empty()).then_some(kept)
    }

    /// The bound of the connections to each endpoint; none if the upstream has no `max_connections`.
    pub const fn connections(&self) -> Option<&Connections> {
        self.connections.as_ref()
    }

    /// The health of its endpoints.
    pub fn health(&self) -> Vec<EndpointHealth> {
        let now_us = self.now_us();
        let state = |endpoint: &EndpointShared| {
            let health = endpoint.health();
            let from_us = health.in_service_from_us();
            let share = health::share_percent(from_us, now_us, self.settings.slow_start);
            match share {
                _ if health.is_down() => EndpointState::Down,
                (0, _) => {
                    EndpointState::Ejected(Duration::from_micros(from_us.saturating_sub(now_us)))
                }
                (100, _) => EndpointState::InService,
                _ => EndpointState::Starting,
            }
        };
        let endpoints = self.endpoints();
        let health = endpoints.iter().map(|endpoint| EndpointHealth {
            address: endpoint.address.to_string(),
            state: state(endpoint),
        });
        health.collect()
    }

    /// How many connections there are, and how many requests wait for one; none if the upstream has
    /// no `max_connections`.
    pub fn connection_counts(&self) -> Option<ConnectionCounts> {
        self.connections.as_ref().map(|connections| connections.limit.counts())
    }

    /// Requests in flight; none are counted if the upstream has no `max_in_flight`.
    pub fn in_flight(&self) -> Option<usize> {
        self.settings.max_in_flight.map(|_| self.in_flight.load(Ordering::Relaxed))
    }

    /// Requests in flight in percent of `max_in_flight`, rounded up.
    pub fn in_flight_percent(&self) -> Option<u8> {
        let max = self.settings.max_in_flight?.max(1);
        let in_flight = self.in_flight.load(Ordering::Relaxed).min(max);
        Some(u8::try_from(in_flight.saturating_mul(100).div_ceil(max)).unwrap_or(u8::MAX))
    }

    /// A permit for one more request; none if the upstream has no `max_in_flight`.
    ///
    /// # Errors
    /// If `max_in_flight` requests are in flight.
    pub fn permit(&self) -> Result<Option<RequestPermit>, Failure> {
        let Some(max) = self.settings.max_in_flight else {
            return Ok(None);
        };
        let permit = RequestPermit(Arc::clone(&self.in_flight));
        // Counted first, so that one of two concurrent requests sees the other.
        if permit.0.fetch_add(1, Ordering::Relaxed) < max {
            Ok(Some(permit))
        } else {
            Err(Failure::UpstreamBusy)
        }
    }

    /// The current time for [`HealthState`]. Never 0, which stands for always.
    pub fn now_us(&self) -> u64 {
        Span::from(monotonic().duration_since(self.epoch)).as_micros() + 1
    }

    /// The version of the endpoints. Must be read before the endpoints: then it cannot
    /// be newer than they are.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// All endpoints at all their addresses.
    pub fn endpoints(&self) -> Vec<Arc<EndpointShared>> {
        self.endpoints.lock().iter().flatten().cloned().collect()
    }

    /// No connection to an address can be opened: its name may have a new one by now.
    pub fn doubt_addresses(&self) {
        self.address_doubts.notify_one();
    }

    /// Is notified when an address is doubted.
    pub fn address_doubts(&self) -> Arc<Notify> {
        Arc::clone(&self.address_doubts)
    }

    /// Sets the addresses of the endpoint with this index, and returns whether they have changed.
    /// Addresses that stay keep their health.
    pub fn set_addresses(&self, index: usize, addresses: &[SocketAddr]) -> bool {
        let mut endpoints = self.endpoints.lock();
        let old = &endpoints[index];
        let health = match old.is_empty() {
            true => HealthState::default(),
            false => HealthState::new_at(self.now_us()),
        };
        let at = |address: SocketAddr| {
            let address = Address::Socket(address);
            let kept = old.iter().find(|endpoint| endpoint.address == address).cloned();
            kept.or_else(|| {
                let settings = &self.settings.endpoints[index];
                EndpointShared::new(&self.settings, settings, address, health.clone()).map(Arc::new)
            })
        };
        let new: Vec<_> = addresses.iter().filter_map(|address| at(*address)).collect();
        let is_same = new.len() == old.len() && new.iter().zip(old).all(|(a, b)| Arc::ptr_eq(a, b));
        if is_same {
            return false;
        }
        let upstream = &self.settings.name;
        info!(upstream, addresses = ?addresses, "the addresses of an endpoint have changed");
        endpoints[index] = new;
        self.generation.fetch_add(1, Ordering::Release);
        true
    }

    /// Records that a request to this endpoint has succeeded, or failed by its fault.
    pub fn record_request(&self, endpoint: &EndpointShared, is_success: bool) {
        let Some(settings) = &self.settings.eject else {
            return;
        };
        if is_success {
            endpoint.succeeded();
        } else if endpoint.failed(settings.consecutive_errors) {
            self.eject(endpoint);
        }
    }

    fn eject(&self, endpoint: &EndpointShared) {
        let Some(settings) = &self.settings.eject else {
            return;
        };
        let now_us = self.now_us();
        // Locked to the end, so that one of two concurrent ejections sees the other.
        let endpoints = self.endpoints.lock();
        let all = || endpoints.iter().flatten();
        let ejected = all().filter(|it| it.health().is_ejected(now_us)).count();
        if !health::may_eject(ejected, all().count(), settings.max_percent) {
            return;
        }
        let change = endpoint.update_health(|health| health.eject(settings, now_us));
        self.publish(endpoint, change, None);
    }

    /// Records the result of a check of this endpoint. The error says why it is not healthy.
    pub fn record_check(&self, endpoint: &EndpointShared, result: Result<(), &str>) {
        let Some(settings) = &self.settings.check else {
            return;
        };
        let now_us = self.now_us();
        let change = endpoint.update_health(|it| it.check(result.is_ok(), settings, now_us));
        self.publish(endpoint, change, result.err());
    }

    /// Lets all workers see a change of an endpoint's health, and logs it.
    fn publish(
        &self,
        endpoint: &EndpointShared,
        change: Option<HealthChange>,
        cause: Option<&str>,
    ) {
        let Some(change) = change else {
            return;
        };
        self.generation.fetch_add(1, Ordering::Release);
        let upstream = &self.settings.name;
        let address = &endpoint.address;
        match change {
            HealthChange::Down => {
                warn!(upstream, %address, cause, "an endpoint is down: checks fail");
            }
            HealthChange::Up => info!(upstream, %address, "an endpoint is back: checks succeed"),
            HealthChange::Ejected(period) => {
                warn!(upstream, %address, ?period, "an endpoint is ejected: requests fail");
            }
        }
    }
}

/// One of the requests that an upstream may have in flight. Dropping it ends the
/// request.
#[derive(Debug)]
pub struct RequestPermit(Arc<AtomicUsize>);

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;

//! What all workers share of an upstream: who its endpoints are, how they are
//! doing, and how many requests are in flight.
//!
//! A request reads atomics only. The lock is taken by the control thread, by an
//! ejection, and by a worker that has seen that something has changed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{info, warn};

use super::UpstreamSettings;
use super::health::{self, Change, Standing};
use super::member::{Address, Member};
use super::settings::Target;
use crate::message::Failure;
use crate::time::{Span, monotonic};

/// What all workers share of an upstream.
#[derive(Debug)]
pub struct UpstreamShared {
    settings: UpstreamSettings,
    in_flight: Arc<AtomicUsize>,
    /// What times are counted from.
    epoch: Instant,
    /// Grows with every change of the members, or of what is known of them.
    generation: AtomicU64,
    /// For each of the settings' endpoints its addresses.
    members: Mutex<Vec<Vec<Arc<Member>>>>,
}

/// How an endpoint is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointHealth {
    /// Where it is.
    pub address: String,
    /// Whether it may have requests.
    pub state: EndpointState,
}

/// Whether an endpoint may have requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// It may.
    InService,
    /// It may have some, and from step to step more.
    Starting,
    /// Checks say that it is down.
    Down,
    /// Requests have failed there; it may again after so long.
    Ejected(Duration),
}

impl UpstreamShared {
    /// An upstream without requests. `echo` is where `builtin:echo` listens.
    /// Endpoints that have a name are not there until it was [looked
    /// up](super::resolve).
    pub fn new(settings: UpstreamSettings, echo: SocketAddr) -> Self {
        let fixed = settings.endpoints.iter().map(|endpoint| {
            let address = match &endpoint.target {
                Target::Unix(path) => Some(Address::Path(path.clone())),
                Target::Echo => Some(Address::Socket(echo)),
                named => {
                    named.authority().and_then(|it| it.as_str().parse().ok().map(Address::Socket))
                }
            };
            let member = |address| Member::new(&settings, endpoint, address, Standing::default());
            address.and_then(member).map(Arc::new).into_iter().collect()
        });
        Self {
            members: Mutex::new(fixed.collect()),
            settings,
            in_flight: Arc::default(),
            epoch: monotonic(),
            generation: AtomicU64::new(0),
        }
    }

    /// What it was made of. Who makes another one of the same can keep this one.
    pub fn settings(&self) -> &UpstreamSettings {
        &self.settings
    }

    /// The upstream with other settings. What is in flight stays in flight.
    pub fn changed(&self, settings: UpstreamSettings, echo: SocketAddr) -> Self {
        Self { in_flight: Arc::clone(&self.in_flight), ..Self::new(settings, echo) }
    }

    /// How its endpoints are doing.
    pub fn health(&self) -> Vec<EndpointHealth> {
        let now_us = self.now_us();
        let state = |member: &Member| {
            let standing = member.standing();
            let from_us = standing.in_service_from_us();
            let share = health::share_percent(from_us, now_us, self.settings.slow_start);
            match share {
                _ if standing.is_down() => EndpointState::Down,
                (0, _) => EndpointState::Ejected(Duration::from_micros(from_us - now_us)),
                (100, _) => EndpointState::InService,
                _ => EndpointState::Starting,
            }
        };
        let members = self.members();
        let health = members.iter().map(|member| EndpointHealth {
            address: member.address.to_string(),
            state: state(member),
        });
        health.collect()
    }

    /// Requests in flight in percent of the most that there may be, rounded up.
    pub(super) fn in_flight_percent(&self) -> Option<u8> {
        let max = self.settings.max_in_flight?.max(1);
        let in_flight = self.in_flight.load(Ordering::Relaxed).min(max);
        Some(u8::try_from(in_flight.saturating_mul(100).div_ceil(max)).unwrap_or(u8::MAX))
    }

    /// A place for one more request, if there must be one.
    pub(super) fn place(&self) -> Result<Option<Place>, Failure> {
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

    /// The present, as health counts it. Never 0, which stands for always.
    pub(super) fn now_us(&self) -> u64 {
        Span::from(monotonic().duration_since(self.epoch)).as_micros() + 1
    }

    /// Which state the members are in: read before them, it cannot be too new.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// All endpoints at all their addresses.
    pub(super) fn members(&self) -> Vec<Arc<Member>> {
        self.members.lock().iter().flatten().cloned().collect()
    }

    /// The endpoint with this index is at these addresses now. Who stays keeps
    /// what is known of them.
    pub(super) fn place_at(&self, endpoint: usize, addresses: &[SocketAddr]) {
        let mut members = self.members.lock();
        let old = &members[endpoint];
        let standing = match old.is_empty() {
            true => Standing::default(),
            false => Standing::new_at(self.now_us()),
        };
        let at = |address: SocketAddr| {
            let address = Address::Socket(address);
            let kept = old.iter().find(|member| member.address == address).cloned();
            kept.or_else(|| {
                let settings = &self.settings.endpoints[endpoint];
                Member::new(&self.settings, settings, address, standing.clone()).map(Arc::new)
            })
        };
        let new: Vec<_> = addresses.iter().filter_map(|address| at(*address)).collect();
        let is_same = new.len() == old.len() && new.iter().zip(old).all(|(a, b)| Arc::ptr_eq(a, b));
        if is_same {
            return;
        }
        let upstream = &self.settings.name;
        info!(upstream, addresses = ?addresses, "the addresses of an endpoint have changed");
        members[endpoint] = new;
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// A request to this endpoint has succeeded, or failed by its fault.
    pub(super) fn note(&self, member: &Member, is_good: bool) {
        let Some(settings) = &self.settings.eject else {
            return;
        };
        if is_good {
            member.succeeded();
        } else if member.failed(settings.consecutive_errors) {
            self.eject(member);
        }
    }

    fn eject(&self, member: &Member) {
        let Some(settings) = &self.settings.eject else {
            return;
        };
        let now_us = self.now_us();
        // Held to the end, so that of two ejections at once one sees the other.
        let members = self.members.lock();
        let all = || members.iter().flatten();
        let ejected = all().filter(|it| it.standing().is_ejected(now_us)).count();
        if !health::may_eject(ejected, all().count(), settings.max_percent) {
            return;
        }
        let change = member.judge(|standing| standing.eject(settings, now_us));
        self.announce(member, change);
    }

    /// A check of this endpoint has ended.
    pub(super) fn checked(&self, member: &Member, is_good: bool) {
        let Some(settings) = &self.settings.check else {
            return;
        };
        let now_us = self.now_us();
        let change = member.judge(|standing| standing.checked(is_good, settings, now_us));
        self.announce(member, change);
    }

    fn announce(&self, member: &Member, change: Option<Change>) {
        let Some(change) = change else {
            return;
        };
        self.generation.fetch_add(1, Ordering::Release);
        let (upstream, address) = (&self.settings.name, &member.address);
        match change {
            Change::Down => warn!(upstream, %address, "an endpoint is down: checks fail"),
            Change::Up => info!(upstream, %address, "an endpoint is back: checks succeed"),
            Change::Ejected(period) => {
                warn!(upstream, %address, ?period, "an endpoint is ejected: requests fail");
            }
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

#[cfg(test)]
mod tests;

//! An endpoint at one address, shared by all workers: how to connect to it, and its
//! health. A request reads only two atomics of it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use http::HeaderValue;
use http::uri::Authority;
use parking_lot::{Mutex, MutexGuard};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tollgate_core::digest::Counter;

use super::health::HealthState;
use super::settings::{EndpointSettings, Target, UpstreamSettings};
use super::tls::HandshakeFailure;

/// The host of a request that names none, at an endpoint without a host name.
const LOCALHOST: HeaderValue = HeaderValue::from_static("localhost");

/// An endpoint at one address, shared by all workers.
#[derive(Debug)]
pub struct EndpointShared {
    pub protocol: Protocol,
    pub address: Address,
    /// The address, as logs show it.
    pub shown: Box<str>,
    /// `host:port`, for requests that name no host.
    pub authority: HeaderValue,
    pub weight: u32,
    /// Derived from the address, and therefore equal on all gateways.
    pub identity: u64,
    /// Requests that have failed in a row, over all workers.
    errors: AtomicU32,
    /// A copy of [`HealthState::in_service_from_us`], to be read without the lock.
    in_service_from_us: AtomicU64,
    health: Mutex<HealthState>,
    /// Why the latest TLS handshake that failed did so.
    handshake_failure: Mutex<Option<HandshakeFailure>>,
}

/// The protocol of an endpoint.
#[derive(Clone, Debug)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 from the first byte on.
    Http2,
    /// The protocol that ALPN selects, in TLS.
    Tls { config: Arc<ClientConfig>, server_name: ServerName<'static> },
}

/// Where an endpoint listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Socket(SocketAddr),
    Path(PathBuf),
}

/// As logs show it.
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(address) => address.fmt(f),
            Self::Path(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl EndpointShared {
    /// The endpoint of an upstream at one of its addresses; none for an endpoint of
    /// `https` in an upstream without TLS settings.
    pub fn new(
        upstream: &UpstreamSettings,
        endpoint: &EndpointSettings,
        address: Address,
        health: HealthState,
    ) -> Option<Self> {
        let protocol = match &endpoint.target {
            Target::Http(_) | Target::Unix(_) | Target::Echo => Protocol::Http1,
            Target::H2c(_) => Protocol::Http2,
            Target::Https(_, host) => {
                let (config, server_name) = upstream.tls.as_ref()?.for_host(host);
                Protocol::Tls { config, server_name }
            }
        };
        let authority = endpoint.target.authority();
        let authority = authority.and_then(|it| HeaderValue::from_str(it.as_str()).ok());
        let shown = address.to_string();
        Some(Self {
            protocol,
            authority: authority.unwrap_or(LOCALHOST),
            weight: endpoint.weight,
            identity: Counter::of(|digest| digest.value(shown.as_bytes())).bits(),
            address,
            shown: shown.into(),
            errors: AtomicU32::new(0),
            in_service_from_us: AtomicU64::new(health.in_service_from_us()),
            health: Mutex::new(health),
            handshake_failure: Mutex::default(),
        })
    }

    /// The time from which on it may get requests.
    pub fn in_service_from_us(&self) -> u64 {
        self.in_service_from_us.load(Ordering::Relaxed)
    }

    /// Records a successful request.
    pub fn succeeded(&self) {
        // Written only when needed, so that the cache line stays shared by all cores.
        if self.errors.load(Ordering::Relaxed) > 0 {
            self.errors.store(0, Ordering::Relaxed);
        }
    }

    /// Records a failed request. Returns whether `limit` requests in a row have failed.
    pub fn failed(&self, limit: u32) -> bool {
        let is_enough = self.errors.fetch_add(1, Ordering::Relaxed) + 1 >= limit;
        if is_enough {
            self.errors.store(0, Ordering::Relaxed);
        }
        is_enough
    }

    /// A TLS handshake has failed.
    pub fn handshake_failed(&self, failure: HandshakeFailure) {
        *self.handshake_failure.lock() = Some(failure);
    }

    /// Why the latest TLS handshake that failed did so; none if none has failed.
    pub fn handshake_failure(&self) -> Option<HandshakeFailure> {
        self.handshake_failure.lock().clone()
    }

    /// Its health, to read.
    pub fn health(&self) -> MutexGuard<'_, HealthState> {
        self.health.lock()
    }

    /// Changes its health, and lets all workers see the change.
    pub fn update_health<T>(&self, change: impl FnOnce(&mut HealthState) -> T) -> T {
        let mut health = self.health.lock();
        let changed = change(&mut health);
        self.in_service_from_us.store(health.in_service_from_us(), Ordering::Relaxed);
        changed
    }
}

impl Target {
    /// The authority, if there is one.
    pub fn authority(&self) -> Option<&Authority> {
        match self {
            Self::Http(authority) | Self::H2c(authority) | Self::Https(authority, _) => {
                Some(authority)
            }
            Self::Unix(_) | Self::Echo => None,
        }
    }
}

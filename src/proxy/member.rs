//! An endpoint at one address, as all workers see it: how it is reached, and how
//! it is doing. What a request needs to know of that are two atomics.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use http::HeaderValue;
use http::uri::Authority;
use parking_lot::{Mutex, MutexGuard};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::health::Standing;
use super::settings::{EndpointSettings, Target, UpstreamSettings};
use crate::digest::Counter;

/// What a request is for that names no host, at an endpoint that has none.
const LOCALHOST: HeaderValue = HeaderValue::from_static("localhost");

/// An endpoint at one address.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) protocol: Protocol,
    pub(super) address: Address,
    /// `host:port`, for requests that name no host.
    pub(super) authority: HeaderValue,
    pub(super) weight: u32,
    /// Made of its address, and so the same on every gateway.
    pub(super) identity: u64,
    /// Requests in a row that failed, from all workers.
    errors: AtomicU32,
    /// What [`Standing::in_service_from_us`] said last.
    in_service_from_us: AtomicU64,
    standing: Mutex<Standing>,
}

/// What is spoken with an endpoint.
#[derive(Clone, Debug)]
pub(super) enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 from the first byte on.
    Http2,
    /// What both agree on, in TLS.
    Tls { config: Arc<ClientConfig>, server_name: ServerName<'static> },
}

/// Where an endpoint listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
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

impl Member {
    /// The endpoint of an upstream at one of its addresses. Nothing for one of
    /// `https` where nothing says how TLS is spoken.
    pub(super) fn new(
        upstream: &UpstreamSettings,
        endpoint: &EndpointSettings,
        address: Address,
        standing: Standing,
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
            errors: AtomicU32::new(0),
            in_service_from_us: AtomicU64::new(standing.in_service_from_us()),
            standing: Mutex::new(standing),
        })
    }

    /// From when on it may have requests.
    pub(super) fn in_service_from_us(&self) -> u64 {
        self.in_service_from_us.load(Ordering::Relaxed)
    }

    /// A request has succeeded.
    pub(super) fn succeeded(&self) {
        // To write only when needed keeps the cache line with all cores.
        if self.errors.load(Ordering::Relaxed) > 0 {
            self.errors.store(0, Ordering::Relaxed);
        }
    }

    /// A request has failed; whether that makes `limit` in a row.
    pub(super) fn failed(&self, limit: u32) -> bool {
        let is_enough = self.errors.fetch_add(1, Ordering::Relaxed) + 1 >= limit;
        if is_enough {
            self.errors.store(0, Ordering::Relaxed);
        }
        is_enough
    }

    /// What is known of it, to read.
    pub(super) fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock()
    }

    /// Changes what is known of it, and lets all workers see.
    pub(super) fn judge<T>(&self, change: impl FnOnce(&mut Standing) -> T) -> T {
        let mut standing = self.standing.lock();
        let changed = change(&mut standing);
        self.in_service_from_us.store(standing.in_service_from_us(), Ordering::Relaxed);
        changed
    }
}

impl Target {
    /// The authority, if there is one.
    pub(super) fn authority(&self) -> Option<&Authority> {
        match self {
            Self::Http(authority) | Self::H2c(authority) | Self::Https(authority, _) => {
                Some(authority)
            }
            Self::Unix(_) | Self::Echo => None,
        }
    }
}

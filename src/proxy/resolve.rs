//! Looks up the addresses of endpoints with a host name, on the control thread, at an
//! interval: the system's resolver does not report how long an address is valid.
//!
//! A lookup that fails changes nothing: an address that worked before is better than
//! none.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::lookup_host;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::shared::UpstreamShared;

/// The time from one lookup to the next.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long a lookup may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The most addresses of one name.
const MAX_ADDRESSES: usize = 256;

/// Looks up all names of these upstreams once. A lookup takes no longer than the
/// upstream's connect timeout. Names without a result are looked up later by
/// [`super::maintain`].
pub(crate) async fn resolve(upstreams: &[Arc<UpstreamShared>]) {
    let first = upstreams.iter().map(|upstream| async {
        // Names without a result are looked up again in the next round.
        let _ = timeout(upstream.settings().connect_timeout, round(upstream, &lookup)).await;
    });
    join_all(first).await;
}

/// Looks up all names of an upstream at the interval, as long as the upstream exists.
pub(super) async fn run(upstream: Weak<UpstreamShared>) {
    if upstream.upgrade().is_none_or(|upstream| names(&upstream).next().is_none()) {
        return;
    }
    loop {
        sleep(INTERVAL).await;
        let Some(upstream) = upstream.upgrade() else {
            return;
        };
        round(&upstream, &lookup).await;
    }
}

/// The addresses of `host:port`, from the system's resolver.
pub(super) async fn lookup(name: String) -> io::Result<Vec<SocketAddr>> {
    let found = timeout(LOOKUP_TIMEOUT, lookup_host(name)).await;
    found.map_err(|_| io::ErrorKind::TimedOut)?.map(Iterator::collect)
}

/// The endpoints of an upstream that have a host name: their index, and `host:port`.
fn names(upstream: &UpstreamShared) -> impl Iterator<Item = (usize, &str)> {
    let endpoints = upstream.settings().endpoints.iter().enumerate();
    endpoints.filter_map(|(index, endpoint)| {
        let name = endpoint.target.authority()?.as_str();
        name.parse::<SocketAddr>().is_err().then_some((index, name))
    })
}

/// Looks up each name once.
async fn round(
    upstream: &UpstreamShared,
    lookup: &impl AsyncFn(String) -> io::Result<Vec<SocketAddr>>,
) {
    let lookups = names(upstream).map(|(index, name)| async move {
        match lookup(name.to_owned()).await {
            Ok(mut addresses) if !addresses.is_empty() => {
                addresses.sort_unstable();
                addresses.dedup();
                addresses.truncate(MAX_ADDRESSES);
                upstream.set_addresses(index, &addresses);
            }
            failed => {
                let error = failed.err().map(|error| error.to_string()).unwrap_or_default();
                let upstream = &upstream.settings().name;
                warn!(upstream, name, error, "an endpoint's name cannot be looked up");
            }
        }
    });
    join_all(lookups).await;
}

#[cfg(test)]
mod tests;

//! The addresses of endpoints that have a name: looked up on the control thread,
//! again and again, since nothing says how long they hold.
//!
//! A lookup that fails changes nothing: an address that has served is better
//! than none.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::lookup_host;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::UpstreamShared;

/// From one lookup to the next.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long a lookup may take; the next one may do better.
const PATIENCE: Duration = Duration::from_secs(5);
/// Addresses that are taken of one name.
const MAX_ADDRESSES: usize = 256;

/// Looks up all names of these upstreams, none of them for longer than its
/// upstream may take to connect: later lookups make up for it.
pub async fn resolve(upstreams: &[Arc<UpstreamShared>]) {
    let first = upstreams.iter().map(|upstream| async {
        // Whatever has not come by then comes with the next round.
        let _ = timeout(upstream.settings().connect_timeout, round(upstream, &system)).await;
    });
    join_all(first).await;
}

/// Looks up all names of an upstream again and again, while there is one.
pub(super) async fn repeatedly(upstream: Weak<UpstreamShared>) {
    if upstream.upgrade().is_none_or(|upstream| names(&upstream).next().is_none()) {
        return;
    }
    loop {
        sleep(INTERVAL).await;
        let Some(upstream) = upstream.upgrade() else {
            return;
        };
        round(&upstream, &system).await;
    }
}

/// The addresses of `host:port`, by the system.
pub(super) async fn system(name: String) -> io::Result<Vec<SocketAddr>> {
    let found = timeout(PATIENCE, lookup_host(name)).await;
    found.map_err(|_| io::ErrorKind::TimedOut)?.map(Iterator::collect)
}

/// The endpoints of an upstream that have a name: their index, and `host:port`.
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
                upstream.place_at(index, &addresses);
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

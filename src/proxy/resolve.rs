//! Looks up the addresses of endpoints with a host name, on the control thread, at an
//! interval: the system's resolver does not report how long an address is valid.
//!
//! If no connection can be opened, the name may have a new address, and is looked up at once. An
//! upstream that stays away does not flood the resolver: the time between such lookups doubles, up
//! to the interval.
//!
//! A lookup that fails changes nothing: an address that worked before is better than
//! none.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::net::lookup_host;
use tokio::time::{sleep_until, timeout};
use tollgate_core::time::monotonic;
use tracing::warn;

use super::shared::UpstreamShared;

/// The time from one lookup to the next.
const INTERVAL: Duration = Duration::from_secs(10);
/// The shortest time from one lookup to the next.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// How long a lookup may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The most addresses of one name.
const MAX_ADDRESSES: usize = 256;

/// Looks up all names of these upstreams once. A lookup takes no longer than the
/// upstream's connect timeout. Names without a result are looked up later by
/// [`super::maintain`].
pub async fn resolve(upstreams: &[Arc<UpstreamShared>]) {
    let first = upstreams.iter().map(|upstream| async {
        // Names without a result are looked up again in the next round.
        let _ = timeout(upstream.settings().connect_timeout, round(upstream, &lookup)).await;
    });
    join_all(first).await;
}

/// Looks up all names of an upstream at the interval, and after failures of connections, as long as
/// the upstream exists.
pub async fn run(upstream: Weak<UpstreamShared>) {
    run_with(upstream, &lookup).await;
}

async fn run_with(
    upstream: Weak<UpstreamShared>,
    lookup: &impl AsyncFn(String) -> io::Result<Vec<SocketAddr>>,
) {
    let names = upstream.upgrade().filter(|upstream| names(upstream).next().is_some());
    let Some(doubts) = names.map(|upstream| upstream.address_doubts()) else { return };
    let mut pace = Pace::new(monotonic());
    loop {
        let at = |instant: Instant| sleep_until(instant.into());
        let is_doubted = tokio::select! {
            biased;
            () = async { doubts.notified().await; at(pace.after_doubt()).await } => true,
            () = at(pace.at_interval()) => false,
        };
        let Some(upstream) = upstream.upgrade() else {
            return;
        };
        let has_changed = round(&upstream, lookup).await;
        pace.looked_up(monotonic(), is_doubted && !has_changed);
    }
}

/// When the names of an upstream are looked up.
#[derive(Debug)]
struct Pace {
    last: Instant,
    /// The time from the last lookup to one because of a doubt.
    pause: Duration,
}

impl Pace {
    /// The names were looked up at `now` for the first time.
    fn new(now: Instant) -> Self {
        Self { last: now, pause: SHORTEST_INTERVAL }
    }

    fn at_interval(&self) -> Instant {
        self.last + INTERVAL
    }

    fn after_doubt(&self) -> Instant {
        self.last + self.pause
    }

    /// The names were looked up at `now`. `in_vain` says that this was because of a doubt, and that
    /// the addresses are the same.
    fn looked_up(&mut self, now: Instant, in_vain: bool) {
        let longer = (self.pause * 2).min(INTERVAL);
        *self = Self { last: now, pause: if in_vain { longer } else { SHORTEST_INTERVAL } };
    }
}

/// The addresses of `host:port`, from the system's resolver.
pub async fn lookup(name: String) -> io::Result<Vec<SocketAddr>> {
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

/// Looks up each name once. Returns whether any has other addresses than before.
async fn round(
    upstream: &UpstreamShared,
    lookup: &impl AsyncFn(String) -> io::Result<Vec<SocketAddr>>,
) -> bool {
    let lookups = names(upstream).map(|(index, name)| async move {
        match lookup(name.to_owned()).await {
            Ok(mut addresses) if !addresses.is_empty() => {
                addresses.sort_unstable();
                addresses.dedup();
                addresses.truncate(MAX_ADDRESSES);
                upstream.set_addresses(index, &addresses)
            }
            failed => {
                let error = failed.err().map(|error| error.to_string()).unwrap_or_default();
                let upstream = &upstream.settings().name;
                warn!(upstream, name, error, "an endpoint's name cannot be looked up");
                false
            }
        }
    });
    join_all(lookups).await.contains(&true)
}

#[cfg(test)]
mod tests;

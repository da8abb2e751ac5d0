//! The address at the other end of a request's connection.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::request;
use tracing::warn;

type Find = dyn Fn(&request::Parts) -> Option<IpAddr> + Send + Sync;

/// Finds the addresses of peers. Clones share whether a warning was logged.
#[derive(Clone, Default)]
pub(super) struct Peers {
    find: Option<Arc<Find>>,
    has_warned: Arc<AtomicBool>,
}

impl Peers {
    pub(super) fn found_by(
        find: impl Fn(&request::Parts) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        Self { find: Some(Arc::new(find)), ..Self::default() }
    }

    pub(super) fn find(&self, head: &request::Parts) -> Option<IpAddr> {
        match &self.find {
            Some(find) => find(head),
            None => in_extensions(head),
        }
    }

    /// Logs once that a policy needs an address that is not known.
    pub(super) fn warn(&self) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            warn!(
                "requests are answered with 500: a policy needs the address of the peer, and it \
                 is not known. With axum, enable the feature `axum` of tollgate-limiter, and \
                 serve `app.into_make_service_with_connect_info::<SocketAddr>()`. With other \
                 servers, use `RateLimitLayer::peer`."
            );
        }
    }
}

fn in_extensions(head: &request::Parts) -> Option<IpAddr> {
    let extensions = &head.extensions;
    #[cfg(feature = "axum")]
    if let Some(peer) = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>() {
        return Some(peer.0.ip());
    }
    let socket = extensions.get::<SocketAddr>().map(SocketAddr::ip);
    socket.or_else(|| extensions.get::<IpAddr>().copied())
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("has_find", &self.find.is_some()).finish_non_exhaustive()
    }
}

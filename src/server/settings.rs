//! What a listener is told.

use std::net::SocketAddr;
use std::time::Duration;

use super::head::HeadBounds;

/// One address to listen on, and the bounds of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// Connections open at once, over all workers; more wait in the kernel's queue.
    pub max_connections: usize,
    /// How long a client may take.
    pub timeouts: ListenerTimeouts,
    /// Bytes of request line and fields together.
    pub max_head_bytes: usize,
    /// Bytes of a request's target.
    pub max_target_bytes: usize,
    /// Number of header fields.
    pub max_headers: usize,
}

/// How long a client may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerTimeouts {
    /// From the first to the last byte of a request's head.
    pub request_head: Duration,
    /// Between two pieces of a request's body, and between two of a response
    /// that the client has room for.
    pub request_body: Duration,
    /// Between a response and the next request.
    pub keep_alive: Duration,
}

impl Default for ListenerTimeouts {
    fn default() -> Self {
        Self {
            request_head: Duration::from_secs(10),
            request_body: Duration::from_secs(60),
            keep_alive: Duration::from_secs(75),
        }
    }
}

impl ListenerSettings {
    /// The HTTP library holds no longer target, in bytes.
    pub const LONGEST_TARGET: usize = 65_534;

    /// Safe defaults for `address`.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            max_connections: 10_000,
            timeouts: ListenerTimeouts::default(),
            max_head_bytes: 32 * 1024,
            max_target_bytes: Self::LONGEST_TARGET,
            max_headers: 100,
        }
    }

    /// What the head of a request may be at most.
    pub(super) fn head_bounds(&self) -> HeadBounds {
        HeadBounds {
            bytes: self.max_head_bytes,
            target_bytes: self.max_target_bytes.min(Self::LONGEST_TARGET),
            fields: self.max_headers,
        }
    }
}

//! What a listener is told.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::head::HeadBounds;
use super::{Demand, TlsSettings};

/// One address to listen on, and the bounds of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Where to listen.
    pub address: ListenAddress,
    /// TLS; without it connections are plain.
    pub tls: Option<TlsSettings>,
    /// Connections begin with a header of the PROXY protocol, and these peers
    /// alone may connect. None: they do not, and everybody may.
    pub proxy_protocol: Option<Vec<IpNet>>,
    /// The bounds of HTTP/2. None: HTTP/1 only.
    pub http2: Option<Http2Settings>,
    /// Connections open at once, over all workers; more wait in the kernel's queue.
    pub max_connections: usize,
    /// How long a client may take.
    pub timeouts: ListenerTimeouts,
    /// Bytes in a second that a client must read of a response, or send of a body
    /// whose length it has announced, while it is waited for. 0: any.
    pub min_rate: u64,
    /// Bytes of request line and fields together.
    pub max_head_bytes: usize,
    /// Bytes of a request's target.
    pub max_target_bytes: usize,
    /// Number of header fields.
    pub max_headers: usize,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// An address and a port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// The address and port, if it has one.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The bounds of HTTP/2 connections. A client that goes beyond one of those a
/// second loses its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Settings {
    /// Requests under way on one connection; what is more is refused, and may be sent again.
    pub max_streams: u32,
    /// Streams that a client may reset in a second.
    pub max_resets: u32,
    /// Frames in a second that carry nothing: PING, SETTINGS, PRIORITY,
    /// CONTINUATION, empty DATA.
    pub max_control_frames: u32,
    /// WINDOW_UPDATE frames in a second.
    pub max_window_updates: u32,
}

impl Default for Http2Settings {
    fn default() -> Self {
        Self {
            max_streams: 128,
            max_resets: 200,
            max_control_frames: 1_000,
            max_window_updates: 20_000,
        }
    }
}

/// How long a client may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerTimeouts {
    /// For what comes before HTTP: the PROXY protocol and TLS.
    pub handshake: Duration,
    /// From the first to the last byte of a request's head.
    pub request_head: Duration,
    /// Between two pieces of a request's body, and between two of a response
    /// that the client has room for.
    pub request_body: Duration,
    /// Between a response and the next request.
    pub keep_alive: Duration,
    /// Of a WebSocket on which neither side sends anything.
    pub tunnel: Duration,
}

impl Default for ListenerTimeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            request_head: Duration::from_secs(10),
            request_body: Duration::from_secs(60),
            keep_alive: Duration::from_secs(75),
            tunnel: Duration::from_secs(3600),
        }
    }
}

impl ListenerSettings {
    /// The HTTP library holds no longer target, in bytes.
    pub const LONGEST_TARGET: usize = 65_534;

    /// Safe defaults for `address`.
    pub fn new(address: ListenAddress) -> Self {
        Self {
            address,
            tls: None,
            proxy_protocol: None,
            http2: Some(Http2Settings::default()),
            max_connections: 10_000,
            timeouts: ListenerTimeouts::default(),
            min_rate: 100,
            max_head_bytes: 32 * 1024,
            max_target_bytes: Self::LONGEST_TARGET,
            max_headers: 100,
        }
    }

    /// How fast a client must be.
    pub fn demand(&self) -> Demand {
        Demand { patience: self.timeouts.request_body, min_rate: self.min_rate }
    }

    /// What the head of a request of HTTP/1 may be at most.
    pub(super) fn head_bounds(&self) -> HeadBounds {
        HeadBounds {
            bytes: self.max_head_bytes,
            target_bytes: self.max_target_bytes.min(Self::LONGEST_TARGET),
            fields: self.max_headers,
        }
    }
}

//! The settings of a listener.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::callers::Callers;
use super::transport::TlsSettings;

/// One address to listen on, and the bounds of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSettings {
    /// The address to listen on.
    pub address: ListenAddress,
    /// The permissions of the file of a Unix socket. None: those that the system gives.
    pub socket_mode: Option<u32>,
    /// TLS. None: connections are not encrypted.
    pub tls: Option<TlsSettings>,
    /// Connections begin with a header of the PROXY protocol, and only these peers
    /// may connect. None: there is no such header, and any peer may connect.
    pub proxy_protocol: Option<Vec<IpNet>>,
    /// The bounds of HTTP/2. None: HTTP/1 only.
    pub http2: Option<Http2Settings>,
    /// The clients that it is for.
    pub callers: Callers,
    /// Connections open at once, over all workers.
    pub max_connections: usize,
    /// What happens to a connection above that.
    pub when_full: WhenFull,
    /// The time limits of clients.
    pub timeouts: ListenerTimeouts,
    /// Bytes a second that a client must read of a response, or send of a body with a
    /// known length, while the gateway waits for it. 0: no minimum.
    pub min_rate: u64,
    /// The most bytes of the request line and the fields together.
    pub max_head_bytes: usize,
    /// The most bytes of a request's target.
    pub max_target_bytes: usize,
    /// The most header fields.
    pub max_headers: usize,
    /// Whether fields may have names that some backends take for those of others. Only for a
    /// listener that forwards no request.
    pub disguised_names: bool,
}

/// What happens when a client connects and as many connections are open as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits in the kernel until another connection ends.
    Wait,
    /// The connection that has waited longest without a request is closed for it.
    CloseIdle,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// An address and a port; port 0 stands for any free one.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// The address and port; none for a Unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// The address at which clients on this machine reach a listener at this one.
    pub fn reachable(&self) -> Self {
        match self {
            Self::Tcp(address) if address.ip().is_unspecified() => {
                let ip = match address.ip() {
                    IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                    IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                };
                Self::Tcp(SocketAddr::new(ip, address.port()))
            }
            other => other.clone(),
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

/// The bounds of HTTP/2 connections. If a client exceeds one of the rates, its
/// connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Settings {
    /// Concurrent requests on one connection. Further ones are refused, and clients may
    /// send them again.
    pub max_streams: u32,
    /// Streams that a client may reset a second.
    pub max_resets: u32,
    /// The share of its streams that a client may reset even if they are more than that, in
    /// percent. Proxies that ask for decisions cancel calls that take too long.
    pub reset_percent: u32,
    /// Frames without content a second: PING, SETTINGS, PRIORITY, CONTINUATION, empty
    /// DATA.
    pub max_control_frames: u32,
    /// WINDOW_UPDATE frames a second.
    pub max_window_updates: u32,
}

impl Default for Http2Settings {
    fn default() -> Self {
        Self {
            max_streams: 128,
            max_resets: 200,
            reset_percent: 0,
            max_control_frames: 1_000,
            max_window_updates: 20_000,
        }
    }
}

impl Http2Settings {
    /// The most resets of a second. In it and in the one before, the client has begun so many
    /// streams.
    pub fn most_resets(&self, streams: u64) -> u32 {
        let share = streams.saturating_mul(self.reset_percent.into()) / 100;
        self.max_resets.max(u32::try_from(share).unwrap_or(u32::MAX))
    }
}

/// The time limits of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerTimeouts {
    /// For the PROXY protocol and TLS together.
    pub handshake: Duration,
    /// From the first to the last byte of a request head.
    pub request_head: Duration,
    /// The longest pause in a request body, and the longest time in which the client
    /// takes nothing of a response.
    pub request_body: Duration,
    /// From a response to the next request.
    pub keep_alive: Duration,
    /// The longest time for which an HTTP/2 connection takes requests. It varies by a tenth, so
    /// that not all connections end at once. None: any time.
    pub age: Option<Duration>,
    /// The longest time in which neither side of a WebSocket sends anything.
    pub tunnel: Duration,
}

impl Default for ListenerTimeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            request_head: Duration::from_secs(10),
            request_body: Duration::from_secs(60),
            keep_alive: Duration::from_secs(75),
            age: None,
            tunnel: Duration::from_secs(3600),
        }
    }
}

impl ListenerSettings {
    /// The longest target that the HTTP library holds, in bytes.
    pub const LONGEST_TARGET: usize = 65_534;
    /// The usual bound of a head, in bytes.
    pub const HEAD_BYTES: usize = 32 * 1024;
    /// The usual bound of the number of fields.
    pub const FIELDS: usize = 100;

    /// The defaults for `address`.
    pub fn new(address: ListenAddress) -> Self {
        Self {
            address,
            socket_mode: None,
            tls: None,
            proxy_protocol: None,
            http2: Some(Http2Settings::default()),
            callers: Callers::All,
            max_connections: 10_000,
            when_full: WhenFull::Wait,
            timeouts: ListenerTimeouts::default(),
            min_rate: 100,
            max_head_bytes: Self::HEAD_BYTES,
            max_target_bytes: Self::LONGEST_TARGET,
            max_headers: Self::FIELDS,
            disguised_names: false,
        }
    }

    /// The minimum speed of clients.
    pub fn demand(&self) -> Demand {
        Demand { patience: self.timeouts.request_body, min_rate: self.min_rate }
    }

    /// The bounds of the head of an HTTP/1 request.
    pub fn head_bounds(&self) -> HeadBounds {
        HeadBounds {
            bytes: self.max_head_bytes,
            target_bytes: self.max_target_bytes.min(Self::LONGEST_TARGET),
            fields: self.max_headers,
            disguised_names: self.disguised_names,
        }
    }
}

/// The bounds of the head of an HTTP/1 request.
#[derive(Clone, Copy, Debug)]
pub struct HeadBounds {
    /// Bytes from the first of the request line to the last of the empty line.
    pub bytes: usize,
    /// Bytes of the target.
    pub target_bytes: usize,
    /// Number of fields.
    pub fields: usize,
    /// Whether names of fields may be disguised.
    pub disguised_names: bool,
}

/// The minimum speed of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The longest pause, and the time over which the rate is averaged.
    pub patience: Duration,
    /// Bytes a second; 0: no minimum.
    pub min_rate: u64,
}

impl Demand {
    /// No minimum.
    #[cfg(any(test, feature = "fuzzing"))]
    pub const NONE: Self = Self { patience: Duration::from_secs(3600), min_rate: 0 };

    /// Bytes in the time over which the rate is averaged.
    pub fn min_bytes(self) -> u64 {
        let millis = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
        self.min_rate.saturating_mul(millis) / 1000
    }
}

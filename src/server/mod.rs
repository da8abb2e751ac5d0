//! Sockets and connections. The server serves a service, and knows nothing about what
//! the service does.
//!
//! Guarantees: a client that sends nothing, sends too slowly, or sends too much holds one
//! connection for a bounded time and no other resource. If file descriptors run out,
//! accepting slows down and nothing ends. A drain finishes the requests in progress and
//! starts no other.

mod accept;
mod callers;
mod connection;
mod drive;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod http1;
mod http2;
mod service;
mod settings;
mod state;
mod syntax;
mod ticker;
mod transport;
mod tunnel;

pub(crate) use accept::{
    BindError, Capacity, Listener, ListenerConfig, ListenerHandle, OpenConnections, OpenSocket,
    serve,
};
pub(crate) use callers::{Callers, Trust, is_allowed};
pub(crate) use http1::chunks::Chunks;
pub(crate) use http1::head::check_request_line;
pub(crate) use service::RequestService;
pub(crate) use settings::{
    Demand, HeadBounds, Http2Settings, ListenAddress, ListenerSettings, ListenerTimeouts, WhenFull,
};
pub(crate) use state::{ClientBody, ClientLink, HeadLines, Interim, Pace, Peer};
pub(crate) use transport::{
    Certificate, CertificateDates, TlsError, TlsSettings, TlsVersion, Validity,
};
pub(crate) use tunnel::TunnelEnd;

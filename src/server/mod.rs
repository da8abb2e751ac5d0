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
mod discard;
mod drive;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod http1;
mod http2;
mod service;
mod settings;
mod state;
mod syntax;
mod ticker;
mod transport;
mod tunnel;

pub use accept::{
    BindError, Capacity, Listener, ListenerConfig, ListenerHandle, OpenConnections, OpenSocket,
    serve,
};
pub use callers::{Callers, Trust, is_allowed};
pub use http1::chunks::Chunks;
pub use service::RequestService;
pub use settings::{
    Demand, HeadBounds, Http2Settings, ListenAddress, ListenerSettings, ListenerTimeouts, WhenFull,
};
pub use state::{
    BodyMemory, ClientBody, ClientBodyError, ClientLink, HeadLines, HeldBody, Interim, MemoryPart,
    NoMemory, Pace, Peer, USUAL_BODY_MEMORY,
};
pub use syntax::FieldBounds;
pub use transport::{Certificate, CertificateDates, TlsError, TlsSettings, TlsVersion, Validity};
pub use tunnel::TunnelEnd;

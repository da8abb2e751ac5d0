//! Sockets and connections. The server serves a service and does not know which.
//!
//! What it guarantees: a client that says nothing, or too slowly, or too much,
//! holds one connection for a bounded time and no other resource; running out
//! of file descriptors slows the accepting down and ends nothing; a drain
//! finishes the requests under way and starts no other.

mod activity;
mod chunks;
mod client_body;
mod connection;
mod fragments;
mod frames;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod guard;
mod head;
mod identity;
mod interim;
mod listener;
mod observed;
mod pace;
mod proxied;
mod responses;
mod settings;
mod socket;
mod spread;
mod stream;
mod terms;
mod tls;
mod tunnel;
mod turns;

pub use client_body::ClientBody;
pub use connection::Peer;
pub use interim::InterimQueue;
pub use listener::{BindError, Listener, serve};
pub use pace::{Demand, Pace};
pub use settings::{Http2Settings, ListenAddress, ListenerSettings, ListenerTimeouts};
pub use socket::OpenSocket;
pub use terms::{Capacity, ListenerTerms, Terms};
pub use tls::{Certificate, TlsError, TlsSettings, TlsVersion, certificates};

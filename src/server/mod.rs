//! Sockets and connections. The server serves a service and does not know which.
//!
//! What it guarantees: a client that says nothing, or too slowly, or too much,
//! holds one connection for a bounded time and no other resource; running out
//! of file descriptors slows the accepting down and ends nothing; a drain
//! finishes the requests under way and starts no other.

mod activity;
mod connection;
mod listener;
mod settings;

pub use connection::Peer;
pub use listener::{BindError, Listener, ListenerTerms, serve};
pub use settings::{ListenerSettings, ListenerTimeouts};

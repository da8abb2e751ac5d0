//! Sockets and connections.

mod settings;

pub use settings::{ListenerSettings, ListenerTimeouts};

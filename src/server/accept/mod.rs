//! Accepting: one socket for each worker, permits that bound the connections, and
//! the balancing of connections among workers.

mod balance;
mod config;
mod error;
mod listener;
mod permits;
mod places;
mod socket;

pub use balance::OpenConnections;
pub use config::{ListenerConfig, ListenerHandle};
pub use error::BindError;
pub use listener::{Listener, serve};
pub use permits::Capacity;
pub use socket::OpenSocket;

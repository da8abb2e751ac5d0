//! Accepting: one socket for each worker, permits that bound the connections, and
//! the balancing of connections among workers.

mod balance;
mod config;
mod error;
mod listener;
mod permits;
mod places;
mod socket;

pub(crate) use balance::OpenConnections;
pub(crate) use config::{ListenerConfig, ListenerHandle};
pub(crate) use error::BindError;
pub(crate) use listener::{Listener, serve};
pub(crate) use permits::Capacity;
pub(crate) use socket::OpenSocket;

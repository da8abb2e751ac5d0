//! Real Redis servers for the tests, and a wire to them that can break.
//!
//! Every server listens on a free port of the loopback, keeps nothing on disk
//! but what a cluster needs, and ends with the value that stands for it, also
//! when a test panics. Whatever starts here is waited for until it answers.

mod cluster;
mod port;
mod sentinels;
mod server;
mod shared;
mod tests;
mod wire;

pub(crate) use cluster::Cluster;
pub(crate) use sentinels::Sentinels;
pub(crate) use server::{LOOPBACK, Options, Redis};
pub(crate) use shared::{shared_cluster, shared_server, shared_shards};
pub(crate) use wire::{Fault, Wire};

//! Real Redis servers for the tests, and a connection to them that can fail.
//!
//! Every server listens on a free port of the loopback and writes nothing to disk except
//! the files of a cluster. It ends when its value is dropped, also when a test panics. A
//! start waits until the server answers.

mod cluster;
mod port;
mod scripts_without_time;
mod sentinels;
mod server;
mod shared;
mod tests;
mod wire;

pub(crate) use cluster::Cluster;
pub(crate) use scripts_without_time::ScriptsWithoutTime;
pub(crate) use sentinels::Sentinels;
pub(crate) use server::{LOOPBACK, Options, Redis, major_version};
pub(crate) use shared::{shared_cluster, shared_server, shared_shards};
pub(crate) use wire::{Fault, Wire};

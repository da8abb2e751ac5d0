//! Fuzz targets. Each one takes bytes that a client or an upstream could send, and panics
//! if an invariant does not hold.
//!
//! `fuzz/` runs them guided by coverage, see docs/abuse.md. The tests here run them over
//! the corpus in `fuzz/corpus` and over inputs derived from it.

pub use crate::check::fuzzing::{descriptors, families, leases, pointers, questions};
pub use crate::config::fuzzing::config;
pub use crate::message::ask_fuzzing::asks;
pub use crate::message::fuzzing::{hops, meters, targets, verdicts};
pub use crate::message::read_body::fuzzing::bodies;
pub use crate::message::rpc_fuzzing::{event_streams, messages};
pub use crate::proxy::fuzzing::responses;
pub use crate::server::fuzzing::{certificate, chunks, frames, guard, head, proxied};
pub use tollgate_core::policy::fuzzing::{agents, jwt};
pub use tollgate_core::price::fuzzing::prices;
pub use tollgate_core::routes::fuzzing::{hosts, paths};
pub use tollgate_import::fuzzing::{import_nginx, import_yaml};
pub use tollgate_redis::fuzzing::redis;
pub use tollgate_replay::fuzzing::logs;

pub use clients::{forwarding, keys};
pub use credentials::{api_keys, origins, passwords};

mod clients;
mod credentials;
#[cfg(test)]
mod tests;

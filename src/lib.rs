//! Tollgate, a rate-limiting API gateway whose limits are true.
//!
//! # Layout
//!
//! All that decides is the crate `tollgate-limiter`; its modules are those of this
//! crate's root, too. A module may use those below it and none beside it:
//!
//! | layer | modules | what they are |
//! |---|---|---|
//! | 0 limiter | [`time`]; [`request`], [`digest`], [`algorithm`], [`consistency`], [`meter`], [`drain`]; [`policy`], [`store`]; [`decision`] | see `tollgate-limiter` |
//! | 1 | `platform`, [`telemetry`], [`gradient`], [`message`], [`routes`] | what needs Linux, with portable forms; logs; whether an upstream slows down; what the gateway itself says; which route a request takes |
//! | 2 | [`server`], [`engine`] | sockets and connections; from a request's view to a decision |
//! | 3 | [`proxy`] | forwarding |
//! | 4 | [`snapshot`] | what one request sees |
//! | 5 | [`gateway`] | the life of a request |
//! | 6 | [`config`] | from `gateway.yaml` to settings |
//! | 7 | [`app`] | build, run, reload, stop |
//! | 8 | [`cli`] | the command line |
//!
//! `tests/tidy` holds this table.

pub mod app;
pub mod cli;
pub mod config;
pub mod engine;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod gateway;
pub mod gradient;
pub mod message;
mod platform;
pub mod proxy;
pub mod routes;
pub mod server;
pub mod snapshot;
pub mod telemetry;

pub use tollgate_limiter::{
    algorithm, consistency, decision, digest, drain, meter, policy, request, store, time,
};

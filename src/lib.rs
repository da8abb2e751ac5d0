//! Tollgate, a rate-limiting API gateway whose limits are true.
//!
//! # Layout
//!
//! A module may use those below it and none beside it; where a row has a
//! semicolon, what stands behind it may also use what stands before:
//!
//! | layer | modules | what they are |
//! |---|---|---|
//! | 0 words | [`time`]; [`drain`], [`telemetry`] | integer time and clocks; stopping; logs |
//! | 1 vocabulary, pure | [`request`], [`digest`], [`algorithm`], [`terms`], [`gradient`]; [`message`] | a request as rules see it; keys; how is counted, and how exactly on many nodes; whether an upstream slows down; what the gateway itself says |
//! | 2 machines | [`rules`], [`store`], [`server`] | which policies under which keys; where counters live; sockets and connections |
//! | 3 engines | [`limiter`], [`proxy`] | deciding; forwarding |
//! | 4 | [`snapshot`] | what one request sees |
//! | 5 | [`gateway`] | the life of a request |
//! | 6 | [`config`] | from `gateway.yaml` to what is true |
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
    algorithm, decision, digest, drain, meter, policy, request, store, terms, time,
};

//! Tollgate.
pub mod algorithm;
pub mod config;
pub mod digest;
pub mod limiter;
pub mod message;
pub mod proxy;
pub mod request;
pub mod rules;
pub mod server;
pub mod snapshot;
pub mod store;
pub mod telemetry;
pub mod time;

//! Tollgate, a rate-limiting API gateway whose limits are true.
//!
//! # Layout
//!
//! Decisions are made by the crate [`tollgate_core`], which any module may use. The commands
//! `replay` and `top` are crates: [`tollgate_replay`] and [`tollgate_top`]. A module may use the
//! modules of this crate below it, and none beside it:
//!
//! | layer | modules | what they are |
//! |---|---|---|
//! | 1 | `grpc` | frames and messages that both sides of gRPC need |
//! | 2 | `platform`, `telemetry`, `io`, `message`, `patches`, `turn` | what needs Linux, with portable forms; logs; how messages are written to connections; what the gateway itself says; changes of policies at run time; when the runtime asks the system |
//! | 3 | `server`, `engine` | sockets and connections; from a request's view to a decision |
//! | 4 | `proxy` | forwarding |
//! | 5 | `snapshot` | what one request sees |
//! | 6 | `gateway`, `admin` | the life of a request; what operators see and change |
//! | 7 | `check` | decisions for other proxies and services |
//! | 8 | [`config`] | from `gateway.yaml` to settings |
//! | 9 | `app`; [`embedded`] | build, run, reload, stop; the policies of a file inside an application |
//! | 10 | [`cli`] | the command line |
//!
//! `crates/tidy` holds this table.

// The modules of the gateway are private, and so is what they have.
#![allow(unreachable_pub)]

mod admin;
mod api_keys;
mod app;
mod boxed;
mod check;
pub mod cli;
pub mod config;
pub mod embedded;
mod engine;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gateway;
mod grpc;
mod io;
mod message;
mod patches;
mod platform;
mod proxy;
mod server;
mod snapshot;
mod telemetry;
mod turn;

//! What is written down: the process' own log, and a line for every request.
//!
//! Writing never blocks a worker: a full buffer drops lines and counts them.

mod access_log;
mod line_limit;
mod log;
mod settings;

pub use access_log::{AccessLog, Record, WorkerLog};
pub use log::init;
pub use settings::{AccessLogSettings, Format, Output, TelemetrySettings};

//! What the gateway reports about itself: the process log, and a record of every
//! request for the access log.
//!
//! Writing never blocks a worker: a full buffer drops lines and counts them.

mod access_log;
mod line_limit;
mod log;
mod record;
mod settings;
mod sinks;

pub use access_log::{AccessLog, WorkerLog};
pub use log::init;
pub use record::{Name, PolicyRecord, Record, TunnelBytes};
pub use settings::{AccessLogSettings, Format, Output, TelemetrySettings};
pub use sinks::{Recording, Sinks};

//! What is written down.

mod settings;

pub use settings::{AccessLogSettings, Format, Output, TelemetrySettings};

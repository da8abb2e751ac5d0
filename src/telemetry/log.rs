//! The process' own log, through `tracing`, on standard error.

use std::io::{IsTerminal as _, stderr};

use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use super::Format;

/// Sends the process' log to standard error. The environment variable
/// `TOLLGATE_LOG` overrules `level`, by module if wanted (`warn,tollgate::proxy=debug`).
///
/// Only the first call has an effect: a process has one log.
pub fn init(level: LevelFilter, format: Format) {
    let filter = EnvFilter::builder()
        .with_default_directive(level.into())
        .with_env_var("TOLLGATE_LOG")
        .from_env_lossy();
    let log = fmt().with_env_filter(filter).with_writer(stderr).with_target(false);
    let _ = match format {
        Format::Text => set_global_default(log.with_ansi(stderr().is_terminal()).finish()),
        Format::Json => set_global_default(log.json().flatten_event(true).finish()),
    };
}

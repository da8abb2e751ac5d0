//! The process log, through `tracing`, on standard error.
//!
//! No client and no upstream can fill it: libraries log only errors unless the environment
//! asks for more, and each call site in the code has a limit on its lines.

use std::fmt;
use std::io::{IsTerminal as _, stderr};

use tollgate_limiter::time::monotonic;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, format};
use tracing_subscriber::registry::LookupSpan;

use super::Format;
use super::line_limit::{LineLimit, Verdict};

/// The environment variable that overrides the configured level.
const VARIABLE: &str = "TOLLGATE_LOG";

/// The module that logs starts, reloads and stops. Operators cause these lines, so they
/// have no limit.
const OPERATION: &str = "tollgate::app";

/// The target of the audit log. The admin listener bounds its lines itself.
const AUDIT: &str = "audit";

/// Sends the process log to standard error. The environment variable `TOLLGATE_LOG`
/// overrides `level`, if needed by module (`warn,tollgate::proxy=debug`). Without it,
/// `level` applies to the gateway's own lines.
///
/// Only the first call has an effect: a process has one log.
pub(crate) fn init(level: LevelFilter, format: Format) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter(level, std::env::var(VARIABLE).ok()))
        .with_writer(stderr);
    let lines = format::format().with_target(false);
    let _ = match format {
        Format::Text => set_global_default(
            log.with_ansi(stderr().is_terminal())
                .event_format(Limited::new(lines, |lines| format!("{lines} lines dropped")))
                .finish(),
        ),
        Format::Json => set_global_default(
            log.fmt_fields(JsonFields::new())
                .event_format(Limited::new(lines.json().flatten_event(true), |lines| {
                    format!("{{\"dropped_lines\":{lines}}}")
                }))
                .finish(),
        ),
    };
}

fn filter(level: LevelFilter, variable: Option<String>) -> EnvFilter {
    let of_libraries = level.min(LevelFilter::ERROR);
    let directives =
        variable.unwrap_or_else(|| format!("{of_libraries},tollgate={level},{AUDIT}={level}"));
    EnvFilter::builder().with_default_directive(level.into()).parse_lossy(directives)
}

/// Formats lines with `lines`, within the limit of each call site.
struct Limited<F> {
    lines: F,
    limit: LineLimit,
    /// The line that says how many lines of the same call site are missing.
    dropped: fn(u64) -> String,
}

impl<F> Limited<F> {
    fn new(lines: F, dropped: fn(u64) -> String) -> Self {
        Self { lines, limit: LineLimit::default(), dropped }
    }
}

impl<S, N, F> FormatEvent<S, N> for Limited<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let is_bounded = metadata.target().starts_with(OPERATION) || metadata.target() == AUDIT;
        if !is_bounded {
            match self.limit.admit(metadata.callsite(), monotonic()) {
                Verdict::Write { dropped: 0 } => {}
                Verdict::Write { dropped } => writeln!(writer, "{}", (self.dropped)(dropped))?,
                Verdict::Drop => return Ok(()),
            }
        }
        self.lines.format_event(context, writer, event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_log_only_errors_unless_the_environment_asks_for_more() {
        let written =
            |level, variable: Option<&str>| filter(level, variable.map(str::to_owned)).to_string();
        assert_eq!(written(LevelFilter::DEBUG, None), "tollgate=debug,audit=debug,error");
        assert_eq!(written(LevelFilter::OFF, None), "tollgate=off,audit=off,off");
        assert_eq!(written(LevelFilter::INFO, Some("h2=debug")), "h2=debug");
    }
}

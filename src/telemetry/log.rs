//! The process' own log, through `tracing`, on standard error.
//!
//! What it guarantees: no client and no upstream can fill it. Libraries write
//! errors only, unless the environment asks for more, and each place in the code
//! writes so many lines in a while and no more.

use std::fmt;
use std::io::{IsTerminal as _, stderr};

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
use crate::time::monotonic;

/// Overrules the configured level, by module if wanted.
const VARIABLE: &str = "TOLLGATE_LOG";

/// What is logged at the start, at a reload and at the stop. The operator causes
/// it, and all of it is written.
const OPERATION: &str = "tollgate::app";

/// Sends the process' log to standard error. The environment variable
/// `TOLLGATE_LOG` overrules `level`, by module if wanted (`warn,tollgate::proxy=debug`).
/// Without it, `level` is that of the gateway's own lines.
///
/// Only the first call has an effect: a process has one log.
pub fn init(level: LevelFilter, format: Format) {
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
    let directives = variable.unwrap_or_else(|| format!("{of_libraries},tollgate={level}"));
    EnvFilter::builder().with_default_directive(level.into()).parse_lossy(directives)
}

/// Writes lines as `lines` does, as long as their place in the code may write any.
struct Limited<F> {
    lines: F,
    limit: LineLimit,
    /// Says how many lines of the same place are missing.
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
        if !metadata.target().starts_with(OPERATION) {
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
    fn libraries_write_errors_only_unless_the_environment_asks_for_more() {
        let written =
            |level, variable: Option<&str>| filter(level, variable.map(str::to_owned)).to_string();
        assert_eq!(written(LevelFilter::DEBUG, None), "tollgate=debug,error");
        assert_eq!(written(LevelFilter::OFF, None), "tollgate=off,off");
        assert_eq!(written(LevelFilter::INFO, Some("h2=debug")), "h2=debug");
    }
}

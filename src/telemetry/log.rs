//! The process log, through `tracing`, on standard error.
//!
//! No client and no upstream can fill it: libraries log only errors unless the environment
//! asks for more, and each call site in the code has a limit on its lines. A thread of its
//! own writes the lines, so that a full pipe delays neither a worker nor the control thread.

use std::fmt;
use std::io::{self, IsTerminal as _, stderr};
use std::sync::OnceLock;
use std::time::Instant;

use anstream::{AutoStream, ColorChoice};
use tollgate_core::time::monotonic;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter, format};
use tracing_subscriber::registry::LookupSpan;

use super::Format;
use super::line_limit::{LineLimit, Verdict};
use super::lost_lines::LostLines;
use super::settings::Output;
use super::writer::{LogKind, LogQueue, LogWriter};

/// The environment variable that overrides the configured level.
const VARIABLE: &str = "TOLLGATE_LOG";

/// The environment variable that overrides the configured format: `text` or `json`.
const FORMAT_VARIABLE: &str = "TOLLGATE_LOG_FORMAT";

/// The most lines that wait for the thread.
const QUEUE_LINES: usize = 1024;

/// The module that logs starts, reloads and stops. Operators cause these lines, so they
/// have no limit.
const OPERATION: &str = "tollgate::app";

/// The target of the audit log. The admin listener bounds its lines itself.
const AUDIT: &str = "audit";

/// Counts the lines of the process log that are lost. A process has one log.
static LOST: OnceLock<LostLines> = OnceLock::new();

/// Counts the lines of the process log that are lost because standard error accepts none.
pub fn lost_process_lines() -> LostLines {
    LOST.get_or_init(LostLines::default).clone()
}

/// The process log, with its writing thread.
#[derive(Debug)]
pub struct ProcessLog(LogWriter);

impl ProcessLog {
    /// Sends the process log to standard error. The environment variable `TOLLGATE_LOG`
    /// overrides `level`, if needed by module (`warn,tollgate::proxy=debug`). Without it,
    /// `level` applies to the gateway's own lines. `TOLLGATE_LOG_FORMAT` overrides `format`.
    /// Without both, the format is text on a terminal, and JSON otherwise.
    ///
    /// Only the first call has an effect: a process has one log.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start(level: LevelFilter, format: Option<Format>) -> io::Result<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let is_terminal = stderr().is_terminal();
        let asked = variable(FORMAT_VARIABLE);
        let format = chosen(asked.as_deref(), format, is_terminal);
        let kind = LogKind {
            name: "process-log",
            batches: QUEUE_LINES,
            dropped: match format {
                Format::Text => |lines| format!("{lines} lines lost: standard error was full\n"),
                Format::Json => |lines| format!("{{\"dropped_lines\":{lines}}}\n"),
            },
            lost: lost_process_lines(),
        };
        let writer = LogWriter::start(kind, &Output::Stderr)?;
        let has_colours = AutoStream::choice(&stderr()) != ColorChoice::Never;
        let filter = filter(level, variable(VARIABLE));
        subscribe(filter, format, has_colours, Lines(writer.queue()));
        if asked.is_some_and(|asked| Format::named(&asked).is_none()) {
            tracing::warn!("{FORMAT_VARIABLE} is neither text nor json: it has no effect");
        }
        Ok(Self(writer))
    }

    /// Writes what is queued. What is not written at `end` is lost, and so are later lines.
    pub fn close_by(self, end: Instant) {
        self.0.close_by(end);
    }
}

fn chosen(asked: Option<&str>, configured: Option<Format>, is_terminal: bool) -> Format {
    let by_output = if is_terminal { Format::Text } else { Format::Json };
    asked.and_then(Format::named).or(configured).unwrap_or(by_output)
}

fn subscribe(filter: EnvFilter, format: Format, has_colours: bool, lines: Lines) {
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines);
    let lines = format::format().with_target(false);
    let _ = match format {
        Format::Text => set_global_default(
            log.with_ansi(has_colours)
                .event_format(Limited::new(lines, |lines| format!("{lines} lines dropped")))
                .finish(),
        ),
        Format::Json => set_global_default(
            log.fmt_fields(JsonFields::new())
                .event_format(Limited::new(TimeNamed(lines.json().flatten_event(true)), |lines| {
                    format!("{{\"dropped_lines\":{lines}}}")
                }))
                .finish(),
        ),
    };
}

/// Passes each line to the writing thread.
struct Lines(LogQueue);

impl<'l> MakeWriter<'l> for Lines {
    type Writer = &'l Self;

    fn make_writer(&'l self) -> &'l Self {
        self
    }
}

impl io::Write for &Lines {
    /// Takes a whole event, which `tracing` writes at once. It counts as one line, also if
    /// it contains ends of lines.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.send(event.to_vec(), 1);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

/// Gives the time the name that it has in the access log.
struct TimeNamed<F>(F);

impl<S, N, F> FormatEvent<S, N> for TimeNamed<F>
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
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        match line.strip_prefix("{\"timestamp\":") {
            Some(rest) => write!(writer, "{{\"time\":{rest}"),
            None => writer.write_str(&line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_that_of_the_environment_then_of_the_file_then_of_the_output() {
        let text = Format::Text;
        let json = Format::Json;
        assert_eq!(chosen(None, None, true), text);
        assert_eq!(chosen(None, None, false), json);
        assert_eq!(chosen(None, Some(json), true), json);
        assert_eq!(chosen(Some("text"), Some(json), false), text);
        assert_eq!(chosen(Some("xml"), None, false), json);
    }

    #[test]
    fn libraries_log_only_errors_unless_the_environment_asks_for_more() {
        let written =
            |level, variable: Option<&str>| filter(level, variable.map(str::to_owned)).to_string();
        assert_eq!(written(LevelFilter::DEBUG, None), "tollgate=debug,audit=debug,error");
        assert_eq!(written(LevelFilter::OFF, None), "tollgate=off,audit=off,off");
        assert_eq!(written(LevelFilter::INFO, Some("h2=debug")), "h2=debug");
    }
}

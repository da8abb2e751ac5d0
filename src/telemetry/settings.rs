//! The settings of the process log, the access log, the metrics and the traces.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_core::log_fields::FieldNames;

use super::template::Template;

/// The settings of all logs, of the metrics and of the traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetrySettings {
    /// The least severe level of the gateway's own lines that is written.
    pub level: tracing::level_filters::LevelFilter,
    /// The format of the process log, which goes to standard error. None: text on a terminal,
    /// and JSON otherwise.
    pub format: Option<Format>,
    /// The access log. None: there is none.
    pub access_log: Option<AccessLogSettings>,
    /// The most series of metrics with labels that workers begin.
    pub max_series: usize,
    /// The traces. None: there are none.
    pub traces: Option<TraceSettings>,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self {
            level: tracing::level_filters::LevelFilter::INFO,
            format: None,
            access_log: Some(AccessLogSettings::default()),
            max_series: 10_000,
            traces: None,
        }
    }
}

/// The settings of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogSettings {
    /// Where its lines go.
    pub output: Output,
    /// The format of its lines. None: text on a terminal, and JSON otherwise.
    pub format: Option<LineFormat>,
    /// How many of 100 requests are written that are neither refused nor failed nor slow.
    pub sample_percent: u8,
    /// How much of a client's address is written.
    pub client: ClientAddress,
    /// Whether ids of clients and microseconds are written, as `replay` needs them.
    pub has_keys: bool,
}

impl Default for AccessLogSettings {
    fn default() -> Self {
        Self {
            output: Output::Stdout,
            format: None,
            sample_percent: 100,
            client: ClientAddress::Masked,
            has_keys: false,
        }
    }
}

/// The format of a line of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// Text that is easy to read.
    Text,
    /// Less text, for the terminal that the log goes to. It has no name.
    Terminal(Terminal),
    /// One JSON object in each line, with these names.
    Json(FieldNames),
    /// The format of Apache and nginx, for programs that know no other.
    Combined,
    /// The operator's own.
    Template(Arc<Template>),
}

/// The terminal that an access log goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Its width.
    pub columns: usize,
    /// Whether its user wants colours.
    pub has_colours: bool,
}

/// How much of a client's address is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAddress {
    /// Its network: the first 24 bits of an IPv4 address, 48 bits of an IPv6 address.
    Masked,
    /// The whole address.
    Full,
    /// Nothing.
    Hidden,
}

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Appended to this file.
    File(PathBuf),
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("stdout"),
            Self::Stderr => f.write_str("stderr"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text that is easy to read.
    Text,
    /// One JSON object in each line.
    Json,
}

impl Format {
    /// The format of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// The settings of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// The URL of the collector.
    pub endpoint: String,
    /// How spans are sent.
    pub protocol: TraceProtocol,
    /// How many of a million requests are sampled.
    pub sample: u32,
}

/// A protocol of OpenTelemetry collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceProtocol {
    /// OTLP over gRPC.
    Grpc,
    /// OTLP in binary form over HTTP.
    Http,
}

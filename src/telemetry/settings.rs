//! What is written down, where, and in which form.

use std::fmt;
use std::path::PathBuf;

/// Logs of the process and of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetrySettings {
    /// The least severe level of the gateway's own lines that is written.
    pub level: tracing::level_filters::LevelFilter,
    /// Form of the process' own log, which goes to standard error.
    pub format: Format,
    /// Where the access log goes; none: nowhere.
    pub access_log: Option<AccessLogSettings>,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self {
            level: tracing::level_filters::LevelFilter::INFO,
            format: Format::Text,
            access_log: Some(AccessLogSettings { output: Output::Stdout, format: Format::Json }),
        }
    }
}

/// A line for every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogSettings {
    /// Where to.
    pub output: Output,
    /// In which form.
    pub format: Format,
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

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

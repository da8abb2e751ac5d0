//! `headers`, `telemetry` and `runtime`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::List;
use crate::config::field::{Either, Field};
use crate::config::scalar::{Level, Off, OutputPath, Period, Workers};

/// What clients are told about their limits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "headers")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawHeaders {
    /// Families of header fields. Default: all.
    #[serde(default)]
    pub(in crate::config) dialects: List<RawDialect>,
    /// Whether scripts of other origins may read them. Default: true.
    #[serde(default)]
    pub(in crate::config) expose_cors: Field<bool>,
}

/// A family of header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "dialect", rename_all = "snake_case")]
pub(in crate::config) enum RawDialect {
    /// X-Ratelimit-Limit, -Remaining, -Reset and -Retry-After.
    XRatelimit,
    /// RateLimit-Policy and RateLimit.
    Ietf,
    /// Retry-After.
    RetryAfter,
}

/// Logs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "telemetry")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawTelemetry {
    /// The process' own log, on standard error.
    #[serde(default)]
    pub(in crate::config) log: Field<RawLog>,
    /// A line for every request, or false.
    #[serde(default)]
    pub(in crate::config) access_log: Field<Either<Off, RawAccessLog>>,
}

/// The process' own log.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "log")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawLog {
    /// The least severe level of the gateway's own lines; libraries write errors only. The
    /// environment variable TOLLGATE_LOG overrules it. Default: info.
    #[serde(default)]
    pub(in crate::config) level: Field<Level>,
    /// Default: text.
    #[serde(default)]
    pub(in crate::config) format: Field<RawFormat>,
}

/// A line for every request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "access_log")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawAccessLog {
    /// stdout, stderr or a file. Default: stdout.
    #[serde(default)]
    pub(in crate::config) path: Field<OutputPath>,
    /// Default: json.
    #[serde(default)]
    pub(in crate::config) format: Field<RawFormat>,
}

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "format", rename_all = "snake_case")]
pub(in crate::config) enum RawFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The process.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "runtime")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawRuntime {
    /// Worker threads. Default: auto, one for each core.
    #[serde(default)]
    pub(in crate::config) workers: Field<Workers>,
    /// How long requests under way may take after the signal to stop. Default: 30s.
    #[serde(default)]
    pub(in crate::config) drain: Field<Period>,
}

//! Values of the sections `telemetry` and `runtime`.

use std::path::PathBuf;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;

use tollgate_core::scalar::ScalarError;

use super::text::{read_as_text, written_as_text};
use crate::telemetry::Output;

/// The lowest level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(pub LevelFilter);

written_as_text!(Level, form LEVEL, "off, error, warn, info, debug or trace", "info");

impl FromStr for Level {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        Ok(Self(match text {
            "off" => LevelFilter::OFF,
            "error" => LevelFilter::ERROR,
            "warn" => LevelFilter::WARN,
            "info" => LevelFilter::INFO,
            "debug" => LevelFilter::DEBUG,
            "trace" => LevelFilter::TRACE,
            _ => {
                let advice = "one of: off, error, warn, info, debug, trace";
                return Err(ScalarError::new(format!("\"{text}\" is not a log level"), advice));
            }
        }))
    }
}

/// The destination of a log: `stdout`, `stderr` or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPath(pub Output);

written_as_text!(OutputPath, "stdout, stderr, or the path of a file", "stdout", "access.log");

impl FromStr for OutputPath {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        match text {
            "" => Err(ScalarError::new("the path is empty", "write stdout, stderr or a path")),
            "stdout" => Ok(Self(Output::Stdout)),
            "stderr" => Ok(Self(Output::Stderr)),
            path => Ok(Self(Output::File(PathBuf::from(path)))),
        }
    }
}

/// The format of the access log: a word, or a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineForm {
    Json,
    Text,
    Combined,
    Template(String),
}

written_as_text!(
    LineForm,
    "json (one object for each line), text (for people), combined (the format of Apache and nginx, without referrer and browser), or a template with the names of fields in braces",
    "json",
    "{time} {method} {path} {status}"
);

impl FromStr for LineForm {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            "combined" => Ok(Self::Combined),
            template if template.contains(['{', '}']) => Ok(Self::Template(template.to_owned())),
            _ => {
                let advice =
                    "write json, text, combined, or a template such as \"{time} {status}\"";
                Err(ScalarError::new(format!("\"{text}\" is not a format of lines"), advice))
            }
        }
    }
}

/// The word `false` instead of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Off;

read_as_text!(Off);

impl schemars::JsonSchema for Off {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Off".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "const": false })
    }
}

impl FromStr for Off {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        match text {
            "false" => Ok(Self),
            _ => {
                let advice = "write false, or a map like { path: stdout, format: json }";
                Err(ScalarError::new(format!("\"{text}\" is not valid here"), advice))
            }
        }
    }
}

/// `auto`, or a number of worker threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers(pub Option<usize>);

/// No machine has more cores, so a larger number is a mistake.
const MAX_WORKERS: usize = 1024;

written_as_text!(Workers, form WORKERS, "auto (one for each core), or a number", "auto", "4");

impl FromStr for Workers {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if text == "auto" {
            return Ok(Self(None));
        }
        match text.parse() {
            Ok(workers @ 1..=MAX_WORKERS) => Ok(Self(Some(workers))),
            _ => {
                let advice = "write auto, or a number from 1 to 1024";
                Err(ScalarError::new(
                    format!("\"{text}\" is not a valid number of workers"),
                    advice,
                ))
            }
        }
    }
}

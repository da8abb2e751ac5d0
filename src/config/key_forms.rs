//! Keys and teams as calls and commands write them, in the words of a key file.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::scalar::{Date, KeyLimit, Period};
use super::yaml;
use crate::api_keys::{ImportedKey, Readers, TeamForm};

/// The keys and teams of a file that is imported.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImportedFile {
    /// The teams by name.
    pub teams: BTreeMap<String, TeamForm>,
    /// The keys.
    pub keys: Vec<ImportedKey>,
}

/// The keys and teams in the text of a key file.
///
/// # Errors
/// If it cannot be read. The error does not repeat what is in it.
pub fn imported_keys(text: &str) -> Result<ImportedFile, String> {
    yaml::read_long(text).map_err(|line| {
        let place = at(line);
        format!("the input is not a key file{place}: write it as tollgate key export does")
    })
}

/// The document that another program has written, in YAML or JSON.
///
/// # Errors
/// If it cannot be read. The error does not repeat what is in it.
pub fn foreign_document(text: &str) -> Result<serde_json::Value, String> {
    yaml::read_long(text)
        .map_err(|line| format!("the input cannot be read{}: it is not YAML", at(line)))
}

fn at(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" at line {line}"))
}

/// Reads limits, dates and lengths of time.
pub fn key_readers() -> Readers {
    Readers {
        limit: |text| text.parse().map(|KeyLimit(limit)| limit).map_err(|error| error.to_string()),
        date: |text| text.parse().map(|Date(it)| it).map_err(|error| error.to_string()),
        span: |text| {
            if text == "0s" {
                return Ok(tollgate_core::time::Span::ZERO);
            }
            text.parse().map(|it: Period| it.span()).map_err(|error| error.to_string())
        },
    }
}

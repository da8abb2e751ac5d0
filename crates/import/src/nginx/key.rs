//! The key of a policy, and what a map gives for it.

use crate::out::{Map, Value};

/// The key of a policy.
#[derive(Clone, Debug, Default)]
pub struct Key {
    /// The key itself. None if it is always empty, so that no request is counted.
    pub value: Option<Value>,
    /// Whether a request without it is not counted.
    pub skips: bool,
    /// Requests that are not counted.
    pub exempt: Map,
    /// A field of `exempt` whose value may be a secret: its name and the value.
    pub secret: Option<String>,
    /// How it differs.
    pub difference: Option<String>,
}

impl Key {
    /// One counter for all requests.
    pub fn global() -> Self {
        Self { value: Some("global".into()), ..Self::default() }
    }
}

/// What a map gives: values by patterns, and the value for all others.
pub struct Choice<'a> {
    /// The variable that it reads.
    pub source: &'a str,
    /// Whether the source is read as an address, and patterns as networks.
    pub is_geo: bool,
    /// Patterns with their values.
    pub entries: Vec<(&'a str, &'a str)>,
    /// The value for all others.
    pub other: &'a str,
}

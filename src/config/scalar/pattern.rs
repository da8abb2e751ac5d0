//! Patterns of routes. Their grammar belongs to the rules; here it meets serde.

use std::str::FromStr;

use super::text::{ScalarError, written_as_text};
use crate::rules::{HostPattern, PathPattern};

/// A path pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::config) struct PathText(pub(in crate::config) PathPattern);

written_as_text!(
    PathText,
    "A path, exact, with {param} for a segment, or with * for all that follows",
    "/v1/orders/{id}",
    "/v1/*",
    "/grpc.*"
);

impl FromStr for PathText {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse()
            .map(Self)
            .map_err(|error| ScalarError::of(error, "like /v1/orders/{id} or /v1/*"))
    }
}

/// A host pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::config) struct HostText(pub(in crate::config) HostPattern);

written_as_text!(
    HostText,
    "A host, or * for all hosts below one",
    "api.example.com",
    "*.example.com"
);

impl FromStr for HostText {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse()
            .map(Self)
            .map_err(|error| ScalarError::of(error, "like api.example.com or *.example.com"))
    }
}

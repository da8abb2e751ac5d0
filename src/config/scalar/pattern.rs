//! Patterns of routes. The modules `request` and `routes` define their grammar, and this file reads
//! them with serde.

use std::str::FromStr;

use super::text::{ScalarError, written_as_text};
use crate::request::PathPattern;
use crate::routes::HostPattern;

/// A path pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::config) struct PathText(pub(in crate::config) PathPattern);

written_as_text!(
    PathText,
    "A path, which may contain {param} for a segment, and end with * for any rest",
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
    "A host, or all subdomains of a host with *",
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

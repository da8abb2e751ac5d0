//! Targets of redirects, prefixes of paths, and hosts with their ports.

use std::str::FromStr;

use http::HeaderValue;
use tollgate_core::request::{PathPattern, Segment};
use tollgate_core::routes::HostPattern;

use tollgate_core::scalar::ScalarError;

use super::address::port_number;
use super::text::written_as_text;
use crate::message::Location;

/// The target of a redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationText(pub Location);

written_as_text!(
    LocationText,
    "A path or a URL, which may contain {host}, {path}, {query} and parameters",
    "https://{host}{path}{query}",
    "/orders/{id}"
);

impl FromStr for LocationText {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse()
            .map(Self)
            .map_err(|error| ScalarError::of(error, "like https://{host}{path}{query}"))
    }
}

/// Whole segments at the beginning of a path: `/v1`, `/shop/api`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixText(pub PathPattern);

written_as_text!(PrefixText, text PATH, "Whole segments at the beginning of a path", "/v1", "/shop/api");

impl FromStr for PrefixText {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        const ADVICE: &str = "like /v1 or /shop/api";
        let pattern: PathPattern = text.parse().map_err(|error| ScalarError::of(error, ADVICE))?;
        let is_whole =
            |segment: &Segment| matches!(segment, Segment::Literal(text) if !text.is_empty());
        if pattern.tail || !pattern.segments.iter().all(is_whole) {
            let message =
                "a prefix is made of whole segments, without parameters, *, or a slash at its end";
            return Err(ScalarError::new(message, ADVICE));
        }
        Ok(Self(pattern))
    }
}

impl PrefixText {
    /// The text, which is not empty and does not end with a slash.
    pub fn text(&self) -> String {
        self.0.to_string()
    }
}

/// The value of a `Host` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAndPort(pub HeaderValue);

written_as_text!(
    HostAndPort,
    "A host, with a port if that is not the default of the scheme",
    "internal.example",
    "internal.example:8080"
);

impl FromStr for HostAndPort {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        const ADVICE: &str = "like internal.example or internal.example:8080";
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') && !port.contains('/') => (host, Some(port)),
            _ => (text, None),
        };
        port.map(port_number).transpose()?;
        let invalid = || ScalarError::new(format!("\"{text}\" is not a host"), ADVICE);
        match host.parse() {
            Ok(HostPattern::Exact(_)) => text.parse().map(Self).map_err(|_| invalid()),
            Ok(HostPattern::Below(_)) => Err(invalid()),
            Err(error) => Err(ScalarError::of(error, ADVICE)),
        }
    }
}

//! Values whose grammar another module defines: keys, patterns of routes, locations, and JSON
//! Pointers.

use std::str::FromStr;
use std::sync::LazyLock;

use tollgate_core::meter::Pointer;
use tollgate_core::policy::{GeoCode, GeoCodeError, KeyExpr, KeyExprError, key_forms};
use tollgate_core::request::PathPattern;
use tollgate_core::routes::HostPattern;

use tollgate_core::scalar::ScalarError;

use super::form;
use super::text::{described_as_text, written_as_text};
use crate::config::neighbours;

static KEYS: LazyLock<String> = LazyLock::new(|| format!("keys are {}", key_forms("and")));

/// A key of one word, such as `ip` or `header:x-tenant`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyWord(pub KeyExpr);

described_as_text!(
    KeyWord,
    { "type": "string", "pattern": form::pattern(&form::key()) },
    format!("What one counter belongs to: {}", key_forms("or")),
    "ip",
    "api_key",
    "header:x-tenant"
);

impl FromStr for KeyWord {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(Self).map_err(|error| match error {
            KeyExprError::Unknown(word) => {
                let advice = neighbours::key(&word).unwrap_or(&KEYS);
                ScalarError::new(format!("there is no key \"{word}\""), advice)
            }
            other => ScalarError::of(other, "like ip, cookie:session or header:x-tenant"),
        })
    }
}

/// A path pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathText(pub PathPattern);

written_as_text!(
    PathText, text PATH,
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
pub struct HostText(pub HostPattern);

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

/// A country, a region or a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceCode(pub GeoCode);

written_as_text!(PlaceCode, text PLACE, "A country, region or network", "DE", "DE-BE", "AS64500");

impl FromStr for PlaceCode {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(Self).map_err(|GeoCodeError::Malformed(text)| {
            let message = format!("\"{text}\" is not a code of a country, region or network");
            ScalarError::new(message, "like DE, DE-BE or AS64500")
        })
    }
}

/// The position of a value in a document (RFC 6901).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointerText(pub Pointer);

written_as_text!(PointerText, text POINTER, "A JSON Pointer (RFC 6901)", "/usage/total_tokens");

impl FromStr for PointerText {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(Self).map_err(|error| ScalarError::of(error, "like /usage/total_tokens"))
    }
}

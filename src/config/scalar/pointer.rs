//! JSON Pointers. The module `message` defines their grammar, and this file reads them with serde.

use std::str::FromStr;

use super::text::{ScalarError, written_as_text};
use crate::meter::Pointer;

/// The position of a value in a document (RFC 6901).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::config) struct PointerText(pub(in crate::config) Pointer);

written_as_text!(PointerText, "A JSON Pointer (RFC 6901)", "/usage/total_tokens");

impl FromStr for PointerText {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(Self).map_err(|error| ScalarError::of(error, "like /usage/total_tokens"))
    }
}

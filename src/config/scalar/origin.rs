//! Origins of scripts, as `cors` lists them.

use std::str::FromStr;

use tollgate_core::scalar::ScalarError;

use super::text::written_as_text;
use crate::message::{OriginError, OriginPattern};

/// An origin, or origins below a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginText(pub OriginPattern);

written_as_text!(
    OriginText, text ORIGIN,
    "An origin: a scheme, a host and a port that may be left out. The first label may be *, which \
     stands for one or more labels. * alone is every origin. null, in quotes, is the origin of \
     documents that have none",
    "https://app.example.com",
    "https://*.example.com"
);

impl FromStr for OriginText {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(Self).map_err(|error| {
            let advice = match error {
                OriginError::Path => "leave out what follows the host and the port",
                OriginError::Star => "write * as the first label, like https://*.example.com",
                OriginError::NoScheme | OriginError::Host | OriginError::Port => {
                    "like https://app.example.com or http://localhost:3000"
                }
            };
            ScalarError::of(error, advice)
        })
    }
}

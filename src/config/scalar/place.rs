//! Codes of countries, regions and networks.

use std::str::FromStr;

use super::text::{ScalarError, written_as_text};
use crate::policy::{GeoCode, GeoCodeError};

/// A country, a region or a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) struct PlaceCode(pub(in crate::config) GeoCode);

written_as_text!(PlaceCode, "A country, region or network", "DE", "DE-BE", "AS64500");

impl FromStr for PlaceCode {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(Self).map_err(|GeoCodeError::Malformed(text)| {
            let message = format!("\"{text}\" is not a code of a country, region or network");
            ScalarError::new(message, "like DE, DE-BE or AS64500")
        })
    }
}

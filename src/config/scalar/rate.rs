//! Rates: `100/minute`, `5/s`, `100/30s`, `1_000/15m`, `1k/s`.

use std::str::FromStr;

use tollgate_core::algorithm::Quota;
use tollgate_core::scalar::{self, ScalarError};

use super::text::written_as_text;

/// A number of units in a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub Quota);

written_as_text!(
    Rate, text RATE,
    "A count per window of time. The count may end with k or M. The window is a unit or a duration",
    "100/minute",
    "5/s",
    "1_000/15m",
    "1k/s"
);

impl FromStr for Rate {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        scalar::rate(text).map(Self)
    }
}

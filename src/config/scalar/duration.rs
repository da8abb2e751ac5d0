//! Durations: `250ms`, `5s`, `1m30s`, `2h`, `1d`.

use std::str::FromStr;
use std::time::Duration;

use tollgate_core::scalar::{self, ScalarError};
use tollgate_core::time::Span;

use super::text::written_as_text;

/// A duration, which always has a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Duration);

written_as_text!(
    Period, text PERIOD,
    "A number with a unit (ms, s, m, h, d or w), or several of them in sequence",
    "250ms",
    "5s",
    "1m30s"
);

impl Period {
    pub fn span(&self) -> Span {
        self.0.into()
    }
}

impl FromStr for Period {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        scalar::micros(text, text).map(|us| Self(Duration::from_micros(us)))
    }
}

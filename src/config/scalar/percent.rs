//! Percentages: `10%`.

use std::str::FromStr;

use tollgate_core::scalar::{ScalarError, leading};

use super::text::written_as_text;

const ADVICE: &str = "write a number from 0 to 100 and %, like 10%";

/// A percentage from 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u8);

written_as_text!(Percent, text PERCENT, "A share in percent", "10%");

impl FromStr for Percent {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let (number, unit) = leading(text, "the percentage", ADVICE)?;
        if unit.trim_start() != "%" {
            return Err(ScalarError::new(format!("\"{text}\" is not a percentage"), ADVICE));
        }
        match u8::try_from(number) {
            Ok(percent @ 0..=100) => Ok(Self(percent)),
            _ => Err(ScalarError::new(format!("{text} is more than 100%"), ADVICE)),
        }
    }
}

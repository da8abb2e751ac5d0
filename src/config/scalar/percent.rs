//! Percentages: `10%`.

use std::str::FromStr;

use tollgate_core::scalar::{ScalarError, leading};

use super::text::written_as_text;

const ADVICE: &str = "write a number from 0 to 100 and %, like 10%";
const WEIGHT_ADVICE: &str = "write a number from 0 to 10000 and %, like 25%";

/// The heaviest [`Weight`].
const MAX_WEIGHT: u32 = 10_000;

/// A percentage from 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u8);

written_as_text!(Percent, text PERCENT, "A share in percent", "10%");

/// How much something counts, from 0 to 10,000 percent of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(pub u32);

written_as_text!(Weight, text PERCENT, "A weight in percent", "25%");

impl FromStr for Percent {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        match u8::try_from(percent(text, ADVICE)?) {
            Ok(percent @ 0..=100) => Ok(Self(percent)),
            _ => Err(ScalarError::new(format!("{text} is more than 100%"), ADVICE)),
        }
    }
}

impl FromStr for Weight {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        match u32::try_from(percent(text, WEIGHT_ADVICE)?) {
            Ok(percent @ 0..=MAX_WEIGHT) => Ok(Self(percent)),
            _ => {
                let message = format!("{text} is more than {MAX_WEIGHT}%");
                Err(ScalarError::new(message, WEIGHT_ADVICE))
            }
        }
    }
}

fn percent(text: &str, advice: &'static str) -> Result<u64, ScalarError> {
    let (number, unit) = leading(text, "the percentage", advice)?;
    match unit.trim_start() {
        "%" => Ok(number),
        _ => Err(ScalarError::new(format!("\"{text}\" is not a percentage"), advice)),
    }
}

//! Sizes in bytes: `64KiB`, `10MB`, `1_000_000`.

use std::str::FromStr;

use tollgate_core::scalar::{ScalarError, leading};

use super::text::written_as_text;

const ADVICE: &str = "write bytes, or a number with KB, MB, GB, KiB, MiB or GiB";

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

written_as_text!(
    Size, form SIZE,
    "A number of bytes, or a number with a unit (KB, MB, GB, KiB, MiB or GiB)",
    "64KiB",
    "10MB",
    "1_000_000"
);

impl FromStr for Size {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let (number, unit) = leading(text, "the size", ADVICE)?;
        let factor: u64 = match unit.trim_start() {
            "" | "B" => 1,
            "KB" | "kB" => 1000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            other => {
                return Err(ScalarError::new(format!("\"{other}\" is not a unit of size"), ADVICE));
            }
        };
        let bytes = number.checked_mul(factor);
        bytes.map(Self).ok_or_else(|| ScalarError::new(format!("\"{text}\" is too large"), ""))
    }
}

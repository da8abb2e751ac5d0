//! Durations: `250ms`, `5s`, `1m30s`, `2h`, `1d`.

use super::{ScalarError, leading};
use crate::time::Span;

const ADVICE: &str = "write a number and a unit (ms, s, m, h, d), like 30s or 1m30s";
/// The longest duration in microseconds: ten years. Sums of several durations do not overflow.
const MAX_US: u64 = 3653 * 86_400_000_000;

/// The sum of all `number unit` pairs in microseconds. `whole` is for messages.
///
/// # Errors
/// If a number or a unit is missing, or the sum exceeds ten years.
pub fn micros(text: &str, whole: &str) -> Result<u64, ScalarError> {
    let mut total_us: u64 = 0;
    let mut rest = text;
    loop {
        let (number, after) = leading(rest, "the duration", ADVICE)?;
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        if unit.is_empty() {
            let message = format!("the duration \"{whole}\" has no unit");
            return Err(ScalarError::new(message, ADVICE));
        }
        let unit_us = unit_us(unit).ok_or_else(|| {
            ScalarError::new(format!("\"{unit}\" is not a unit of time"), "use ms, s, m, h, d or w")
        })?;
        total_us = number
            .checked_mul(unit_us)
            .and_then(|us| us.checked_add(total_us))
            .filter(|us| *us <= MAX_US)
            .ok_or_else(|| ScalarError::new(format!("\"{whole}\" is longer than ten years"), ""))?;
        if next.is_empty() {
            return Ok(total_us);
        }
        rest = next;
    }
}

/// A unit of time in microseconds.
pub fn unit_us(unit: &str) -> Option<u64> {
    Span::of_unit(unit).map(Span::as_micros)
}

//! Counts, and rates: `100/minute`, `5/s`, `100/30s`, `1_000/15m`, `1k/s`.

use super::{ScalarError, leading, micros, unit_us};
use crate::algorithm::{MAX_LIMIT, MONTH, Quota};
use crate::time::Span;

const ADVICE: &str = "write a count per time, like 100/minute, 5/s or 1_000/15m";

/// A count in a window of time. The count may contain `_` and end with `k` or `M`. The window is a
/// unit of time, a duration or a month of the calendar.
///
/// # Errors
/// If the text has another form, or its count or window is out of range.
pub fn rate(text: &str) -> Result<Quota, ScalarError> {
    let (count, window) = text
        .split_once('/')
        .ok_or_else(|| ScalarError::new(format!("the rate \"{text}\" has no time"), ADVICE))?;
    let window = Span::from_micros(window_us(window.trim(), text)?);
    let limit = match fraction(count.trim()) {
        None => self::count(count.trim())?,
        Some(_) if window == MONTH => {
            let message = format!("\"{text}\" has no whole count");
            return Err(ScalarError::new(message, "write a whole count, like 2/month"));
        }
        Some(fraction) => return Err(fraction.mistake(text, window)),
    };
    Quota::new(limit, window)
        .map_err(|error| ScalarError::new(format!("in \"{text}\", {error}"), ADVICE))
}

/// A count that is not whole, as a fraction in lowest terms.
struct Fraction {
    numerator: u64,
    denominator: u64,
}

/// The count of a rate such as `1.5/s`. None for any other count.
fn fraction(count: &str) -> Option<Fraction> {
    let number = count.trim_end_matches(['k', 'M']);
    let factor = match &count[number.len()..] {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        _ => return None,
    };
    let (whole, rest) = number.split_once('.')?;
    let denominator = 10_u64.checked_pow(u32::try_from(rest.len()).ok()?)?;
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if rest.is_empty() || !is_number(whole) || !is_number(rest) {
        return None;
    }
    let numerator = format!("{whole}{rest}").parse::<u64>().ok()?.checked_mul(factor)?;
    let divisor = gcd(numerator, denominator);
    (numerator > 0)
        .then(|| Fraction { numerator: numerator / divisor, denominator: denominator / divisor })
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

impl Fraction {
    /// The mistake in the rate `text`, with the same rate in whole numbers.
    fn mistake(&self, text: &str, window: Span) -> ScalarError {
        let Self { numerator, denominator } = self;
        let us = window.as_micros().saturating_mul(*denominator);
        let same = format!("{numerator}/{}", Span::from_micros(us));
        let message = format!("\"{text}\" has no whole count: the same in whole numbers is {same}");
        ScalarError::new(message, "write a whole count and a longer time, like 3/2s for 1.5/s")
    }
}

/// A count, with `k` for a thousand and `M` for a million.
///
/// # Errors
/// If the text is not a whole number, or is above 2^64.
pub fn count(count: &str) -> Result<u64, ScalarError> {
    let (number, suffix) = leading(count, "the rate", ADVICE)?;
    let factor = match suffix {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        _ => {
            let message = format!("the count \"{count}\" is not a whole number");
            return Err(ScalarError::new(message, ADVICE));
        }
    };
    number.checked_mul(factor).ok_or_else(too_large)
}

fn too_large() -> ScalarError {
    ScalarError::new(format!("the count is above {MAX_LIMIT}"), "use a smaller count and window")
}

/// The window: one unit of time, or a duration.
fn window_us(window: &str, rate: &str) -> Result<u64, ScalarError> {
    if window.is_empty() {
        return Err(ScalarError::new(format!("the rate \"{rate}\" has no time"), ADVICE));
    }
    if window.starts_with(|first: char| first.is_ascii_digit()) {
        if window.ends_with("month") || window.ends_with("months") {
            let message = format!("\"{window}\" is not a window: a window is one month");
            return Err(ScalarError::new(message, "write /month without a number"));
        }
        return micros(window, window);
    }
    // A month has no length, so it is a unit of limits and of no other times.
    if matches!(window, "month" | "months") {
        return Ok(MONTH.as_micros());
    }
    unit_us(window).ok_or_else(|| {
        let message = format!("\"{window}\" is not a unit of time");
        ScalarError::new(message, "use ms, s, m, h, d, w or second, minute, hour, day, week, month")
    })
}

//! Rates: `100/minute`, `5/s`, `100/30s`, `1_000/15m`, `1k/s`.

use std::str::FromStr;

use tollgate_limiter::algorithm::{MAX_LIMIT, Quota};
use tollgate_limiter::time::Span;

use super::duration;
use super::number::leading;
use super::text::{ScalarError, written_as_text};

const ADVICE: &str = "write a count per time, like 100/minute, 5/s or 1_000/15m";

/// A number of units in a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub Quota);

written_as_text!(
    Rate,
    "A count per window of time. The count may end with k or M. The window is a unit or a duration",
    "100/minute",
    "5/s",
    "1_000/15m",
    "1k/s"
);

impl FromStr for Rate {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let (count, window) = text
            .split_once('/')
            .ok_or_else(|| ScalarError::new(format!("the rate \"{text}\" has no time"), ADVICE))?;
        let limit = self::count(count.trim())?;
        let window = Span::from_micros(window_us(window.trim(), text)?);
        Quota::new(limit, window)
            .map(Self)
            .map_err(|error| ScalarError::new(format!("in \"{text}\", {error}"), ADVICE))
    }
}

/// A count, with `k` for a thousand and `M` for a million.
pub(super) fn count(count: &str) -> Result<u64, ScalarError> {
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
        return duration::micros(window, window);
    }
    duration::unit_us(window).ok_or_else(|| {
        let message = format!("\"{window}\" is not a unit of time");
        ScalarError::new(message, "use ms, s, m, h, d, w or second, minute, hour, day, week")
    })
}

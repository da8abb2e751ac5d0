//! A limit as text: `100/minute`, `5/s`, `1_000/15m`, `20`.

use std::fmt;
use std::str::FromStr;

use tollgate_core::algorithm::{MAX_LIMIT, Quota, QuotaError};
use tollgate_core::policy::spec::LimitSpec;
use tollgate_core::time::Span;

/// How much a policy admits: a count in a window of time, or a count without a time for
/// requests in progress ([`Concurrency`](crate::Algorithm::Concurrency)).
///
/// It is written as in a `gateway.yaml`. The count may contain `_` and end with `k` or `M`. The
/// window is a unit of time (`ms`, `s`, `m`, `h`, `d`, `w`, or a word like `minute`), or a
/// duration such as `15m` or `1h30m`.
///
/// ```
/// use tollgate_limiter::Limit;
///
/// let limit: Limit = "1_000/15m".parse()?;
/// assert_eq!(limit.units(), 1000);
/// assert_eq!(limit.window().map(|window| window.as_secs()), Some(900));
/// assert!("20".parse::<Limit>()?.window().is_none());
/// assert!("100/fortnight".parse::<Limit>().is_err());
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub(super) LimitSpec);

impl Limit {
    /// The number of units.
    ///
    /// ```
    /// # use tollgate_limiter::Limit;
    /// assert_eq!("1k/s".parse::<Limit>()?.units(), 1000);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    pub const fn units(&self) -> u64 {
        self.0.units()
    }

    /// The window of time. None for a count without a time.
    ///
    /// ```
    /// # use tollgate_limiter::Limit;
    /// # use std::time::Duration;
    /// assert_eq!("5/s".parse::<Limit>()?.window(), Some(Duration::from_secs(1)));
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    pub fn window(&self) -> Option<std::time::Duration> {
        let window = self.0.window();
        (!window.is_zero()).then(|| window.into())
    }
}

/// A text that is not a [`Limit`].
///
/// ```
/// let error = "100/".parse::<tollgate_limiter::Limit>().unwrap_err();
/// assert_eq!(error.text(), "100/");
/// assert_eq!(
///     error.to_string(),
///     "\"100/\" is not a limit: write a count per time, like 100/minute or 1_000/15m, or a count \
///      of requests in progress, like 20"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitError {
    text: String,
    /// None: it does not have the form of a limit.
    out_of_range: Option<QuotaError>,
}

impl LimitError {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is wrong with it.
    pub fn message(&self) -> String {
        self.out_of_range.map_or_else(|| "it is not a count".to_owned(), |why| why.to_string())
    }

    /// What would be right. It is empty if the message says it.
    pub const fn advice(&self) -> &'static str {
        match self.out_of_range {
            Some(_) => "",
            None => {
                "write a count per time, like 100/minute or 1_000/15m, or a count of requests in \
                 progress, like 20"
            }
        }
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = self.out_of_range.map(|why| why.to_string());
        write!(f, "\"{}\" is not a limit: {}", self.text, why.as_deref().unwrap_or(self.advice()))
    }
}

impl std::error::Error for LimitError {}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let error = |out_of_range| LimitError { text: text.to_owned(), out_of_range };
        let Some((count, window)) = text.split_once('/') else {
            let units = units(text.trim()).ok_or_else(|| error(None))?;
            return Ok(Self(LimitSpec::Count(units)));
        };
        let units = units(count.trim()).ok_or_else(|| error(None))?;
        let window = self::window(window.trim()).ok_or_else(|| error(None))?;
        let quota = Quota::new(units, window).map_err(|why| error(Some(why)))?;
        Ok(Self(LimitSpec::Rate(quota)))
    }
}

/// A count, with `k` for a thousand and `M` for a million. Counts above the largest limit are
/// the largest count above it.
fn units(text: &str) -> Option<u64> {
    let (number, suffix) = leading(text)?;
    let factor = match suffix {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        _ => return None,
    };
    Some(number.saturating_mul(factor).min(MAX_LIMIT + 1))
}

/// The number at the beginning of `text`, and the rest.
fn leading(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let digits = number.replace('_', "");
    let is_number = !digits.is_empty() && !number.starts_with('_');
    is_number.then(|| (digits.parse().unwrap_or(u64::MAX), rest))
}

/// One unit of time, or the sum of `number unit` pairs.
fn window(text: &str) -> Option<Span> {
    if let Some(unit) = Span::of_unit(text) {
        return Some(unit);
    }
    let (mut total_us, mut rest) = (0_u64, text);
    loop {
        let (number, after) = leading(rest)?;
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        total_us = total_us.saturating_add(number.saturating_mul(Span::of_unit(unit)?.as_micros()));
        if next.is_empty() {
            return Some(Span::from_micros(total_us));
        }
        rest = next;
    }
}

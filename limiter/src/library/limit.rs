//! A limit as text: `100/minute`, `5/s`, `1_000/15m`, `20`.

use std::str::FromStr;

use tollgate_core::policy::spec::LimitSpec;
use tollgate_core::scalar::ScalarError;

/// How much a policy admits: a count in a window of time, or a count without a time for
/// requests in progress ([`Concurrency`](crate::Algorithm::Concurrency)).
///
/// It is written as in a `gateway.yaml`. The count may contain `_` and end with `k` or `M`. The
/// window is a unit of time (`ms`, `s`, `m`, `h`, `d`, `w`, or a word like `minute`), a duration
/// such as `15m` or `1h30m`, or `month`: a month of the calendar, which the algorithm
/// [`FixedWindow`](crate::Algorithm::FixedWindow) counts.
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

    /// The window of time. None for a count without a time. For a month it is the mean length of
    /// one, 2,629,746 seconds.
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
/// assert_eq!(error.message(), "the rate \"100/\" has no time");
/// assert_eq!(error.advice(), "write a count per time, like 100/minute, 5/s or 1_000/15m");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a limit: {why}")]
pub struct LimitError {
    text: String,
    why: ScalarError,
}

impl LimitError {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is wrong with it.
    pub fn message(&self) -> &str {
        &self.why.message
    }

    /// What would be right. It is empty if the message says it.
    pub const fn advice(&self) -> &'static str {
        self.why.advice
    }
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        text.parse().map(Self).map_err(|why| LimitError { text: text.to_owned(), why })
    }
}

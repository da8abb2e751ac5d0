//! Quotas: a limit in a window.

use std::fmt;

use crate::time::Span;

/// The largest limit, so that counters with debt fit 40 bits.
pub const MAX_LIMIT: u64 = (1 << 39) - 1;
/// The shortest window.
pub const MIN_WINDOW: Span = Span::MILLISECOND;
/// The longest window: a leap year.
pub const MAX_WINDOW: Span = Span::from_micros(366 * Span::DAY.as_micros());
/// The window of a limit per month: the mean length of a month of the Gregorian calendar, by
/// which such a limit is known. [`FixedWindow`](super::FixedWindow) alone counts it, in months of
/// the calendar.
pub const MONTH: Span = Span::from_secs(2_629_746);
/// The largest number of sub-windows in a window.
pub const MAX_BUCKETS: u32 = 100;
/// The largest limit of a log. A key then takes at most 200 kB with debt. It takes more
/// than 100 kB only if its requests come at 10,000 different microseconds.
pub const MAX_LOG_LIMIT: u64 = 10_000;

/// A limit of units in every window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    limit: u64,
    window: Span,
}

/// The errors of quotas and of algorithms that count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    /// No request would ever be admitted.
    #[error("a limit of 0 would let nothing pass")]
    Zero,
    /// Above [`MAX_LIMIT`].
    #[error("a limit may be at most {MAX_LIMIT}")]
    Limit,
    /// Shorter than [`MIN_WINDOW`] or longer than [`MAX_WINDOW`].
    #[error("a window lasts from {MIN_WINDOW} to {MAX_WINDOW}")]
    Window,
    /// A burst of 0, or above [`MAX_LIMIT`].
    #[error("a burst is from 1 to {MAX_LIMIT}")]
    Burst,
    /// The product of burst and window takes too many bits.
    #[error(
        "this burst in this window is too large to be counted exactly: write a smaller burst or a shorter window"
    )]
    BurstInWindow,
    /// No sub-windows, or more than [`MAX_BUCKETS`].
    #[error("a window has from 1 to {MAX_BUCKETS} buckets")]
    Buckets,
    /// Sub-windows count in 32 bits.
    #[error(
        "a limit with buckets may be at most {}: write a smaller limit, or leave out the buckets",
        u32::MAX
    )]
    SubWindowsLimit,
    /// Above [`MAX_LOG_LIMIT`].
    #[error(
        "a limit that is logged may be at most {MAX_LOG_LIMIT}: write a smaller limit, or choose sliding_window"
    )]
    LogLimit,
    /// A delay for which the queue would need too many slots.
    #[error("the delay is too long for this rate: write a shorter delay")]
    Delay,
    /// A ban without a length, or longer than the longest, or a longest above
    /// [`MAX_WINDOW`].
    #[error(
        "a ban lasts some time, the longest no less than the first, and none more than {MAX_WINDOW}"
    )]
    Ban,
    /// A window for an algorithm that has none.
    #[error("what is in flight is limited by a bare count: leave out the time, like 20")]
    Timeless,
    /// A window that is not a unit of the calendar.
    #[error("a window of the calendar is an hour, a day, a week or a month")]
    CalendarWindow,
    /// A month for an algorithm whose windows all have the same length.
    #[error("a month is counted by the algorithm fixed_window only: its length varies")]
    Month,
    /// A name that the time zone database does not have.
    #[error("this time zone is unknown: write a name of the IANA database, like Europe/Berlin")]
    Zone,
}

impl Quota {
    /// `limit` units in every `window`.
    ///
    /// # Errors
    /// If the limit is 0 or above [`MAX_LIMIT`], or the window is outside of
    /// [`MIN_WINDOW`] to [`MAX_WINDOW`].
    pub const fn new(limit: u64, window: Span) -> Result<Self, QuotaError> {
        if limit == 0 {
            return Err(QuotaError::Zero);
        }
        if limit > MAX_LIMIT {
            return Err(QuotaError::Limit);
        }
        if window.as_micros() < MIN_WINDOW.as_micros()
            || window.as_micros() > MAX_WINDOW.as_micros()
        {
            return Err(QuotaError::Window);
        }
        Ok(Self { limit, window })
    }

    /// The same window with another limit.
    ///
    /// # Errors
    /// If the limit is 0 or above [`MAX_LIMIT`].
    pub const fn with_limit(self, limit: u64) -> Result<Self, QuotaError> {
        Self::new(limit, self.window)
    }

    /// Units.
    pub const fn limit(self) -> u64 {
        self.limit
    }

    /// The window. It is [`MONTH`] for each month of a calendar.
    pub const fn window(self) -> Span {
        self.window
    }

    /// Whether the window is a month of a calendar.
    pub const fn is_monthly(self) -> bool {
        self.window.as_micros() == MONTH.as_micros()
    }
}

/// A window as a limit is written with it: `1m`, `15m`, or `month`.
#[derive(Clone, Copy, Debug)]
pub struct WindowText(pub Span);

impl fmt::Display for WindowText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            MONTH => f.write_str("month"),
            window => window.fmt(f),
        }
    }
}

//! Points in time and lengths of time.

use std::fmt;
use std::time::Duration;

/// A point in time: microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The point `us` microseconds after the epoch.
    pub const fn from_micros(us: u64) -> Self {
        Self(us)
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / Span::SECOND.0
    }

    /// The time from `earlier` to `self`; zero if `self` is not later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// The time that is `span` later, or the largest time.
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The time that is `span` earlier, or the epoch.
    pub const fn minus(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

/// RFC 3339 in UTC with milliseconds: `2026-11-21T07:28:46.123Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.as_secs();
        let (year, month, day) = civil_from_days(seconds / 86_400);
        let of_day = seconds % 86_400;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
            of_day / 3600,
            of_day / 60 % 60,
            of_day % 60,
            self.0 / 1000 % 1000,
        )
    }
}

/// Gregorian date of a day counted from 1970-01-01, by 400-year eras that begin on 1 March,
/// so that the leap day is the last day (H. Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`).
const fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// A length of time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// A length of zero.
    pub const ZERO: Self = Self(0);
    /// One millisecond.
    pub const MILLISECOND: Self = Self(1000);
    /// One second.
    pub const SECOND: Self = Self(1_000_000);
    /// One day of 24 hours.
    pub const DAY: Self = Self(86_400 * Self::SECOND.0);

    /// A span of `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us)
    }

    /// A span of `ms` milliseconds, or the longest span.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1000))
    }

    /// A span of `s` seconds, or the longest span.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(Self::SECOND.0))
    }

    /// A unit of time by its name, as an abbreviation or a word: `m`, `min`, `minute`.
    pub fn of_unit(name: &str) -> Option<Self> {
        Some(match name {
            "ms" | "millisecond" | "milliseconds" => Self::from_micros(1000),
            "s" | "sec" | "second" | "seconds" => Self::SECOND,
            "m" | "min" | "minute" | "minutes" => Self::from_secs(60),
            "h" | "hour" | "hours" => Self::from_secs(3600),
            "d" | "day" | "days" => Self::DAY,
            "w" | "week" | "weeks" => Self::from_secs(7 * 86_400),
            _ => return None,
        })
    }

    /// Microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole seconds, rounded up, for header fields with delta seconds.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(Self::SECOND.0)
    }

    /// Whole milliseconds, rounded up.
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(1000)
    }

    /// Whether the length is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_micros(span.0)
    }
}

/// Saturates at 584,000 years.
impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

/// Formats the span as the configuration writes it: `1m30s`, `250ms`, `0s`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 6] = [
            (86_400_000_000, "d"),
            (3_600_000_000, "h"),
            (60_000_000, "m"),
            (1_000_000, "s"),
            (1000, "ms"),
            (1, "us"),
        ];
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (unit, name) in UNITS {
            if rest >= unit {
                write!(f, "{}{name}", rest / unit)?;
                rest %= unit;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_formatted_as_rfc_3339() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000Z"),
            (1_795_246_126_123_456, "2026-11-21T07:28:46.123Z"),
            (4_102_444_799_999_999, "2099-12-31T23:59:59.999Z"),
        ];
        for (us, text) in cases {
            assert_eq!(Timestamp::from_micros(us).to_string(), text);
        }
    }

    #[test]
    fn a_span_is_formatted_as_the_configuration_parses_it() {
        let cases = [
            (Span::ZERO, "0s"),
            (Span::from_millis(250), "250ms"),
            (Span::from_secs(90), "1m30s"),
            (Span::from_micros(86_400_000_001), "1d1us"),
        ];
        for (span, text) in cases {
            assert_eq!(span.to_string(), text);
        }
    }

    #[test]
    fn seconds_for_a_header_are_rounded_up() {
        assert_eq!(Span::from_micros(1).as_secs_ceil(), 1);
        assert_eq!(Span::SECOND.as_secs_ceil(), 1);
        assert_eq!(Span::from_micros(1_000_001).as_secs_ceil(), 2);
    }

    #[test]
    fn the_past_is_no_time_ago() {
        let early = Timestamp::from_micros(5);
        let late = Timestamp::from_micros(9);
        assert_eq!(late.since(early), Span::from_micros(4));
        assert_eq!(early.since(late), Span::ZERO);
    }
}

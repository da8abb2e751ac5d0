//! The units of limits: windows that are aligned to the epoch.

use tollgate_core::algorithm::MONTH;
use tollgate_core::time::Span;

/// The window of a limit. The number of each unit is the one that the protocol gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Unit {
    Second = 1,
    Minute = 2,
    Hour = 3,
    /// From midnight to midnight in UTC.
    Day = 4,
    /// 30 days, whatever the calendar says, as envoyproxy/ratelimit counts them.
    Month = 5,
    /// 365 days, whatever the calendar says.
    Year = 6,
    /// 7 days. Because the epoch began on a Thursday, all weeks do.
    Week = 7,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The unit of this name, in small or capital letters.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// The unit that the protocol gives this number. None for 0, which is no unit, and for
    /// numbers of later versions.
    pub fn of_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.number() == number)
    }

    /// The unit with this window, if there is one. A policy counts months of the calendar.
    pub fn of_window(window: Span) -> Option<Self> {
        if window == MONTH {
            return Some(Self::Month);
        }
        Self::ALL.into_iter().find(|unit| unit.window() == window)
    }

    /// The number in the protocol.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The window of this unit for a policy whose own window is `own`: if the policy counts months
    /// of the calendar, a month is one of these.
    pub fn window_beside(self, own: Span) -> Span {
        if self == Self::Month && own == MONTH { MONTH } else { self.window() }
    }

    /// The length of the window.
    pub const fn window(self) -> Span {
        const DAY_S: u64 = 24 * 60 * 60;
        Span::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 60 * 60,
            Self::Day => DAY_S,
            Self::Week => 7 * DAY_S,
            Self::Month => 30 * DAY_S,
            Self::Year => 365 * DAY_S,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back_to_their_unit() {
        for unit in Unit::ALL {
            assert_eq!(Unit::of_name(unit.name()), Some(unit));
            assert_eq!(Unit::of_name(&unit.name().to_uppercase()), Some(unit));
            assert_eq!(Unit::of_number(unit.number()), Some(unit));
        }
        assert_eq!(Unit::of_number(0), None);
        assert_eq!(Unit::of_number(8), None);
        assert_eq!(Unit::of_name("unknown"), None);
    }

    /// The numbers are those of `RateLimitResponse.RateLimit.Unit`.
    #[test]
    fn a_week_has_the_last_number() {
        let numbers = Unit::ALL.map(Unit::number);
        assert_eq!(numbers, [1, 2, 3, 4, 7, 5, 6]);
    }
}

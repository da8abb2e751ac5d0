//! Calendar windows: hours, days, weeks and months of a time zone.
//!
//! A day begins when the zone's clock first shows its date. A week begins on Monday
//! (ISO 8601), and a month on its first day. So a day on which clocks change has 23 or 25
//! hours. A day whose midnight is skipped begins an hour later. If the clock goes back over
//! midnight, the current day does not begin again. Hours are counted from the beginning of
//! the day, so each lasts an hour. Only the last one is shorter where clocks change by half
//! an hour.
//!
//! The zone's offsets from 1970 to 2150, about two a year, are computed when the calendar
//! is created. The bounds of a window are then a binary search and a division: a pure
//! function of the time, without a cache or a lock. The rules come from the database that
//! is built into the program and not from the system's, so all nodes use the same rules.

// Without the feature `calendar`, only the months of UTC can be made.
#![cfg_attr(not(feature = "calendar"), allow(dead_code))]

use std::fmt;

#[cfg(feature = "calendar")]
use jiff::tz::{TimeZone, TimeZoneDatabase};

#[cfg(feature = "calendar")]
use super::QuotaError;
use super::{MONTH, months};
use crate::time::Span;

const HOUR_S: i64 = 3600;
const DAY_S: i64 = 24 * HOUR_S;
const WEEK_S: i64 = 7 * DAY_S;
/// 1970-01-01 was a Thursday.
const EPOCH_AFTER_MONDAY_S: i64 = 3 * DAY_S;
/// 2150-01-01 in UTC. Later changes of the offset are not computed: the last one remains.
const END_S: i64 = 5_680_281_600;

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Hour,
    Day,
    Week,
    Month,
}

/// Windows of one unit in one time zone.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Calendar {
    zone: Box<str>,
    unit: Unit,
    stretches: Box<[Stretch]>,
}

/// A period in which the zone's offset does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    from_s: i64,
    offset_s: i64,
    /// The index of the day, week or month that had begun before the period, and when it began.
    index: i64,
    begun_s: i64,
}

/// The begin and the end of a window, in seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) start_s: i64,
    pub(super) end_s: i64,
}

impl Calendar {
    #[cfg(feature = "calendar")]
    pub(super) fn new(window: Span, zone: &str) -> Result<Self, QuotaError> {
        let unit = Unit::lasting(window).ok_or(QuotaError::CalendarWindow)?;
        let zone = TimeZoneDatabase::bundled().get(zone).map_err(|_| QuotaError::Zone)?;
        let name = zone.iana_name().ok_or(QuotaError::Zone)?.into();
        Ok(Self { zone: name, unit, stretches: unit.stretches(&zone) })
    }

    /// The months of UTC, which need no database.
    pub(super) fn months_of_utc() -> Self {
        let index = Unit::Month.index(0, 0);
        let stretch = Stretch { from_s: 0, offset_s: 0, index, begun_s: 0 };
        Self { zone: "UTC".into(), unit: Unit::Month, stretches: [stretch].into() }
    }

    /// The zone's name in the IANA database.
    pub(super) fn zone(&self) -> &str {
        &self.zone
    }

    /// The window that contains `time_s`.
    pub(super) fn bounds(&self, time_s: i64) -> Bounds {
        let after = self.stretches.partition_point(|stretch| stretch.from_s <= time_s);
        let at = after.saturating_sub(1);
        let (index, start_s) = self.unit.begun(&self.stretches[at], time_s);
        let end_s = self.end_s(at, index);
        if self.unit != Unit::Hour {
            return Bounds { start_s, end_s };
        }
        let start_s = time_s - (time_s - start_s) % HOUR_S;
        Bounds { start_s, end_s: end_s.min(start_s.saturating_add(HOUR_S)) }
    }

    /// The time at which the day, week or month after `index` begins. The one with this `index`
    /// had begun in the stretch `at`.
    fn end_s(&self, at: usize, index: i64) -> i64 {
        let next = index.saturating_add(1);
        let ends = self.stretches[at + 1..].iter().map(|later| later.from_s).chain([i64::MAX]);
        let mut begins = self.stretches[at..].iter().zip(ends).filter_map(|(stretch, end_s)| {
            let begin_s = self.unit.begin_s(next, stretch.offset_s).max(stretch.from_s);
            (begin_s < end_s).then_some(begin_s)
        });
        begins.next().unwrap_or(i64::MAX)
    }
}

impl Unit {
    fn lasting(window: Span) -> Option<Self> {
        let lengths = [
            (Span::from_secs(3600), Self::Hour),
            (Span::DAY, Self::Day),
            (Span::from_secs(604_800), Self::Week),
            (MONTH, Self::Month),
        ];
        lengths.into_iter().find(|&(length, _)| length == window).map(|(_, unit)| unit)
    }

    /// The index of the day, week or month on a clock with this offset. Hours are parts of days.
    const fn index(self, time_s: i64, offset_s: i64) -> i64 {
        let shown_s = time_s.saturating_add(offset_s);
        match self {
            Self::Hour | Self::Day => shown_s.div_euclid(DAY_S),
            Self::Week => shown_s.saturating_add(EPOCH_AFTER_MONDAY_S).div_euclid(WEEK_S),
            Self::Month => months::of_day(shown_s.div_euclid(DAY_S)),
        }
    }

    /// The time at which a clock with this offset shows the beginning of a day, week or month.
    const fn begin_s(self, index: i64, offset_s: i64) -> i64 {
        let shown_s = match self {
            Self::Hour | Self::Day => index.saturating_mul(DAY_S),
            Self::Week => index.saturating_mul(WEEK_S).saturating_sub(EPOCH_AFTER_MONDAY_S),
            Self::Month => months::first_day(index).saturating_mul(DAY_S),
        };
        shown_s.saturating_sub(offset_s)
    }

    /// The day, week or month that contains `time_s`, and its beginning.
    fn begun(self, stretch: &Stretch, time_s: i64) -> (i64, i64) {
        let index = self.index(time_s, stretch.offset_s);
        if index > stretch.index {
            (index, self.begin_s(index, stretch.offset_s).max(stretch.from_s))
        } else {
            (stretch.index, stretch.begun_s)
        }
    }

    #[cfg(feature = "calendar")]
    fn stretches(self, zone: &TimeZone) -> Box<[Stretch]> {
        let epoch = jiff::Timestamp::UNIX_EPOCH;
        let offset_s = i64::from(zone.to_offset(epoch).seconds());
        let index = self.index(0, offset_s);
        let begun_s = self.begin_s(index, offset_s);
        let mut stretches = vec![Stretch { from_s: begun_s, offset_s, index, begun_s }];
        for transition in zone.following(epoch) {
            let from_s = transition.timestamp().as_second();
            if from_s >= END_S {
                break;
            }
            let before = stretches[stretches.len() - 1];
            let offset_s = i64::from(transition.offset().seconds());
            if offset_s != before.offset_s {
                let (index, begun_s) = self.begun(&before, from_s - 1);
                stretches.push(Stretch { from_s, offset_s, index, begun_s });
            }
        }
        stretches.into_boxed_slice()
    }
}

/// Omits the list of stretches, which the zone determines.
impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calendar({:?}, {})", self.unit, self.zone)
    }
}

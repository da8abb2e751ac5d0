//! Calendar windows, compared with the dates that a zone's clock shows.

use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::super::calendar::Calendar;
use super::*;

/// Zones with all kinds of changes: at midnight, over midnight and by half an hour, offsets
/// in quarters of an hour, and omitted days.
const ZONES: [&str; 14] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Havana",
    "America/St_Johns",
    "Africa/Cairo",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Asia/Gaza",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Kiritimati",
    "Antarctica/Troll",
];
const HOUR: Span = Span::from_secs(3600);
const WEEK: Span = Span::from_secs(7 * 86_400);

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

fn date(zone: &TimeZone, time_s: i64) -> Date {
    zone.to_datetime(jiff::Timestamp::from_second(time_s).unwrap()).date()
}

/// The Monday of a date's week.
fn monday(date: Date) -> Date {
    let days = date.weekday().to_monday_zero_offset();
    date.checked_sub(jiff::Span::new().days(days)).unwrap()
}

fn at(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_second()
}

fn calendar(window: Span, zone: &str, limit: u64) -> Algorithm {
    let quota = Quota::new(limit, window).unwrap();
    Algorithm::FixedWindow(FixedWindow::calendar(quota, zone).unwrap())
}

/// The begin and end of every window from `from` until `to`.
fn windows(window: Span, zone: &str, from: &str, to: &str) -> Vec<(i64, i64)> {
    let calendar = Calendar::new(window, zone).unwrap();
    let mut windows = Vec::new();
    let mut time_s = at(from);
    while time_s < at(to) {
        let bounds = calendar.bounds(time_s);
        windows.push((bounds.start_s, bounds.end_s));
        time_s = bounds.end_s;
    }
    windows
}

fn lengths_s(windows: &[(i64, i64)]) -> Vec<i64> {
    windows.iter().map(|(start_s, end_s)| end_s - start_s).collect()
}

/// Times in this and the next century; half of them close to a change of clocks.
fn times() -> impl Strategy<Value = (usize, i64)> {
    let close = (0..100_usize, -100_000..100_000_i64);
    (0..ZONES.len(), 86_400 * 14..4_200_000_000_i64, prop::option::of(close)).prop_map(
        |(index, time_s, close)| {
            let start = jiff::Timestamp::from_second(86_400 * 14).unwrap();
            let near = close.and_then(|(number, offset_s)| {
                let tz = zone(ZONES[index]);
                let change = tz.following(start).nth(number)?;
                Some(change.timestamp().as_second() + offset_s)
            });
            (index, near.unwrap_or(time_s))
        },
    )
}

proptest! {
    #![proptest_config(cases())]

    /// The time before the window shows an earlier date, and the time after it a later one.
    #[test]
    fn a_day_or_week_lasts_from_when_its_date_is_shown_until_a_later_one_is(
        (index, time_s) in times(),
        weekly in any::<bool>(),
        (within, before_s) in (0..=1_000_000_i64, 1..500_000_i64),
    ) {
        let tz = zone(ZONES[index]);
        let window = if weekly { WEEK } else { Span::DAY };
        let bounds = Calendar::new(window, ZONES[index]).unwrap().bounds(time_s);
        let shown = |time_s| {
            let date = date(&tz, time_s);
            if weekly { monday(date) } else { date }
        };
        let start_s = bounds.start_s;
        let end_s = bounds.end_s;
        prop_assert!(start_s <= time_s && time_s < end_s);
        let this = shown(start_s);
        prop_assert!(shown(start_s - 1) < this && shown(start_s - before_s) < this);
        prop_assert!(shown(start_s + (end_s - 1 - start_s) * within / 1_000_000) <= this);
        prop_assert!(shown(end_s - 1) <= this && shown(end_s) > this);
    }

    #[test]
    fn hours_divide_the_day((index, time_s) in times()) {
        let day = Calendar::new(Span::DAY, ZONES[index]).unwrap().bounds(time_s);
        let hour = Calendar::new(HOUR, ZONES[index]).unwrap().bounds(time_s);
        prop_assert!(hour.start_s <= time_s && time_s < hour.end_s);
        prop_assert_eq!((hour.start_s - day.start_s) % 3600, 0);
        prop_assert_eq!(hour.end_s, day.end_s.min(hour.start_s + 3600));
    }

    #[test]
    fn the_quota_of_a_window_is_spent_once_and_comes_back_at_its_end(
        (index, time_s) in times(),
        window in prop::sample::select(vec![HOUR, Span::DAY, WEEK]),
        limit in 1..=5_u64,
        back_us in prop_oneof![Just(0), 0..200_000_000_000_u64],
    ) {
        let algorithm = calendar(window, ZONES[index], limit);
        let now = Timestamp::from_micros(u64::try_from(time_s).unwrap() * 1_000_000 + 7);
        let mut counter = Counter::new(&algorithm);
        prop_assert_eq!(counter.apply(Op::Take(limit), now).remaining, 0);
        let bounds = Calendar::new(window, ZONES[index]).unwrap().bounds(time_s);
        let end = Timestamp::from_micros(u64::try_from(bounds.end_s).unwrap() * 1_000_000);
        let asked = now.minus(Span::from_micros(back_us));
        let verdict = counter.ask(Op::Take(1), asked).1;
        prop_assert_eq!(verdict.retry, Retry::After(end.since(asked)));
        prop_assert_eq!(verdict.reset_after, end.since(asked));
        let last = end.minus(Span::from_micros(1));
        prop_assert!(!counter.ask(Op::Take(1), last).1.admitted);
        prop_assert_eq!(counter.ask(Op::Take(limit), end).1.remaining, 0);
        prop_assert_eq!(counter.apply(Op::Give { cost: 1, taken: now }, last).remaining, 1);
    }
}

#[test]
fn a_day_in_berlin_has_23_or_25_hours_when_clocks_change() {
    let zone = "Europe/Berlin";
    let spring = windows(Span::DAY, zone, "2026-03-27T23:00:00Z", "2026-03-30T22:00:00Z");
    assert_eq!(lengths_s(&spring), [24 * 3600, 23 * 3600, 24 * 3600]);
    let autumn = windows(Span::DAY, zone, "2026-10-23T22:00:00Z", "2026-10-26T23:00:00Z");
    assert_eq!(lengths_s(&autumn), [24 * 3600, 25 * 3600, 24 * 3600]);
    let hours = windows(HOUR, zone, "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z");
    assert_eq!(lengths_s(&hours), [3600; 25]);
}

#[test]
fn a_week_begins_on_monday() {
    let weeks = windows(WEEK, "Europe/Berlin", "2026-11-21T07:28:46Z", "2026-11-22T00:00:00Z");
    assert_eq!(weeks, [(at("2026-11-15T23:00:00Z"), at("2026-11-22T23:00:00Z"))]);
}

#[test]
fn a_day_whose_midnight_is_skipped_begins_an_hour_later() {
    // Clocks went from 2018-11-03 23:59:59 to 2018-11-04 01:00:00.
    let days =
        windows(Span::DAY, "America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z");
    assert_eq!(days, [(at("2018-11-04T03:00:00Z"), at("2018-11-05T02:00:00Z"))]);
}

#[test]
fn an_omitted_day_has_no_window() {
    // Samoa omitted 2011-12-30.
    let days = windows(Span::DAY, "Pacific/Apia", "2011-12-29T10:00:00Z", "2011-12-31T10:00:00Z");
    assert_eq!(lengths_s(&days), [24 * 3600, 24 * 3600]);
}

#[test]
fn a_clock_that_goes_back_over_midnight_begins_no_day_twice() {
    // In 2010 clocks went from 00:01 back to 23:01 of the day before.
    let zone = "America/St_Johns";
    let days = windows(Span::DAY, zone, "2010-11-06T12:00:00Z", "2010-11-08T12:00:00Z");
    assert_eq!(days[1], (at("2010-11-07T02:30:00Z"), at("2010-11-08T03:30:00Z")));
}

#[test]
fn a_window_that_is_not_a_calendar_unit_and_an_unknown_zone_are_refused() {
    let quota = |window| Quota::new(5, window).unwrap();
    let error = |window, zone| FixedWindow::calendar(quota(window), zone).unwrap_err();
    assert_eq!(error(Span::from_secs(60), "UTC"), QuotaError::CalendarWindow);
    assert_eq!(error(Span::from_micros(3_600_000_001), "UTC"), QuotaError::CalendarWindow);
    assert_eq!(error(Span::DAY, "Europe/Atlantis"), QuotaError::Zone);
}

#[test]
fn at_the_epoch_and_after_2150_a_day_is_a_day() {
    let day = calendar(Span::DAY, "Asia/Kathmandu", 1);
    for us in [0, u64::MAX / 2, u64::MAX] {
        let now = Timestamp::from_micros(us);
        let (state, verdict) = day.apply(None, Op::Take(1), now);
        assert!(verdict.admitted && verdict.reset_after <= Span::DAY);
        assert_eq!(day.apply(state.as_ref(), Op::Peek, now).1.remaining, 0);
    }
}

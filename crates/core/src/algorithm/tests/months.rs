//! Months of a calendar, compared with a calendar that is written plainly.

use jiff::civil::{Date, date};
use jiff::tz::TimeZoneDatabase;

use super::super::calendar::Calendar;
use super::super::{MONTH, WindowText};
use super::*;

/// Zones east and west of Greenwich, with and without changes of clocks, one on the first of a
/// month at midnight (Asia/Amman), and one that omitted a day (Pacific/Apia).
const ZONES: [&str; 7] = [
    "UTC",
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
    "Asia/Amman",
    "Pacific/Kiritimati",
    "Pacific/Apia",
];

fn monthly(zone: &str, limit: u64) -> Algorithm {
    let quota = Quota::new(limit, MONTH).unwrap();
    Algorithm::FixedWindow(FixedWindow::calendar(quota, zone).unwrap())
}

fn at(text: &str) -> Timestamp {
    let us = text.parse::<jiff::Timestamp>().unwrap().as_microsecond();
    Timestamp::from_micros(u64::try_from(us).unwrap())
}

/// The first second at which the clock of the zone shows this date or a later one.
fn begin_s(zone: &str, date: Date) -> i64 {
    let tz = TimeZoneDatabase::bundled().get(zone).unwrap();
    let shows =
        |time_s| tz.to_datetime(jiff::Timestamp::from_second(time_s).unwrap()).date() >= date;
    let about = date.to_datetime(jiff::civil::time(0, 0, 0, 0)).to_zoned(jiff::tz::TimeZone::UTC);
    let about_s = about.unwrap().timestamp().as_second();
    // No clock differs from UTC by more than 26 hours. A month does not begin twice.
    let mut before = about_s - 26 * 3600;
    let mut after = about_s + 26 * 3600;
    while after - before > 1 {
        let middle = before + (after - before) / 2;
        if shows(middle) { after = middle } else { before = middle }
    }
    after
}

#[test]
fn the_edges_are_those_of_a_plain_calendar_from_1970_until_2100() {
    for zone in ZONES {
        let calendar = Calendar::new(MONTH, zone).unwrap();
        let mut edge_s = begin_s(zone, date(1970, 2, 1));
        for month in 1..12 * 130 {
            let next = month + 1;
            let [year, of_year] = [1970 + next / 12, next % 12 + 1];
            let end_s = begin_s(zone, date(year, i8::try_from(of_year).unwrap(), 1));
            for time_s in [edge_s, edge_s + 1_000_000, end_s - 1] {
                let bounds = calendar.bounds(time_s);
                let found = [bounds.start_s, bounds.end_s];
                assert_eq!(found, [edge_s, end_s], "{zone} at {time_s}");
            }
            edge_s = end_s;
        }
    }
}

#[test]
fn months_of_utc_need_no_database() {
    let [plain, zoned] = [Calendar::months_of_utc(), Calendar::new(MONTH, "UTC").unwrap()];
    for day in 0..60_000 {
        let time_s = day * 86_400 + day % 86_400;
        assert_eq!(plain.bounds(time_s), zoned.bounds(time_s));
    }
    let quota = Quota::new(3, MONTH).unwrap();
    assert_eq!(Algorithm::usual(quota), monthly("UTC", 3));
}

#[test]
fn the_length_is_that_of_the_current_month() {
    let berlin = monthly("Europe/Berlin", 5);
    let hours = |text| berlin.length_at(at(text)).as_micros() / 3_600_000_000;
    assert_eq!(hours("2026-02-10T00:00:00Z"), 28 * 24);
    assert_eq!(hours("2028-02-10T00:00:00Z"), 29 * 24);
    assert_eq!(hours("2026-03-10T00:00:00Z"), 31 * 24 - 1);
    assert_eq!(hours("2026-10-31T23:00:00Z"), 30 * 24);
    assert_eq!(hours("2026-10-31T22:59:59Z"), 31 * 24 + 1);
    assert_eq!(berlin.window(), MONTH);
    assert_eq!(berlin.written(), "5/month");
    assert_eq!(WindowText(Span::from_secs(90)).to_string(), "1m30s");
}

#[test]
fn another_limit_is_counted_in_the_same_months_and_no_other_algorithm_counts_them() {
    let quota = Quota::new(9, MONTH).unwrap();
    let berlin = monthly("Europe/Berlin", 5);
    assert_eq!(berlin.with_limit(9).unwrap(), monthly("Europe/Berlin", 9));
    let daily = FixedWindow::calendar(Quota::new(5, Span::DAY).unwrap(), "Europe/Berlin").unwrap();
    assert_eq!(
        Algorithm::FixedWindow(daily).with_quota(quota).unwrap(),
        berlin.with_limit(9).unwrap()
    );
    let epochal = FixedWindow::new(Quota::new(5, Span::DAY).unwrap());
    assert_eq!(Algorithm::FixedWindow(epochal).with_quota(quota).unwrap(), monthly("UTC", 9));
    let sliding = SlidingWindow::new(Quota::new(5, Span::DAY).unwrap());
    assert_eq!(Algorithm::SlidingWindow(sliding).with_quota(quota), Err(QuotaError::Month));
    let back = berlin.with_quota(Quota::new(9, Span::DAY).unwrap()).unwrap();
    assert_eq!([back.window(), back.length_at(at("2026-10-25T12:00:00Z"))], [Span::DAY; 2]);
}

proptest! {
    #![proptest_config(cases())]

    /// A client that waits as long as it is told is admitted, and not a microsecond before.
    #[test]
    fn a_refused_request_fits_when_the_next_month_begins(
        index in 0..ZONES.len(),
        time_us in 86_400_000_000 * 60..4_100_000_000_000_000_u64,
        limit in 1..=5_u64,
    ) {
        let algorithm = monthly(ZONES[index], limit);
        let now = Timestamp::from_micros(time_us);
        let mut counter = Counter::new(&algorithm);
        prop_assert_eq!(counter.apply(Op::Take(limit), now).remaining, 0);
        let refused = counter.ask(Op::Take(1), now).1;
        let Retry::After(wait) = refused.retry else { panic!("{refused:?}") };
        prop_assert_eq!(refused.reset_after, wait);
        let later = now.plus(wait);
        prop_assert!(!counter.ask(Op::Take(1), later.minus(Span::from_micros(1))).1.admitted);
        prop_assert!(counter.ask(Op::Take(limit), later).1.admitted);
        let tz = TimeZoneDatabase::bundled().get(ZONES[index]).unwrap();
        let later_us = i64::try_from(later.as_micros()).unwrap();
        let shown = tz.to_datetime(jiff::Timestamp::from_microsecond(later_us).unwrap());
        prop_assert_eq!(shown.day(), 1);
        prop_assert!(algorithm.length_at(now) <= Span::from_secs(32 * 86_400));
        prop_assert!(wait <= algorithm.length_at(now));
    }
}

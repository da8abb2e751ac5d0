//! Figures, lengths of time and moments as people write them. Text and page use the same.

use std::fmt::Write as _;

use tollgate_core::time::{Span, Timestamp};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// `19,389`
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 client`, `7 clients`
pub(super) fn count(count: u64, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {one}{plural}", number(count))
}

/// `+585`, `-12`, `0`
pub(super) fn change(before: u64, after: u64) -> String {
    match after.checked_sub(before) {
        Some(0) => "0".to_owned(),
        Some(more) => format!("+{}", number(more)),
        None => format!("-{}", number(before - after)),
    }
}

/// A share in percent with one decimal; a share that is not zero is not shown as zero.
pub(super) fn percent(count: u64, of: u64) -> String {
    let tenths = (count.saturating_mul(1000) + of / 2) / of.max(1);
    if tenths == 0 && count > 0 {
        return "<0.1".to_owned();
    }
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// `12`, or a range: `12 to 40`.
pub(super) fn between(count: u64, range: Option<[u64; 2]>) -> String {
    match range {
        Some([least, most]) if least != most => format!("{} to {}", number(least), number(most)),
        _ => number(count),
    }
}

/// `1.2 %`, or a range.
pub(super) fn percents(count: u64, range: Option<[u64; 2]>, of: u64) -> String {
    let [low, high] = range.unwrap_or([count, count]).map(|count| percent(count, of));
    if low == high { format!("{low} %") } else { format!("{low} to {high} %") }
}

/// `12 (1.2 %)`, or a range.
pub(super) fn share(count: u64, range: Option<[u64; 2]>, of: u64) -> String {
    format!("{} ({})", between(count, range), percents(count, range, of))
}

/// A length of time, rounded up: `209 milliseconds`, `1.5 seconds`, `43 minutes 8 seconds`. From a
/// minute on, it has two units at most.
pub(super) fn length(span: Span) -> String {
    let ms = span.as_millis_ceil();
    match ms {
        0..1000 => return count(ms, "millisecond"),
        1000..10_000 if !ms.is_multiple_of(1000) => {
            let tenths = ms.div_ceil(100);
            return format!("{}.{} seconds", tenths / 10, tenths % 10);
        }
        _ => {}
    }
    let seconds = ms.div_ceil(1000);
    let finest = match seconds {
        0..3600 => 1,
        3600..86_400 => 60,
        _ => 3600,
    };
    let mut rest = seconds.div_ceil(finest) * finest;
    let mut text = String::new();
    for (unit, name) in [(86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")] {
        if rest >= unit {
            let space = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{space}{}", count(rest / unit, name));
            rest %= unit;
        }
    }
    text
}

/// A limit as people write it in a configuration: `60/minute` for `60/1m`.
pub(super) fn written(limit: &str) -> String {
    const UNITS: [(&str, &str); 4] =
        [("/1s", "/s"), ("/1m", "/minute"), ("/1h", "/hour"), ("/1d", "/day")];
    let unit = UNITS.iter().find_map(|(window, unit)| Some((limit.strip_suffix(window)?, unit)));
    unit.map_or_else(|| limit.to_owned(), |(units, unit)| format!("{units}{unit}"))
}

/// The same in a sentence: `60 per minute`, `5 per 10s`, `20 at a time`.
pub(super) fn limit_in_words(limit: &str) -> String {
    match written(limit).split_once('/') {
        Some((units, "s")) => format!("{units} per second"),
        Some((units, window)) => format!("{units} per {window}"),
        None if limit == "unlimited" => limit.to_owned(),
        None => format!("{limit} at a time"),
    }
}

/// `a`, `a and b`, `a, b and c`. Beyond `most`, the others are counted.
pub(super) fn listed(names: &[String], most: usize) -> String {
    let rest = names.len().saturating_sub(most);
    let others = format!("{} more", number(u64::try_from(rest).unwrap_or(u64::MAX)));
    let mut shown: Vec<&str> = names.iter().take(most).map(String::as_str).collect();
    if rest > 0 {
        shown.push(&others);
    }
    match shown.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    }
}

/// A day: `21 November 2026`.
fn day(moment: &str) -> String {
    let part = |range: std::ops::Range<usize>| moment.get(range).unwrap_or_default();
    let month = part(5..7).parse::<usize>().unwrap_or(1);
    let month = MONTHS.get(month.saturating_sub(1)).unwrap_or(&"");
    format!("{} {month} {}", part(8..10).trim_start_matches('0'), part(0..4))
}

/// The time between two moments in RFC 3339: `21 November 2026, 07:00:17 to 08:59:15 UTC`.
pub(super) fn period(from: &str, to: &str) -> String {
    let time = |moment: &str| moment.get(11..19).unwrap_or_default().to_owned();
    let first = day(from);
    let last = day(to);
    let last = if first == last { String::new() } else { format!("{last}, ") };
    format!("{first}, {} to {last}{} UTC", time(from), time(to))
}

/// A second since the epoch: `21 Nov 07:51`.
pub(super) fn moment(second: u64) -> String {
    let text = at(second);
    let day = day(&text);
    let mut words = day.split(' ');
    let number = words.next().unwrap_or_default();
    let month = words.next().unwrap_or_default();
    format!("{number} {} {}", month.get(..3).unwrap_or(month), text.get(11..16).unwrap_or_default())
}

/// The same with seconds: `21 Nov 07:51:07`.
pub(super) fn moment_with_seconds(second: u64) -> String {
    format!("{}:{:02}", moment(second), second % 60)
}

fn at(second: u64) -> String {
    Timestamp::from_micros(second.saturating_mul(1_000_000)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!([0, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(percent(0, 100), "0.0");
        assert_eq!(percent(1, 3000), "<0.1");
        assert_eq!(percent(125, 1000), "12.5");
        assert_eq!(share(5, Some([5, 9]), 100), "5 to 9 (5.0 to 9.0 %)");
        assert_eq!(share(500, Some([500, 501]), 10_000), "500 to 501 (5.0 %)");
        assert_eq!(share(5, Some([5, 5]), 100), "5 (5.0 %)");
        assert_eq!([change(5, 1205), change(9, 2), change(3, 3)], ["+1,200", "-7", "0"]);
        assert_eq!([count(1, "client"), count(0, "client")], ["1 client", "0 clients"]);
    }

    #[test]
    fn lengths_are_in_words_and_never_too_short() {
        let cases = [
            (0, "0 milliseconds"),
            (1, "1 millisecond"),
            (209, "209 milliseconds"),
            (1000, "1 second"),
            (1501, "1.6 seconds"),
            (9999, "10.0 seconds"),
            (10_001, "11 seconds"),
            (2_587_700, "43 minutes 8 seconds"),
            (3_600_000, "1 hour"),
            (3_600_001, "1 hour 1 minute"),
            (86_399_999, "1 day"),
            (90_000_001, "1 day 2 hours"),
        ];
        for (ms, text) in cases {
            assert_eq!(length(Span::from_millis(ms)), text);
        }
    }

    #[test]
    fn moments_are_those_of_a_calendar() {
        let from = "2026-11-01T07:00:17.250Z";
        let to = "2026-11-01T08:59:15.000Z";
        assert_eq!(period(from, to), "1 November 2026, 07:00:17 to 08:59:15 UTC");
        let days = period(from, "2027-01-31T00:00:00.000Z");
        assert_eq!(days, "1 November 2026, 07:00:17 to 31 January 2027, 00:00:00 UTC");
        assert_eq!(moment(1_795_246_126), "21 Nov 07:28");
        assert_eq!(moment_with_seconds(1_795_246_126), "21 Nov 07:28:46");
        let limits = ["60/1m", "2/1s", "5/10s", "20"].map(limit_in_words);
        assert_eq!(limits, ["60 per minute", "2 per second", "5 per 10s", "20 at a time"]);
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(listed(&names, 2), "a, b and 2 more");
        assert_eq!([listed(&names[..1], 3), listed(&names[..2], 3)], ["a", "a and b"]);
        assert_eq!(
            ["60/1m", "2/1s", "5/10s", "20"].map(written),
            ["60/minute", "2/s", "5/10s", "20"]
        );
    }
}

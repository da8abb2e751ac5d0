//! The forms in which logs write times.

use super::fields::Moment;
use super::text::{number, scaled};

const SECOND_US: u64 = 1_000_000;
const DAY_S: u64 = 86_400;
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// RFC 3339, as in `2026-11-21T07:28:46.123Z`. A blank may stand instead of the `T`, slashes
/// instead of the hyphens (Go's `log`), a comma instead of the point (ISO 8601), and the zone
/// may be missing.
pub(super) fn rfc3339(text: &[u8]) -> Option<Moment> {
    let (date, rest) = text.split_at_checked(10)?;
    let [y1, y2, y3, y4, b'-' | b'/', m1, m2, b'-' | b'/', d1, d2] = *date else { return None };
    let (separator, rest) = rest.split_first()?;
    if !matches!(separator, b'T' | b't' | b' ') {
        return None;
    }
    let (clock, rest) = rest.split_at_checked(8)?;
    let (us, zone) = fraction(rest)?;
    let seconds = civil(number(&[y1, y2, y3, y4])?, number(&[m1, m2])?, number(&[d1, d2])?)?
        .checked_add(of_day(clock)?)?;
    let seconds = in_utc(seconds, zone)?;
    moment(seconds, us)
}

/// The fraction of a second at the start of a text, in microseconds if there is one, and what
/// follows it.
fn fraction(text: &[u8]) -> Option<(Option<u64>, &[u8])> {
    let [b'.' | b',', digits @ ..] = text else { return Some((None, text)) };
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    // Nine digits are nanoseconds; further ones say nothing here.
    let kept = digits.get(..9).unwrap_or(digits);
    let power = 10_u64.pow(u32::try_from(kept.len()).ok()?);
    Some((Some(number(kept)? * SECOND_US / power), rest))
}

fn moment(seconds: u64, fraction_us: Option<u64>) -> Option<Moment> {
    let us = seconds.checked_mul(SECOND_US)?.checked_add(fraction_us.unwrap_or(0))?;
    Some(Moment { us, is_whole_second: fraction_us.is_none() })
}

/// The common log format, as in `21/Nov/2026:07:28:46 +0100`; also with a fraction and without
/// a zone, as HAProxy writes it.
pub(super) fn common(text: &[u8]) -> Option<Moment> {
    let (date, rest) = text.split_at_checked(11)?;
    let [d1, d2, b'/', n1, n2, n3, b'/', y1, y2, y3, y4] = *date else { return None };
    let (clock, rest) = rest.strip_prefix(b":")?.split_at_checked(8)?;
    let (us, zone) = fraction(rest)?;
    let month = MONTHS.iter().position(|name| **name == [n1, n2, n3])?;
    let month = u64::try_from(month).ok()? + 1;
    let seconds = civil(number(&[y1, y2, y3, y4])?, month, number(&[d1, d2])?)?;
    let seconds = in_utc(seconds.checked_add(of_day(clock)?)?, zone.trim_ascii())?;
    moment(seconds, us)
}

/// A number since the epoch. Its size tells whether it counts seconds, milliseconds,
/// microseconds or nanoseconds.
pub(super) fn epoch(text: &[u8]) -> Option<Moment> {
    let whole = scaled(text, 1)?;
    let (us, is_seconds) = match whole {
        0..100_000_000_000 => (scaled(text, SECOND_US)?, true),
        100_000_000_000..100_000_000_000_000 => (scaled(text, 1000)?, false),
        100_000_000_000_000..100_000_000_000_000_000 => (whole, false),
        _ => (whole / 1000, false),
    };
    Some(Moment { us, is_whole_second: is_seconds && !text.contains(&b'.') })
}

/// Any of the above.
pub(super) fn in_any_form(text: &[u8]) -> Option<Moment> {
    rfc3339(text).or_else(|| epoch(text)).or_else(|| common(text))
}

/// Seconds of the day at `07:28:46`. A leap second counts as the second after it.
fn of_day(clock: &[u8]) -> Option<u64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *clock else { return None };
    let hour = number(&[h1, h2])?;
    let minute = number(&[m1, m2])?;
    let second = number(&[s1, s2])?;
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

/// Seconds since the epoch, of local time in `Z`, `+01:00` or `-0530`. No zone is UTC.
fn in_utc(local: u64, zone: &[u8]) -> Option<u64> {
    let (sign, digits) = match zone {
        b"" | b"Z" | b"z" => return Some(local),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] | [sign @ (b'+' | b'-'), h1, h2, m1, m2] => {
            (*sign, [*h1, *h2, *m1, *m2])
        }
        _ => return None,
    };
    let [h1, h2, m1, m2] = digits;
    let offset = number(&[h1, h2])? * 3600 + number(&[m1, m2])? * 60;
    if sign == b'+' { local.checked_sub(offset) } else { local.checked_add(offset) }
}

/// Seconds from the epoch to a day of the Gregorian calendar (H. Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`).
fn civil(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let era = year / 400;
    let of_era = year % 400;
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some((days - 719_468) * DAY_S)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_core::time::Timestamp;

    use super::*;

    #[test]
    fn every_form_is_read() {
        let at = |us, is_whole_second| Some(Moment { us, is_whole_second });
        let cases = [
            ("2026-11-21T07:28:46.123Z", at(1_795_246_126_123_000, false)),
            ("2026-11-21T08:28:46.123456+01:00", at(1_795_246_126_123_456, false)),
            ("2026-11-21T07:28:46Z", at(1_795_246_126_000_000, true)),
            ("2026-11-21 01:58:46-0530", at(1_795_246_126_000_000, true)),
            ("2026-11-21T08:28:46.5+0100", at(1_795_246_126_500_000, false)),
            ("2026-11-21 07:28:46,123", at(1_795_246_126_123_000, false)),
            ("2026/11/21 07:28:46", at(1_795_246_126_000_000, true)),
            ("2026/11/21 07:28:46.123456789", at(1_795_246_126_123_456, false)),
            ("21/Nov/2026:07:28:46.123", at(1_795_246_126_123_000, false)),
            ("21/Nov/2026:07:28:46", at(1_795_246_126_000_000, true)),
            ("21/Nov/2026:07:28:46 +0000", at(1_795_246_126_000_000, true)),
            ("21/Nov/2026:08:28:46 +0100", at(1_795_246_126_000_000, true)),
            ("1795246126", at(1_795_246_126_000_000, true)),
            ("1795246126.5", at(1_795_246_126_500_000, false)),
            ("1795246126123", at(1_795_246_126_123_000, false)),
            ("1795246126123456", at(1_795_246_126_123_456, false)),
            ("1795246126123456789", at(1_795_246_126_123_456, false)),
            ("2026-13-21T07:28:46Z", None),
            ("2026-11-21T27:28:46Z", None),
            ("21/Nov/2026", None),
            ("2026-11-21T07:28:46.Z", None),
            ("yesterday", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(in_any_form(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(ms in 0..4_102_444_800_000_u64) {
            let text = Timestamp::from_micros(ms * 1000).to_string();
            prop_assert_eq!(rfc3339(text.as_bytes()).map(|it| it.us), Some(ms * 1000));
        }

        #[test]
        fn no_input_panics(text in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = in_any_form(&text);
        }
    }
}

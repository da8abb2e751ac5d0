//! Dates: `2027-01-31` is the beginning of that day in UTC.

use std::str::FromStr;

use tollgate_core::time::{Span, Timestamp};

use tollgate_core::scalar::ScalarError;

use super::text::written_as_text;

const ADVICE: &str = "write a year, a month and a day, like 2027-01-31";
/// The years in which a date may lie.
const YEARS: std::ops::RangeInclusive<u64> = 1970..=9999;

/// The beginning of a day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date(pub Timestamp);

written_as_text!(Date, text DATE, "A date: the beginning of that day in UTC", "2027-01-31");

impl FromStr for Date {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let wrong = || ScalarError::new(format!("\"{text}\" is not a date"), ADVICE);
        let mut parts = text.split('-');
        let mut next = |digits: usize| {
            let part = parts.next()?;
            let is_number = part.len() == digits && part.bytes().all(|it| it.is_ascii_digit());
            part.parse::<u64>().ok().filter(|_| is_number)
        };
        let year = next(4);
        let month = next(2);
        let day = next(2);
        let (Some(year), Some(month), Some(day), None) = (year, month, day, parts.next()) else {
            return Err(wrong());
        };
        let is_valid = YEARS.contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day);
        if !is_valid {
            return Err(wrong());
        }
        let years: u64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
        let months: u64 = (1..month).map(|month| days_in(year, month)).sum();
        let days = years + months + day - 1;
        Ok(Self(Timestamp::default().plus(Span::from_secs(days * 86_400))))
    }
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

const fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_the_beginning_of_its_day() {
        for text in ["1970-01-01", "2000-02-29", "2026-11-22", "2027-01-31", "9999-12-31"] {
            let Date(time) = text.parse().expect("it is a date");
            assert_eq!(time.to_string(), format!("{text}T00:00:00.000Z"));
        }
    }

    #[test]
    fn days_that_do_not_exist_are_refused() {
        let wrong = [
            "2027-02-29",
            "2100-02-29",
            "2027-13-01",
            "2027-00-01",
            "2027-04-31",
            "1969-12-31",
            "27-01-01",
            "2027-1-1",
            "2027-01-01T00:00",
            "tomorrow",
            "",
            "2027-01-01-01",
            "+027-01-01",
        ];
        for text in wrong {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
    }
}

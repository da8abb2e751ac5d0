//! The months of the Gregorian calendar, counted from March of the year 0.
//!
//! The year of this count begins on 1 March, so that the leap day is its last day (H. Hinnant,
//! "chrono-Compatible Low-Level Date Algorithms", `civil_from_days` and `days_from_civil`).

/// The days of 400 years.
const ERA_DAYS: i64 = 146_097;
/// The days from the first day of the count to 1970-01-01.
const EPOCH_DAY: i64 = 719_468;

/// The month that contains a day, which is counted from 1970-01-01.
pub(super) const fn of_day(day: i64) -> i64 {
    let shifted = day.saturating_add(EPOCH_DAY);
    let era = shifted.div_euclid(ERA_DAYS);
    let of_era = shifted.rem_euclid(ERA_DAYS);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    (era * 400 + year_of_era) * 12 + (5 * of_year + 2) / 153
}

/// The first day of a month, counted from 1970-01-01.
pub(super) const fn first_day(month: i64) -> i64 {
    let year = month.div_euclid(12);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let of_year = (153 * month.rem_euclid(12) + 2) / 5;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era.saturating_mul(ERA_DAYS).saturating_add(of_era).saturating_sub(EPOCH_DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule of the Gregorian calendar, written plainly.
    const fn days_in(year: i64, month: i64) -> i64 {
        let is_leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
        match month {
            2 if is_leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    #[test]
    fn months_follow_each_other_for_a_thousand_years() {
        let mut first = 0;
        for month in 0..12_000 {
            let index = of_day(first);
            assert_eq!(index, of_day(0) + month);
            assert_eq!(first_day(index), first);
            let next = first + days_in(1970 + month / 12, month % 12 + 1);
            assert_eq!(of_day(next - 1), index, "the last day of month {month}");
            first = next;
        }
        let before = of_day(-1);
        assert_eq!([before + 1, first_day(before)], [of_day(0), -31]);
    }

    #[test]
    fn no_day_is_too_far_away() {
        for day in [i64::MIN / 86_400, i64::MAX / 86_400] {
            let first = first_day(of_day(day));
            assert!((0..31).contains(&(day - first)), "{day} {first}");
        }
    }
}

//! How numbers are written.

use serde_json::Value;

/// A rate with as many digits as matter.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate < 99.95 => format!("{rate:.1}"),
        Some(rate) if rate < 9_999.5 => format!("{rate:.0}"),
        Some(rate) if rate < 9_999_500.0 => format!("{:.0}k", rate / 1e3),
        Some(rate) => format!("{:.0}M", rate / 1e6),
    }
}

/// A share as a percentage.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// A part of a whole. None: the whole is 0.
#[expect(clippy::cast_precision_loss, reason = "a share is shown with one decimal")]
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A time in whole seconds, minutes or hours.
pub(super) fn seconds(us: u64) -> String {
    match us / 1_000_000 {
        secs @ 0..120 => format!("{secs} s"),
        secs @ 120..7200 => format!("{} min", secs / 60),
        secs => format!("{} h", secs / 3600),
    }
}

/// A bucket of durations in microseconds: its upper bound.
pub(super) fn bucket(value: &Value) -> String {
    let us = |us: u64| match us {
        0..1000 => format!("{us} µs"),
        1000..1_000_000 => format!("{} ms", us / 1000),
        _ => format!("{} s", us / 1_000_000),
    };
    match (value["over"].as_u64(), value["to"].as_u64()) {
        (_, Some(to)) => format!("≤ {}", us(to)),
        (Some(over), None) => format!("> {}", us(over)),
        (None, None) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let rates = [0.0, 1.25, 99.94, 99.96, 1234.4, 45_678.0, 12_345_678.0].map(Some).map(rate);
        assert_eq!(rates, ["0.0", "1.2", "99.9", "100", "1234", "46k", "12M"]);
        assert_eq!(
            (rate(None), percent(None), percent(share(1, 8))),
            ("-".into(), "-".into(), "12.5 %".into())
        );
        let shown = [0, 119_999_999, 120_000_000, 7_200_000_000].map(seconds);
        assert_eq!(shown, ["0 s", "119 s", "2 min", "2 h"]);
        let buckets = [
            json!({"over": 0, "to": 250}),
            json!({"over": 5000, "to": 10_000}),
            json!({"over": 10_000_000, "to": null}),
            json!(null),
        ];
        assert_eq!(buckets.map(|it| bucket(&it)), ["≤ 250 µs", "≤ 10 ms", "> 10 s", "-"]);
    }
}

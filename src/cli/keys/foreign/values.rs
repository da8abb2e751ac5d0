//! The values of fields, as programs and exports of databases write them.

use serde_json::Value;
use tollgate_core::api_keys::MAX_VALUE;
use tollgate_core::time::{Span, Timestamp};

use super::report::Report;

/// Why a time is not carried over as it is.
pub const DAY_ONLY: &str = "a key ends with a day in UTC: it ends at the beginning of this day";

/// Whether a field says nothing. A bound of 0 does say something: see [`is_zero`].
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is_true) => !is_true,
        Value::String(text)
            if matches!(text.trim(), "" | "{}" | "[]" | "f" | "false" | "null" | "NULL") =>
        {
            true
        }
        Value::Number(_) | Value::String(_) => is_zero(value),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Whether a field is the number 0.
pub fn is_zero(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.trim().parse() == Ok(0.0),
        _ => false,
    }
}

/// Whether a field says yes, as programs and exports of databases write it.
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::String(text) => matches!(text.trim(), "t" | "true" | "1"),
        Value::Number(number) => number.as_u64() == Some(1),
        value => *value == Value::Bool(true),
    }
}

/// The text of a field.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A whole number.
pub fn whole(value: &Value) -> Option<u64> {
    text(value)?.parse().ok()
}

/// The day of a time, and whether the time is another one than the beginning of the day in UTC. A
/// number counts seconds or milliseconds since 1970.
fn day(value: &Value) -> Option<(String, bool)> {
    const LEAST_MS: u64 = 100_000_000_000;
    let time = match whole(value) {
        Some(ms) if ms >= LEAST_MS => Timestamp::default().plus(Span::from_millis(ms)).to_string(),
        Some(seconds) => Timestamp::default().plus(Span::from_secs(seconds)).to_string(),
        None => text(value)?,
    };
    let (day, rest) = time.split_at_checked(10)?;
    let is_other = rest.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    Some((day.to_owned(), is_other))
}

/// The day from which on the key `number` is not accepted.
pub fn expires(value: &Value, number: usize, field: &str, report: &mut Report) -> Option<String> {
    let Some((day, is_other)) = day(value) else {
        report.note(number, field, "it is not a time: set it with tollgate key set --expires");
        return None;
    };
    if is_other {
        report.note(number, field, DAY_ONLY);
    }
    Some(day)
}

/// A value that a label can have.
pub fn label(value: &Value) -> Option<String> {
    let is_good = |text: &String| {
        (1..=MAX_VALUE).contains(&text.len())
            && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    };
    text(value).filter(is_good)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_become_days() {
        for (value, expected) in [
            (json!("2027-01-31"), Some(("2027-01-31", false))),
            (json!("2027-01-31 00:00:00"), Some(("2027-01-31", false))),
            (json!("2027-01-31T00:00:00.000Z"), Some(("2027-01-31", false))),
            (json!("2027-01-31T13:00:00+00:00"), Some(("2027-01-31", true))),
            (json!(1_801_353_600), Some(("2027-01-31", false))),
            (json!(1_801_353_600_001_u64), Some(("2027-01-31", true))),
            (json!("1801353600"), Some(("2027-01-31", false))),
            (json!(null), None),
            (json!("soon"), None),
        ] {
            let read = day(&value);
            let read = read.as_ref().map(|(day, is_other)| (&**day, *is_other));
            assert_eq!(read, expected, "{value}");
        }
    }

    #[test]
    fn a_field_that_says_nothing_is_not_reported() {
        for value in [json!(null), json!(0.0), json!("0.0"), json!({}), json!("{}"), json!("f")] {
            assert!(is_empty(&value), "{value}");
        }
        for value in [json!(1), json!("x"), json!([1]), json!(true)] {
            assert!(!is_empty(&value) && !is_zero(&value), "{value}");
        }
        for value in [json!(0), json!(0.0), json!("0"), json!(" 0.0 ")] {
            assert!(is_zero(&value), "{value}");
        }
        for value in [json!(null), json!(""), json!("null"), json!(false), json!([0])] {
            assert!(!is_zero(&value), "{value}");
        }
    }
}

//! Times of the admin API.

use serde_json::Value;
use tollgate_core::time::{Span, Timestamp};

use crate::config::Date;

/// The time between two texts such as `2026-11-21T07:28:46.123Z`, in whole seconds, rounded up. None: one
/// of them is no such text, or the second is not later.
pub fn between(from: &Value, to: &Value) -> Option<Span> {
    let rest = time(to.as_str()?)?.since(time(from.as_str()?)?);
    (!rest.is_zero()).then(|| Span::from_secs(rest.as_secs_ceil()))
}

fn time(text: &str) -> Option<Timestamp> {
    let (day, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let Date(day) = day.parse().ok()?;
    let mut parts = clock.split([':', '.']);
    let mut next = || parts.next()?.parse::<u16>().ok().map(u64::from);
    let minutes = next()? * 60 + next()?;
    let millis = (minutes * 60 + next()?) * 1000 + next()?;
    parts.next().is_none().then(|| day.plus(Span::from_millis(millis)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for us in [0, 1_000, 951_782_399_999_000, 1_795_689_000_123_000] {
            let time = Timestamp::from_micros(us);
            assert_eq!(super::time(&time.to_string()), Some(time));
        }
        for text in ["", "2026-11-26", "2026-11-26T10:30:00Z", "2026-11-26T10:30:00.000+01:00"] {
            assert_eq!(super::time(text), None, "{text}");
        }
    }

    #[test]
    fn the_rest_is_in_whole_seconds_and_never_zero() {
        let rest = |from: &str, to: &str| {
            let at = |text: &str| json!(format!("2026-11-26T{text}Z"));
            between(&at(from), &at(to)).map(|it| it.to_string())
        };
        assert_eq!(rest("10:00:00.000", "10:30:00.000").as_deref(), Some("30m"));
        assert_eq!(rest("10:00:00.500", "10:01:30.501").as_deref(), Some("1m31s"));
        assert_eq!(rest("10:00:00.000", "10:00:00.000"), None);
        assert_eq!(between(&Value::Null, &json!("2026-11-26T10:00:00.000Z")), None);
    }
}

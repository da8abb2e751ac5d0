//! The forms of values in Go, which reads the environment of envoyproxy/ratelimit.

use std::time::Duration;

/// `1`, `t`, `T`, `true`, `TRUE`, `True`, and the same for false (`strconv.ParseBool`).
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// `1h30m`, `1.5s`, `300ms`, `0` (`time.ParseDuration`). Fractions of a millisecond are cut. As
/// there, a duration has at most `2^63 - 1` nanoseconds.
pub fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut sum = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(unit_at);
        let next_at = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, others) = after.split_at(next_at);
        let micros: f64 = match unit {
            "h" => 3600e6,
            "m" => 60e6,
            "s" => 1e6,
            "ms" => 1e3,
            "us" | "µs" | "μs" => 1.0,
            "ns" => 1e-3,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        sum = sum.checked_add(Duration::try_from_secs_f64(number * micros / 1e6).ok()?)?;
        rest = others;
    }
    i64::try_from(sum.as_nanos()).ok()?;
    let ms = u64::try_from(sum.as_millis()).ok()?;
    (!text.is_empty()).then(|| Duration::from_millis(ms))
}

/// `k=v,k=v`. Entries without a value are left out, as there.
pub fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|entry| entry.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The user and the password of `user:password`, or the password alone.
pub fn credentials(text: &str) -> (Option<&str>, &str) {
    match text.split_once(':') {
        Some((user, password)) => (Some(user), password),
        None => (None, text),
    }
}

//! The freshness lifetime of a response (RFC 9111, section 4.2).

use std::time::Duration;

use http::HeaderMap;
use http::header::{AGE, CACHE_CONTROL};

/// How long a response with these fields stays fresh from now on; none if the fields
/// do not say.
pub fn of(fields: &HeaderMap) -> Option<Duration> {
    let lines = fields.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let mut fresh_for = None;
    for directive in lines.flat_map(|line| line.split(',')) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "no-store" | "no-cache" => return Some(Duration::ZERO),
            "max-age" => fresh_for = fresh_for.or_else(|| seconds(value.trim().trim_matches('"'))),
            _ => {}
        }
    }
    let age = fields.get(AGE).and_then(|age| age.to_str().ok()).and_then(seconds);
    fresh_for.map(|fresh_for| fresh_for.saturating_sub(age.unwrap_or_default()))
}

/// Delta seconds: digits only. A number that is too large counts as the largest number
/// (RFC 9111, section 1.2.2).
fn seconds(text: &str) -> Option<Duration> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Duration::from_secs(text.parse().unwrap_or(u64::from(u32::MAX))))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_response_is_fresh_for_its_max_age_less_its_age() {
        for (lines, seconds) in [
            (&[("cache-control", "max-age=300")][..], Some(300)),
            (&[("cache-control", "public, Max-Age=\"300\" , must-revalidate")], Some(300)),
            (&[("cache-control", "public"), ("cache-control", "max-age=9")], Some(9)),
            (&[("cache-control", "max-age=300"), ("age", "100")], Some(200)),
            (&[("cache-control", "max-age=300"), ("age", "400")], Some(0)),
            (&[("cache-control", "max-age=300"), ("age", "soon")], Some(300)),
            (&[("cache-control", "max-age=300, no-cache")], Some(0)),
            (&[("cache-control", "no-store")], Some(0)),
            (&[("cache-control", "max-age=99999999999999999999999")], Some(u64::from(u32::MAX))),
            (&[("cache-control", "max-age=-1")], None),
            (&[("cache-control", "max-age=")], None),
            (&[("cache-control", "s-maxage=5")], None),
            (&[("age", "5")], None),
            (&[], None),
        ] {
            let fields = lines.iter().map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(of(&fields.collect()), expected, "{lines:?}");
        }
    }
}

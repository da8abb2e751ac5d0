//! The header fields about limits that Envoy adds to the response to its client.

use std::fmt::Write as _;

use tollgate_core::time::Span;

use crate::check::rls::{Answer, Dialect, Status, Unit};
use crate::grpc::core::HeaderValue;

/// The fields of these dialects.
pub fn fields(answer: &Answer<'_>, domain_names: &[Dialect]) -> Vec<HeaderValue> {
    let mut fields = Vec::new();
    for dialect in domain_names {
        match dialect {
            Dialect::Ietf => ietf(answer, &mut fields),
            Dialect::RetryAfter => {
                if let Some(wait) = retry_after(answer) {
                    fields.push(field("retry-after", wait.to_string()));
                }
            }
            Dialect::Erl => erl(answer, &mut fields),
        }
    }
    fields
}

/// A field with a value of ASCII. Envoy reads `raw_value` first, and old versions read `value`.
pub fn field(name: &str, value: String) -> HeaderValue {
    HeaderValue { key: name.to_owned(), value, raw_value: Vec::new() }
}

/// The seconds after which the whole request fits, at least one. None if it is not over a limit,
/// or waiting does not help.
pub fn retry_after(answer: &Answer<'_>) -> Option<u64> {
    let over = || answer.statuses.iter().filter(|it| it.is_over);
    if !answer.is_over || over().any(|it| it.never_fits || it.reset.is_none()) {
        return None;
    }
    over().filter_map(|it| it.reset).map(Span::as_secs_ceil).max().map(|secs| secs.max(1))
}

/// All limits, as draft-ietf-httpapi-ratelimit-headers has them. A limit without a name has that
/// of its unit.
fn ietf(answer: &Answer<'_>, fields: &mut Vec<HeaderValue>) {
    let mut policies = String::new();
    let mut limits = String::new();
    for status in &answer.statuses {
        let Some((requests, unit, name)) = status.limit else { continue };
        let name = quoted(if name.is_empty() { unit.map_or("limit", Unit::name) } else { name });
        let separator = if policies.is_empty() { "" } else { ", " };
        let _ = write!(policies, "{separator}{name};q={requests}");
        if let Some(unit) = unit {
            let _ = write!(policies, ";w={}", unit.window().as_secs_ceil());
        }
        let _ = write!(limits, "{separator}{name};r={}", status.remaining);
        if let Some(reset) = status.reset {
            let _ = write!(limits, ";t={}", reset.as_secs_ceil());
        }
    }
    if !policies.is_empty() {
        fields.push(field("ratelimit-policy", policies));
        fields.push(field("ratelimit", limits));
    }
}

/// A string of structured fields (RFC 9651), in which other characters than ASCII are replaced.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars().take(128) {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            _ => quoted.push('_'),
        }
    }
    quoted.push('"');
    quoted
}

/// The limit that is exceeded or the closest.
fn erl(answer: &Answer<'_>, fields: &mut Vec<HeaderValue>) {
    let closest = answer.closest.and_then(|index| answer.statuses.get(index));
    let Some(Status { limit: Some((requests, ..)), remaining, reset, .. }) = closest else {
        return;
    };
    fields.push(field("RateLimit-Limit", requests.to_string()));
    fields.push(field("RateLimit-Remaining", remaining.to_string()));
    if let Some(reset) = reset {
        fields.push(field("RateLimit-Reset", reset.as_secs_ceil().to_string()));
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    fn answer(over: bool) -> Answer<'static> {
        let status = |is_over, requests, unit, name, remaining, reset_ms| Status {
            is_over,
            limit: Some((requests, unit, name)),
            remaining,
            reset: Some(Span::from_millis(reset_ms)),
            never_fits: false,
        };
        Answer {
            is_over: over,
            is_shadowed: false,
            statuses: smallvec![
                status(false, 10, Some(Unit::Minute), "a\"ü", 3, 1500),
                Status { limit: None, ..status(false, 0, None, "", 0, 0) },
                status(over, 5, Some(Unit::Second), "", 0, 1),
                status(over, 7, None, "n", 0, 2001),
            ],
            tallies: smallvec![],
            passed: smallvec![],
            closest: Some(3),
        }
    }

    fn texts(answer: &Answer<'_>, dialects: &[Dialect]) -> Vec<String> {
        fields(answer, dialects).iter().map(|it| format!("{}: {}", it.key, it.value)).collect()
    }

    #[test]
    fn fields_have_whole_seconds_that_are_long_enough() {
        let all = [Dialect::Ietf, Dialect::RetryAfter, Dialect::Erl];
        let expected = [
            r#"ratelimit-policy: "a\"_";q=10;w=60, "second";q=5;w=1, "n";q=7"#,
            r#"ratelimit: "a\"_";r=3;t=2, "second";r=0;t=1, "n";r=0;t=3"#,
            "retry-after: 3",
            "RateLimit-Limit: 7",
            "RateLimit-Remaining: 0",
            "RateLimit-Reset: 3",
        ];
        assert_eq!(texts(&answer(true), &all), expected);
        assert_eq!(texts(&answer(false), &[Dialect::RetryAfter]), [""; 0]);
    }

    #[test]
    fn a_request_that_never_fits_is_told_no_wait() {
        let mut never = answer(true);
        never.statuses[2].never_fits = true;
        assert_eq!(retry_after(&never), None);
        let mut unknown = answer(true);
        unknown.statuses[2].reset = None;
        assert_eq!(retry_after(&unknown), None);
    }
}

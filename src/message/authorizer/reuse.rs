//! For which questions the answer of an authorizer is used.

use std::time::Duration;

use http::header::{CACHE_CONTROL, LOCATION, SET_COOKIE};
use http::{HeaderMap, StatusCode};

/// For which questions an answer is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Only for the question that it answers: it is for one client, or its fields say so.
    Never,
    /// Also for equal questions that wait for it.
    Waiting,
    /// Also for equal questions that are asked in this time.
    Within(Duration),
}

impl Reuse {
    /// For which questions an answer with this status and these fields is used. Answers are kept for
    /// `limit` at most; none if there is no cache.
    pub fn of(status: StatusCode, headers: &HeaderMap, limit: Option<Duration>) -> Self {
        let time = limit.and_then(|limit| lifetime(headers, limit)).unwrap_or_default();
        // A redirect often contains the target of the client that it answers, and 429 depends on its
        // address, which is no part of the question.
        let is_of_client = status.is_redirection()
            || status == StatusCode::TOO_MANY_REQUESTS
            || !status.is_success() && headers.contains_key(LOCATION)
            || headers.contains_key(SET_COOKIE);
        match status {
            _ if is_of_client || time.is_zero() => Self::Never,
            _ if status.is_success() || status == StatusCode::FORBIDDEN => Self::Within(time),
            _ => Self::Waiting,
        }
    }
}

/// For how long an answer may be kept, at most `limit` (RFC 9111, section 5.2.2); none if its fields
/// cannot be read.
fn lifetime(headers: &HeaderMap, limit: Duration) -> Option<Duration> {
    let mut time = limit;
    for line in headers.get_all(CACHE_CONTROL) {
        for directive in line.to_str().ok()?.split(',').map(str::trim) {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            if name.eq_ignore_ascii_case("no-store") || name.eq_ignore_ascii_case("no-cache") {
                return None;
            }
            if name.eq_ignore_ascii_case("max-age") {
                // What cannot be read is stale (RFC 9111, section 4.2.1).
                let seconds = value.trim_matches('"').parse().unwrap_or(0);
                time = time.min(Duration::from_secs(seconds));
            }
        }
    }
    Some(time)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::HeaderName;

    use super::*;

    fn reuse(status: u16, lines: &[(&'static str, &'static str)]) -> Reuse {
        let line =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let headers = lines.iter().map(line).collect();
        Reuse::of(StatusCode::from_u16(status).unwrap(), &headers, Some(Duration::from_secs(10)))
    }

    #[test]
    fn an_answer_holds_as_long_as_both_sides_allow() {
        let within = |seconds| Reuse::Within(Duration::from_secs(seconds));
        assert_eq!(reuse(200, &[]), within(10));
        assert_eq!(reuse(403, &[("cache-control", "private, max-age=3")]), within(3));
        assert_eq!(reuse(204, &[("cache-control", "max-age=600")]), within(10));
        for status in [401, 404] {
            assert_eq!(reuse(status, &[]), Reuse::Waiting, "{status}");
        }
        for value in ["no-store", "No-Cache", "max-age=0", "max-age=soon", "max-age=9, no-store"] {
            for status in [200, 401, 403] {
                assert_eq!(reuse(status, &[("cache-control", value)]), Reuse::Never, "{value}");
            }
        }
        let headers = HeaderMap::new();
        assert_eq!(Reuse::of(StatusCode::OK, &headers, None), Reuse::Never, "there is no cache");
    }

    #[test]
    fn an_answer_for_one_client_is_used_for_no_other() {
        for status in [302, 307, 429] {
            assert_eq!(reuse(status, &[]), Reuse::Never, "{status}");
        }
        for status in [200, 401, 403] {
            assert_eq!(reuse(status, &[("set-cookie", "a=1")]), Reuse::Never, "{status}");
        }
        assert_eq!(reuse(401, &[("location", "/login?next=/a")]), Reuse::Never);
    }
}

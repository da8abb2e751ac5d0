//! Single values out of a request: a header field, a bearer token, a cookie, a
//! query parameter.
//!
//! A value is what a client is counted by, so it must be the one that a backend
//! sees, too. Where a request is so odd that backends may differ, there is no
//! value, and the request is [`Lack::Ambiguous`]: a client must not get a fresh
//! counter by sending a field twice.

use std::borrow::Cow;

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode;

/// The most cookies, or query parameters, that are looked at.
const MAX_PAIRS: usize = 256;

/// Why a request has no such value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lack {
    /// It has none, or an empty one.
    Absent,
    /// Which one it is depends on who reads the request.
    Ambiguous,
}

/// The value of a header field. Several lines must all be the same.
pub(super) fn header<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Result<&'r [u8], Lack> {
    let mut lines = headers.get_all(name).iter();
    let value = lines.next().ok_or(Lack::Absent)?;
    if lines.any(|line| line != value) {
        return Err(Lack::Ambiguous);
    }
    present(value.as_bytes())
}

/// The token of `Authorization: Bearer` (RFC 6750, section 2.1). The scheme may
/// be written in any case (RFC 9110, section 11.1).
pub(super) fn bearer(headers: &HeaderMap) -> Result<&[u8], Lack> {
    let value = header(headers, &AUTHORIZATION)?;
    let end = value.iter().position(|&byte| byte == b' ').ok_or(Lack::Absent)?;
    let (scheme, token) = value.split_at(end);
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Err(Lack::Absent);
    }
    let token = token.trim_ascii();
    // Lenient backends take what stands before the blank.
    if token.iter().any(u8::is_ascii_whitespace) {
        return Err(Lack::Ambiguous);
    }
    present(token)
}

/// The first cookie of this name, without the quotes around its value: with and
/// without them it is the same cookie. A semicolon ends a value even inside of
/// quotes (RFC 6265, section 4.1.1).
pub(super) fn cookie<'r>(headers: &'r HeaderMap, name: &str) -> Result<&'r [u8], Lack> {
    let pairs =
        headers.get_all(COOKIE).iter().flat_map(|line| line.as_bytes().split(|&b| b == b';'));
    for (seen, pair) in pairs.enumerate() {
        if seen == MAX_PAIRS {
            return Err(Lack::Ambiguous);
        }
        let Some(equals) = pair.iter().position(|&byte| byte == b'=') else { continue };
        if pair[..equals].trim_ascii() == name.as_bytes() {
            let value = pair[equals + 1..].trim_ascii();
            let unquoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
            return present(unquoted.unwrap_or(value));
        }
    }
    Err(Lack::Absent)
}

/// The first query parameter of this name, decoded as HTML forms are
/// (`application/x-www-form-urlencoded`, URL Standard, section 5.1).
pub(super) fn query<'r>(query: Option<&'r str>, name: &str) -> Result<Cow<'r, [u8]>, Lack> {
    for (seen, pair) in query.unwrap_or_default().split('&').enumerate() {
        if seen == MAX_PAIRS {
            return Err(Lack::Ambiguous);
        }
        let (written, value) = pair.split_once('=').unwrap_or((pair, ""));
        if *form_decoded(written) == *name.as_bytes() {
            let value = form_decoded(value);
            return if value.is_empty() { Err(Lack::Absent) } else { Ok(value) };
        }
    }
    Err(Lack::Absent)
}

fn form_decoded(text: &str) -> Cow<'_, [u8]> {
    if text.contains('+') {
        Cow::Owned(percent_decode(text.replace('+', " ").as_bytes()).collect())
    } else {
        percent_decode(text.as_bytes()).into()
    }
}

const fn present(value: &[u8]) -> Result<&[u8], Lack> {
    if value.is_empty() { Err(Lack::Absent) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: HeaderName, lines: &[&str]) -> HeaderMap {
        let value = |line: &&str| HeaderValue::from_str(line).unwrap();
        lines.iter().map(|line| (name.clone(), value(line))).collect()
    }

    #[test]
    fn lines_of_a_field_must_agree() {
        let name = HeaderName::from_static("x-api-key");
        let value =
            |lines: &[&str]| header(&headers(name.clone(), lines), &name).map(<[u8]>::to_vec);
        assert_eq!(value(&["a"]), Ok(b"a".to_vec()));
        assert_eq!(value(&["a", "a"]), Ok(b"a".to_vec()));
        assert_eq!(value(&["a", "b"]), Err(Lack::Ambiguous));
        assert_eq!(value(&["", "b"]), Err(Lack::Ambiguous));
        assert_eq!(value(&[""]), Err(Lack::Absent));
        assert_eq!(value(&[]), Err(Lack::Absent));
    }

    #[test]
    fn a_bearer_token_is_found_whatever_the_case_of_its_scheme() {
        let token = |lines: &[&str]| bearer(&headers(AUTHORIZATION, lines)).map(<[u8]>::to_vec);
        for line in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            assert_eq!(token(&[line]), Ok(b"abc".to_vec()), "{line}");
        }
        for line in ["Basic abc", "Bearer", "Bearer ", "Bearerabc", ""] {
            assert_eq!(token(&[line]), Err(Lack::Absent), "{line}");
        }
        assert_eq!(token(&["Bearer abc def"]), Err(Lack::Ambiguous));
        assert_eq!(token(&["Bearer abc", "Bearer def"]), Err(Lack::Ambiguous));
    }

    #[test]
    fn the_first_cookie_of_a_name_counts_quoted_or_not() {
        let value = |lines: &[&str]| cookie(&headers(COOKIE, lines), "sid").map(<[u8]>::to_vec);
        for lines in [&["sid=a"][..], &["x=1; sid=\"a\"; sid=b"], &["x=1", "y; sid = a "]] {
            assert_eq!(value(lines), Ok(b"a".to_vec()), "{lines:?}");
        }
        assert_eq!(value(&["sid=a=b"]), Ok(b"a=b".to_vec()));
        assert_eq!(value(&["sid=\"a"]), Ok(b"\"a".to_vec()));
        for lines in [&["SID=a"][..], &["xsid=a"], &["sid"], &["sid="], &["sid=\"\""], &[]] {
            assert_eq!(value(lines), Err(Lack::Absent), "{lines:?}");
        }
    }

    #[test]
    fn the_first_query_parameter_of_a_name_counts_decoded() {
        let value = |text| query(Some(text), "a key").map(Cow::into_owned);
        for text in ["a+key=x y", "a%20key=x+y", "b=1&%61+key=x%20y&a+key=z"] {
            assert_eq!(value(text), Ok(b"x y".to_vec()), "{text}");
        }
        assert_eq!(value("a+key=100%"), Ok(b"100%".to_vec()));
        assert_eq!(value("a+key=x%2By"), Ok(b"x+y".to_vec()));
        for text in ["", "a+key", "a+key=", "a+Key=x", "a%2Bkey=x"] {
            assert_eq!(value(text), Err(Lack::Absent), "{text}");
        }
        assert_eq!(query(None, "a"), Err(Lack::Absent));
    }

    #[test]
    fn a_value_behind_too_many_others_is_ambiguous() {
        let of = |junk: usize| {
            let map = headers(COOKIE, &[&format!("{}sid=a", "x=1;".repeat(junk))]);
            let text = format!("{}sid=a", "x=1&".repeat(junk));
            let found = cookie(&map, "sid").map(<[u8]>::to_vec);
            assert_eq!(found, query(Some(&text), "sid").map(Cow::into_owned));
            found
        };
        assert_eq!(of(MAX_PAIRS - 1), Ok(b"a".to_vec()));
        assert_eq!(of(MAX_PAIRS), Err(Lack::Ambiguous));
    }
}

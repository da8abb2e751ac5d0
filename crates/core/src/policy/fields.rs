//! Single values of a request's header fields, and the reasons why a value is missing.
//!
//! Clients are counted by these values, so a value must be the one that the backend reads.
//! If backends may read different values, the request is [`Lack::Ambiguous`], and no policy
//! that needs the value admits it. So a client gets no second counter by sending a field
//! twice.

use std::borrow::Cow;

use http::HeaderName;
use http::header::AUTHORIZATION;

use crate::request::{Fields, scan};

/// The reason why a request has no usable value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lack {
    /// The value is absent or empty.
    Absent,
    /// The token is not valid: it is forged or expired.
    Invalid,
    /// The token cannot be verified yet, because no keys have been fetched.
    Unverifiable,
    /// Backends may read different values.
    Ambiguous,
}

/// The value of a header field. All lines of the field must have the same value.
pub(super) fn header<'r>(fields: Fields<'r>, name: &HeaderName) -> Result<&'r [u8], Lack> {
    let mut lines = fields.get_all(name);
    let value = lines.next().ok_or(Lack::Absent)?;
    if lines.any(|line| line != value) {
        return Err(Lack::Ambiguous);
    }
    if value.is_empty() { Err(Lack::Absent) } else { Ok(value.as_bytes()) }
}

/// The token of `Authorization: Bearer` (RFC 6750, section 2.1). The scheme may
/// be written in any case (RFC 9110, section 11.1).
pub(super) fn bearer(fields: Fields<'_>) -> Result<&[u8], Lack> {
    let value = header(fields, &AUTHORIZATION)?;
    of_scheme(value, b"bearer")
}

/// The credentials of `Authorization: Basic` (RFC 7617, section 2), as they are encoded.
pub(super) fn basic(fields: Fields<'_>) -> Result<&[u8], Lack> {
    of_scheme(header(fields, &AUTHORIZATION)?, b"basic")
}

/// The credentials in a field, if they are of this scheme.
fn of_scheme<'v>(value: &'v [u8], scheme: &[u8]) -> Result<&'v [u8], Lack> {
    // Some backends split the value as a list, and find a token after a comma.
    let mut parts = value.split(|&byte| byte == b',').skip(1);
    if parts.any(|part| after_scheme(part, scheme).is_some()) {
        return Err(Lack::Ambiguous);
    }
    credential(after_scheme(value, scheme).ok_or(Lack::Absent)?)
}

/// The text after the scheme and its blank. None if the scheme is another one.
fn after_scheme<'v>(credentials: &'v [u8], wanted: &[u8]) -> Option<&'v [u8]> {
    let credentials = credentials.trim_ascii();
    let end = credentials.iter().position(u8::is_ascii_whitespace)?;
    let (scheme, token) = credentials.split_at(end);
    scheme.eq_ignore_ascii_case(wanted).then_some(token.trim_ascii())
}

/// A key or token. It has no blank, comma or quote, because lenient backends split the
/// value at them.
pub(super) fn credential(value: &[u8]) -> Result<&[u8], Lack> {
    // ASCII whitespace, a comma or a quote.
    let is_plain = |byte: u8| {
        let is_blank =
            (byte == b' ') | (byte == b'\t') | (byte == b'\n') | (byte == 0x0c) | (byte == b'\r');
        !(is_blank | (byte == b',') | (byte == b'"'))
    };
    if scan::leading(value, is_plain) < value.len() {
        return Err(Lack::Ambiguous);
    }
    if value.is_empty() { Err(Lack::Absent) } else { Ok(value) }
}

/// An empty value counts as absent.
pub(super) fn present(value: Cow<'_, [u8]>) -> Result<Cow<'_, [u8]>, Lack> {
    if value.is_empty() { Err(Lack::Absent) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn headers(name: HeaderName, lines: &[&str]) -> HeaderMap {
        let value = |line: &&str| HeaderValue::from_str(line).unwrap();
        lines.iter().map(|line| (name.clone(), value(line))).collect()
    }

    #[test]
    fn lines_of_a_field_must_agree() {
        let name = HeaderName::from_static("x-api-key");
        let value = |lines: &[&str]| {
            let all = headers(name.clone(), lines);
            header(Fields::of(&all), &name).map(<[u8]>::to_vec)
        };
        assert_eq!(value(&["a"]), Ok(b"a".to_vec()));
        assert_eq!(value(&["a", "a"]), Ok(b"a".to_vec()));
        assert_eq!(value(&["a", "b"]), Err(Lack::Ambiguous));
        assert_eq!(value(&["", "b"]), Err(Lack::Ambiguous));
        assert_eq!(value(&[""]), Err(Lack::Absent));
        assert_eq!(value(&[]), Err(Lack::Absent));
    }

    fn token(lines: &[&str]) -> Result<Vec<u8>, Lack> {
        let all = headers(AUTHORIZATION, lines);
        bearer(Fields::of(&all)).map(<[u8]>::to_vec)
    }

    #[test]
    fn a_bearer_token_is_found_whatever_the_case_of_its_scheme() {
        for line in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            assert_eq!(token(&[line]), Ok(b"abc".to_vec()), "{line}");
        }
        for line in ["Basic abc", "Bearer", "Bearer ", "Bearerabc", ""] {
            assert_eq!(token(&[line]), Err(Lack::Absent), "{line}");
        }
        assert_eq!(token(&["Bearer abc", "Bearer def"]), Err(Lack::Ambiguous));
    }

    #[test]
    fn credentials_of_the_scheme_basic_are_found_as_tokens_are() {
        let basic = |lines: &[&str]| {
            let all = headers(AUTHORIZATION, lines);
            super::basic(Fields::of(&all)).map(<[u8]>::to_vec)
        };
        assert_eq!(basic(&["basic  YTpi "]), Ok(b"YTpi".to_vec()));
        for line in ["Bearer abc", "Basic", "Basic ", "Digest realm=\"basic x\"", ""] {
            assert_eq!(basic(&[line]), Err(Lack::Absent), "{line}");
        }
        for line in ["Basic YTpi YTpj", "Basic YTpi, Bearer abc", "Bearer abc, Basic YTpi"] {
            assert_eq!(basic(&[line]), Err(Lack::Ambiguous), "{line}");
        }
        assert_eq!(basic(&["Basic YTpi", "Basic YTpj"]), Err(Lack::Ambiguous));
    }

    #[test]
    fn a_token_that_backends_read_differently_is_ambiguous() {
        let token = |line: &str| token(&[line]);
        for line in [
            "Bearer abc def",
            "Bearer abc\tdef",
            "Bearer abc,def",
            "Bearer \"abc\"",
            "Basic eDp5, Bearer abc",
        ] {
            assert_eq!(token(line), Err(Lack::Ambiguous), "{line}");
        }
        assert_eq!(token("Bearer\tabc"), Ok(b"abc".to_vec()));
        assert_eq!(token("Digest username=\"a\", nonce=\"bearer x\""), Err(Lack::Absent));
    }
}

//! Names of fields that some backends take for the names of others.
//!
//! CGI and its kin (WSGI, PHP, Rack) hand a field to the application as
//! `HTTP_X_FORWARDED_FOR`: in capitals, with `_` in place of `-` (RFC 3875,
//! section 4.1.18). Some servers put `_` in place of other characters, too. So
//! `X_Forwarded_For` and `X.Forwarded.For` may replace a field that the gateway
//! has written, and `X_Api_Key` one that it has counted by.

/// Fields by which the gateway frames a message, routes it, or names its sender.
const GUARDED: [&[u8]; 8] = [
    b"content-length",
    b"transfer-encoding",
    b"x-real-ip",
    b"x-request-id",
    b"x-ratelimit-soft",
    b"x-http-method-override",
    b"x-http-method",
    b"x-method-override",
];
/// The beginning of the names of more such fields.
const PREFIX: &[u8] = b"x-forwarded-";

/// Whether a name of a field has no characters but letters, digits and `-`, which
/// all backends hand on alike.
pub fn is_plain_name(name: &[u8]) -> bool {
    name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// A name of a field as such backends see it, in lower case with `-`: two names
/// with the same form are one name for them.
pub fn folded_name(name: &str) -> String {
    let fold = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(fold).collect()
}

/// Whether a name is for some backends that of a field by which the gateway frames
/// a message, routes it, or names its sender.
pub fn is_disguised(name: &[u8]) -> bool {
    let is_same = |guarded: &[u8]| {
        name.iter().zip(guarded).all(|(byte, guarded)| {
            byte.eq_ignore_ascii_case(guarded) || *guarded == b'-' && !byte.is_ascii_alphanumeric()
        })
    };
    !is_plain_name(name)
        && (name.len() >= PREFIX.len() && is_same(PREFIX)
            || GUARDED.iter().any(|guarded| name.len() == guarded.len() && is_same(guarded)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_disguised_whatever_stands_for_its_dashes() {
        for name in [
            "Content_Length",
            "transfer.encoding",
            "X_Forwarded-For",
            "x-forwarded_anything",
            "X.Forwarded.For",
            "x!real~ip",
            "X_Http_Method_Override",
        ] {
            assert!(is_disguised(name.as_bytes()), "{name}");
        }
        for name in [
            "Content-Length",
            "X-Forwarded-For",
            "x_forwarded",
            "my_field",
            "contentlength",
            "x-forwarded",
            "content_lengths",
            "",
        ] {
            assert!(!is_disguised(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn names_fold_to_what_such_backends_see() {
        assert_eq!(folded_name("X_Api.Key"), "x-api-key");
        assert_eq!(folded_name("x-api-key"), "x-api-key");
    }
}

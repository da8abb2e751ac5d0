//! Names of fields that some backends treat as other names.
//!
//! CGI and similar interfaces (WSGI, PHP, Rack) pass a field to the application as
//! `HTTP_X_FORWARDED_FOR`: in capitals, with `_` instead of `-` (RFC 3875, section
//! 4.1.18). Some servers replace other characters by `_`, too. So `X_Forwarded_For` and
//! `X.Forwarded.For` may replace a field that the gateway has written, and `X_Api_Key` may
//! replace a field that is part of a key.

use super::scan;

/// Fields by which the gateway frames a message, routes it, or identifies its sender.
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
/// The prefix of the names of more such fields.
const PREFIX: &[u8] = b"x-forwarded-";

/// Whether a name of a field has only letters, digits and `-`, which all backends pass on
/// unchanged.
pub fn is_plain_name(name: &[u8]) -> bool {
    scan::all(name, is_plain)
}

/// The number of bytes at the start of `bytes` that are letters, digits or `-`.
pub fn plain_len(bytes: &[u8]) -> usize {
    scan::leading(bytes, is_plain)
}

fn is_plain(byte: u8) -> bool {
    (byte | 0x20).is_ascii_lowercase() | byte.is_ascii_digit() | (byte == b'-')
}

/// The form in which such backends see a name of a field, in lower case with `-`. They
/// treat two names with the same form as the same name.
pub fn folded_name(name: &str) -> String {
    let fold = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(fold).collect()
}

/// Whether some backends treat a name as that of a field by which the gateway frames a
/// message, routes it, or identifies its sender.
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
    fn letters_digits_and_dashes_are_plain() {
        for byte in 0..=u8::MAX {
            let is_plain = byte.is_ascii_alphanumeric() || byte == b'-';
            // Long names are compared in blocks.
            for length in [1, 9, 20] {
                let name = vec![byte; length];
                assert_eq!(is_plain_name(&name), is_plain, "{length} of {byte:#x}");
                assert_eq!(plain_len(&name), if is_plain { length } else { 0 });
            }
        }
    }

    #[test]
    fn a_name_with_any_character_in_place_of_dashes_is_disguised() {
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
    fn names_fold_to_the_form_that_such_backends_see() {
        assert_eq!(folded_name("X_Api.Key"), "x-api-key");
        assert_eq!(folded_name("x-api-key"), "x-api-key");
    }
}

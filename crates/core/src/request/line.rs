//! The request line: the methods and the targets that a request may have.
//!
//! All doors use these checks, so a request that one of them refuses has no counters at another one.

use http::{Method, Uri};

use super::{Malformed, scan};

/// The method of the request that a server passes to the HTTP library instead of a malformed one.
/// No request of a client can have it.
pub const REFUSED_METHOD: &str = "-";

/// Whether a request may have this method, which is a token. Methods are case-sensitive, but some
/// backends compare them without case, so a common method with a lower-case letter is refused.
pub fn is_method(method: &[u8]) -> bool {
    const COMMON: [&[u8]; 9] =
        [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];
    method != REFUSED_METHOD.as_bytes()
        && (!method.iter().any(u8::is_ascii_lowercase)
            || !COMMON.iter().any(|common| common.eq_ignore_ascii_case(method)))
}

/// The method that this text names.
///
/// # Errors
/// If no request may have it.
pub fn method_of(text: &[u8]) -> Result<Method, Malformed> {
    let method = Method::from_bytes(text).map_err(|_| Malformed::BadMethod)?;
    if is_method(text) { Ok(method) } else { Err(Malformed::BadMethod) }
}

/// The target that this text names.
///
/// # Errors
/// If a server would refuse a request with this target, whatever its bounds are.
pub fn target_of(text: &[u8]) -> Result<Uri, Malformed> {
    if text.is_empty() || target_len(text) < text.len() {
        return Err(Malformed::BadTarget);
    }
    let text = std::str::from_utf8(text).map_err(|_| Malformed::BadTarget)?;
    text.parse().map_err(|_| Malformed::BadTarget)
}

/// The length of the target at the start of `rest`. A target may contain what the HTTP library
/// accepts: more than RFC 3986 allows, because browsers send it, but no `#`.
#[inline]
pub fn target_len(rest: &[u8]) -> usize {
    let is_in_both = |byte: u8| {
        (byte > b' ') & (byte != b'#') & (byte != b'<') & (byte != b'>') & (byte != 0x7f)
    };
    let path = scan::leading(rest, |byte| is_in_both(byte) & (byte != b'?') & (byte != b'`'));
    match rest.get(path) {
        Some(b'?') => path + scan::leading(&rest[path..], |byte| is_in_both(byte) & (byte != b'"')),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_method_is_written_in_capitals() {
        for text in ["GET", "PATCH", "PROPFIND", "propfind", "M-SEARCH", "GETS", "gets"] {
            assert_eq!(method_of(text.as_bytes()).as_ref().map(Method::as_str), Ok(text));
        }
        for text in ["get", "Get", "gEt", "post", "Options", "-", "", "G T", "G\"T", "GET "] {
            assert_eq!(method_of(text.as_bytes()), Err(Malformed::BadMethod), "{text}");
        }
    }

    #[test]
    fn a_target_has_no_fragment_and_nothing_that_must_be_escaped() {
        for target in ["/", "/a?b=c", "*", "http://a.test/b", "/{a}|\"^", "/?`", "/caf\u{e9}"] {
            let read = target_of(target.as_bytes());
            assert!(read.is_ok_and(|uri| uri == target), "{target}");
        }
        let wrong = ["", "/x#f", "/x?a#b", "/a b", "/<", "/`", "/\x7f", "/?\"", "/?\x7f", "?a"];
        for target in wrong {
            assert_eq!(target_of(target.as_bytes()), Err(Malformed::BadTarget), "{target:?}");
        }
        assert_eq!(target_of(b"/\xff"), Err(Malformed::BadTarget));
    }
}

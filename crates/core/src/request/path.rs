//! Paths in the forms that routes compare.
//!
//! Only routes and policies use these forms, and a path is forwarded unchanged. So all
//! paths that a backend may treat as the same must have the same form: two paths with the
//! same form always have the same route, the same parameters and the same counters.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::{Ambiguity, scan};

/// A path in its normal form (RFC 3986, section 6.2.2): characters that are allowed in a
/// path are not escaped, all others are escaped with capital digits, and several slashes in
/// a row are merged to one, because many backends do so.
///
/// # Errors
/// If backends could interpret the path differently.
pub fn normal_path(path: &str) -> Result<Cow<'_, str>, Ambiguity> {
    if is_normal(path) {
        return Ok(Cow::Borrowed(path));
    }
    let mut normal = String::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'%' => {
                let (decoded, behind) = unescape(rest)?;
                rest = behind;
                push(decoded, &mut normal)?;
            }
            b'/' if normal.ends_with('/') => {}
            b'/' => normal.push('/'),
            byte => push(byte, &mut normal)?,
        }
    }
    check_segments(&normal)?;
    Ok(Cow::Owned(normal))
}

/// Whether a path is in its normal form, and so plain that no segment must be checked. The loop
/// does not end early: most paths are plain.
fn is_normal(path: &str) -> bool {
    let mut is_normal = true;
    let mut before = 0;
    for byte in path.bytes() {
        let is_pair = before == b'/' && matches!(byte, b'/' | b'.');
        is_normal &= PLAIN[usize::from(byte)] & !is_pair;
        before = byte;
    }
    is_normal
}

/// Whether a byte is a slash or a [path character](is_path_character), except the semicolon,
/// after which segments have parameters.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte: u8 = 0;
    loop {
        plain[byte as usize] = byte == b'/' || (is_path_character(byte) && byte != b';');
        if byte == u8::MAX {
            break plain;
        }
        byte += 1;
    }
};

/// Appends a byte that is not a slash between segments.
fn push(byte: u8, normal: &mut String) -> Result<(), Ambiguity> {
    match byte {
        b'\\' | 0x7f | ..b' ' => return Err(Ambiguity::BadCharacter),
        byte if is_path_character(byte) => normal.push(char::from(byte)),
        byte => write!(normal, "%{byte:02X}").expect("writing to a string does not fail"),
    }
    Ok(())
}

/// The byte that the first two digits of `rest` encode, and the remaining bytes.
fn unescape(rest: &[u8]) -> Result<(u8, &[u8]), Ambiguity> {
    let digit = |at: usize| rest.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    let (Some(high), Some(low)) = (digit(0), digit(1)) else {
        return Err(Ambiguity::BadEscape);
    };
    let byte = u8::try_from(high * 16 + low).map_err(|_| Ambiguity::BadEscape)?;
    Ok((byte, &rest[2..]))
}

/// `pchar` without escapes (RFC 3986, section 3.3).
pub const fn is_path_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'@'
        )
}

/// Refuses segments that any backend treats as `.` or `..`. Some treat an escaped slash as
/// a slash, and some remove the text after a semicolon before they check for dots. A
/// segment that consists of parameters only counts as a segment for some backends and not
/// for others, unless it is the last one.
fn check_segments(normal: &str) -> Result<(), Ambiguity> {
    let mut segments = slashed_segments(normal).peekable();
    while let Some(segment) = segments.next() {
        if segment.starts_with(';') && segments.peek().is_some() {
            return Err(Ambiguity::EmptySegment);
        }
        if matches!(without_parameters(segment), "." | "..") {
            return Err(Ambiguity::DotSegment);
        }
    }
    Ok(())
}

/// The segments of a path in normal form, for backends that treat an escaped slash as a slash.
fn slashed_segments(normal: &str) -> impl Iterator<Item = &str> {
    normal.split('/').flat_map(|segment| segment.split("%2F")).skip(1)
}

/// A segment without its parameters, which follow a semicolon (RFC 3986, section 3.3).
/// Servlet containers ignore them when they select a handler.
pub fn without_parameters(segment: &str) -> &str {
    segment.split(';').next().unwrap_or(segment)
}

/// A path in the form that the most lenient backends compare, derived from its normal form:
/// in lower case, without parameters of segments, and without a slash at its end. The root
/// is the empty text.
pub fn loose_path(normal: &str) -> Cow<'_, str> {
    let whole = normal.strip_suffix('/').unwrap_or(normal);
    if scan::all(whole.as_bytes(), |byte| (byte != b';') & !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(whole);
    }
    let mut loose = String::with_capacity(whole.len());
    for (index, segment) in whole.split('/').enumerate() {
        if index > 0 {
            loose.push('/');
        }
        loose.push_str(without_parameters(segment));
    }
    loose.make_ascii_lowercase();
    if loose.ends_with('/') {
        loose.pop();
    }
    Cow::Owned(loose)
}

/// A path in normal form, as backends read it that treat an escaped slash as a slash. All
/// backends do that receive the path decoded from their server (CGI, WSGI). None if the
/// path has no escaped slash.
pub fn slashed_path(normal: &str) -> Option<String> {
    if !normal.contains("%2F") {
        return None;
    }
    let mut slashed = String::with_capacity(normal.len());
    for segment in slashed_segments(normal) {
        if !slashed.ends_with('/') {
            slashed.push('/');
        }
        slashed.push_str(segment);
    }
    Some(slashed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_has_one_form() {
        let cases = [
            ("/v1/orders", "/v1/orders"),
            ("/v1/%6Frders", "/v1/orders"),
            ("//v1///orders/", "/v1/orders/"),
            ("/a%2fb", "/a%2Fb"),
            ("/%7euser", "/~user"),
            ("/a%20b", "/a%20b"),
            ("/orders%3Abatch%2c%40", "/orders:batch,@"),
            ("/a%3bx", "/a;x"),
            ("/caf\u{e9}", "/caf%C3%A9"),
            ("/{a}|\"^", "/%7Ba%7D%7C%22%5E"),
            ("/.well-known/x", "/.well-known/x"),
            ("/...", "/..."),
            ("/a..;x/.b%2F..c", "/a..;x/.b%2F..c"),
            ("/;x", "/;x"),
            ("/a%2F;x", "/a%2F;x"),
            ("/a;x%2fb", "/a;x%2Fb"),
        ];
        for (path, normal) in cases {
            assert_eq!(normal_path(path).as_deref(), Ok(normal), "{path}");
        }
    }

    #[test]
    fn a_path_that_backends_read_differently_is_refused() {
        let cases = [
            ("/a/../b", Ambiguity::DotSegment),
            ("/a/%2e%2E/b", Ambiguity::DotSegment),
            ("/a/.%2e", Ambiguity::DotSegment),
            ("/.", Ambiguity::DotSegment),
            ("/a%2f..%2Fb", Ambiguity::DotSegment),
            ("/a/..%2fb", Ambiguity::DotSegment),
            ("/a/..;x=1/b", Ambiguity::DotSegment),
            ("/a/.%3Bx", Ambiguity::DotSegment),
            ("/a/;x/b", Ambiguity::EmptySegment),
            ("/a%2F;x/b", Ambiguity::EmptySegment),
            ("/a%2f;/b", Ambiguity::EmptySegment),
            ("/a/;x%2Fb", Ambiguity::EmptySegment),
            ("/a%2F%3B%2Fb", Ambiguity::EmptySegment),
            ("/a%", Ambiguity::BadEscape),
            ("/a%2", Ambiguity::BadEscape),
            ("/a%zz", Ambiguity::BadEscape),
            ("/a%00", Ambiguity::BadCharacter),
            ("/a%0a", Ambiguity::BadCharacter),
            ("/a%7F", Ambiguity::BadCharacter),
            ("/a%5cb", Ambiguity::BadCharacter),
            ("/a\\b", Ambiguity::BadCharacter),
        ];
        for (path, ambiguity) in cases {
            assert_eq!(normal_path(path), Err(ambiguity), "{path}");
        }
    }

    #[test]
    fn lenient_backends_ignore_some_differences() {
        let cases = [
            ("/", ""),
            ("/v1", "/v1"),
            ("/V1/", "/v1"),
            ("/login;x=1/", "/login"),
            ("/a/;x", "/a"),
            ("/a;b/c;d", "/a/c"),
            ("*", "*"),
        ];
        for (normal, loose) in cases {
            assert_eq!(loose_path(normal), loose, "{normal}");
        }
    }

    #[test]
    fn some_backends_treat_an_escaped_slash_as_a_slash() {
        for (normal, slashed) in [("/a%2Fb", "/a/b"), ("/a/%2Fb%2F", "/a/b/"), ("/%2F", "/")] {
            assert_eq!(slashed_path(normal).as_deref(), Some(slashed), "{normal}");
        }
        assert_eq!(slashed_path("/a/b"), None);
    }

    proptest! {
        #[test]
        fn the_normal_form_of_a_normal_form_is_itself(path in "/[a-zA-C%./~0-9A-F;:\\\\\u{e9}]{0,24}") {
            if let Ok(once) = normal_path(&path) {
                prop_assert_eq!(normal_path(&once), Ok(once.clone()));
                let loose = loose_path(&once).into_owned();
                prop_assert_eq!(loose_path(&loose), loose.clone());
            }
        }

        /// Backends that merge slashes find as many segments as others.
        #[test]
        fn no_reading_of_a_path_has_an_empty_segment(path in "/(a|B|;|%3B|x|/|%2F|%2f){0,8}") {
            if let Ok(normal) = normal_path(&path) {
                let slashed = slashed_path(&normal).unwrap_or_else(|| normal.clone().into_owned());
                for reading in [&*normal, &slashed] {
                    prop_assert!(!loose_path(reading).contains("//"), "{} {}", path, reading);
                }
            }
        }

        /// A path has the same form, however its bytes are escaped.
        #[test]
        fn escapes_make_no_other_path(
            segments in proptest::collection::vec("[a-zA-Z:;@,=~ |\u{e9}-]{1,6}", 1..4),
            escaped in proptest::collection::vec(any::<bool>(), 64),
        ) {
            let path = format!("/{}", segments.join("/"));
            let mut escaped = escaped.into_iter().cycle();
            let other: String = path
                .chars()
                .map(|c| match c != '/' && escaped.next().unwrap_or(false) {
                    true => c.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect(),
                    false => c.to_string(),
                })
                .collect();
            prop_assert_eq!(normal_path(&other), normal_path(&path), "{}", other);
        }
    }
}

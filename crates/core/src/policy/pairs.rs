//! Named values of a request: cookies and query parameters.
//!
//! Both are lists of pairs, and backends parse them differently. If two pairs have the same
//! name, some backends use the first and some the last. Some split at a comma or a
//! semicolon where others do not, and some treat `API_KEY`, `api.key` and `api_key[]` as
//! `api_key`. A pair that only some backends accept makes the request [`Lack::Ambiguous`].

use std::borrow::Cow;

use http::HeaderMap;
use http::header::COOKIE;
use percent_encoding::percent_decode;

use super::fields::{Lack, present};

/// The most cookies, or query parameters, that are read.
const MAX_PAIRS: usize = 1024;

/// The cookie with this name, in its [normal form](normal_cookie).
///
/// Several cookies with the name must have the same value.
pub(super) fn cookie<'r>(headers: &'r HeaderMap, name: &str) -> Result<Cow<'r, [u8]>, Lack> {
    let value = single(cookies(headers), b',', |pair| read_cookie(pair, name))?;
    normal_cookie(value)
}

/// The value of a cookie in the form that keys use: without quotes around it and with
/// decoded escapes. Many frameworks escape values, and treat `%41` and `A` as the same
/// value. A semicolon ends a value even inside of quotes (RFC 6265, section 4.1.1).
pub(super) fn normal_cookie(value: &[u8]) -> Result<Cow<'_, [u8]>, Lack> {
    let value = value.trim_ascii();
    let unquoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    let is_quoted = unquoted.is_some();
    let value = unquoted.unwrap_or(value);
    // Some backends decode backslashes in quotes, and some remove a single quote.
    if value.contains(&b'"') || is_quoted && value.contains(&b'\\') {
        return Err(Lack::Ambiguous);
    }
    present(percent_decode(value).into())
}

/// The query parameter with this name, in its [normal form](normal_parameter).
///
/// Several parameters with the name must have the same value.
pub(super) fn query<'r>(query: Option<&'r str>, name: &str) -> Result<Cow<'r, [u8]>, Lack> {
    form(query.unwrap_or_default().as_bytes(), name)
}

/// The parameter with this name in a form, which has the syntax of a query.
pub(super) fn form<'r>(form: &'r [u8], name: &str) -> Result<Cow<'r, [u8]>, Lack> {
    let name = normal_parameter(name.as_bytes());
    let pairs = form.split(|&byte| byte == b'&');
    let value = single(pairs, b';', |pair| Some(read_parameter(pair, &name)))?;
    if has_bad_escape(value) {
        return Err(Lack::Ambiguous);
    }
    present(normal_parameter(value))
}

/// The name or value of a query parameter in the form that keys use. A `+` is a space in
/// HTML forms (URL Standard, section 5.1) and a plus sign elsewhere (RFC 3986), so keys
/// treat the two as the same character.
pub(super) fn normal_parameter(text: &[u8]) -> Cow<'_, [u8]> {
    let decoded: Cow<'_, [u8]> = percent_decode(text).into();
    if decoded.contains(&b' ') {
        Cow::Owned(decoded.iter().map(|&byte| if byte == b' ' { b'+' } else { byte }).collect())
    } else {
        decoded
    }
}

/// Whether some backend takes this pair of a query for the parameter with this name.
pub(super) fn is_parameter(pair: &str, name: &str) -> bool {
    let wanted = normal_parameter(name.as_bytes());
    let mut parts = pair.split(';');
    parts.any(|part| read_parameter(part.as_bytes(), &wanted).0 != Relation::Other)
}

/// Whether some backend takes this pair of a cookie field for the cookie with this name.
pub(super) fn is_cookie(pair: &[u8], name: &str) -> bool {
    pair.split(|&byte| byte == b',').any(|part| {
        let written = part.split(|&byte| byte == b'=').next().unwrap_or_default();
        cookie_relation(written.trim_ascii(), name.as_bytes()) != Relation::Other
    })
}

/// The pairs of all lines of `Cookie`.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(COOKIE).iter();
    lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b';'))
}

/// How the name of a pair compares with `name`, and its value. None: it has no name.
fn read_cookie<'r>(pair: &'r [u8], name: &str) -> Option<(Relation, &'r [u8])> {
    let equals = pair.iter().position(|&byte| byte == b'=')?;
    let written = pair[..equals].trim_ascii();
    let value = &pair[equals + 1..];
    Some((cookie_relation(written, name.as_bytes()), value))
}

/// The pairs of a query.
fn parameters(query: Option<&str>) -> impl Iterator<Item = &[u8]> {
    query.unwrap_or_default().as_bytes().split(|&byte| byte == b'&')
}

/// How the name of a pair compares with `name`, which is in normal form, and its value.
fn read_parameter<'r>(pair: &'r [u8], name: &[u8]) -> (Relation, &'r [u8]) {
    let equals = pair.iter().position(|&byte| byte == b'=');
    let (written, value) = pair.split_at(equals.unwrap_or(pair.len()));
    let relation = relation(&normal_parameter(written), name);
    (relation, value.strip_prefix(b"=").unwrap_or(value))
}

/// What a backend may read as the value of one name.
#[derive(Clone, Debug)]
pub(crate) enum Reading<'r> {
    /// This value, in its normal form.
    Value(Cow<'r, [u8]>),
    /// No value: the request does not have the name.
    Absent,
    /// A value whose form backends treat differently.
    Unreadable,
}

/// Calls `see` with everything that backends may read as the cookie with this name.
pub(crate) fn cookie_readings<'r>(
    headers: &'r HeaderMap,
    name: &str,
    see: impl FnMut(Reading<'r>),
) {
    let normal = |value| match normal_cookie(value) {
        Ok(value) => Reading::Value(value),
        Err(Lack::Absent) => Reading::Value(Cow::Borrowed(&b""[..])),
        Err(_) => Reading::Unreadable,
    };
    readings(cookies(headers), b',', |pair| read_cookie(pair, name), normal, see);
}

/// Calls `see` with everything that backends may read as the query parameter with this name.
pub(crate) fn parameter_readings<'r>(
    query: Option<&'r str>,
    name: &str,
    see: impl FnMut(Reading<'r>),
) {
    let name = normal_parameter(name.as_bytes());
    let normal = |value| match has_bad_escape(value) {
        true => Reading::Unreadable,
        false => Reading::Value(normal_parameter(value)),
    };
    readings(parameters(query), b';', |pair| Some(read_parameter(pair, &name)), normal, see);
}

/// The readings of a name among `pairs`. A name that only some backends treat as the same may be
/// read or not.
fn readings<'r>(
    pairs: impl Iterator<Item = &'r [u8]>,
    separator: u8,
    read: impl Fn(&'r [u8]) -> Option<(Relation, &'r [u8])>,
    normal: impl Fn(&'r [u8]) -> Reading<'r>,
    mut see: impl FnMut(Reading<'r>),
) {
    let mut is_there = false;
    let all = each(pairs, separator, read, |found| {
        is_there |= found.is_certain();
        see(normal(found.value));
        if let Some(whole) = found.longer {
            see(normal(whole));
        }
        Ok(())
    });
    match all {
        Err(_) => see(Reading::Unreadable),
        Ok(()) if !is_there => see(Reading::Absent),
        Ok(()) => {}
    }
}

/// The common value of all `pairs` with the name.
fn single<'r>(
    pairs: impl Iterator<Item = &'r [u8]>,
    separator: u8,
    read: impl Fn(&'r [u8]) -> Option<(Relation, &'r [u8])>,
) -> Result<&'r [u8], Lack> {
    let mut common: Option<&[u8]> = None;
    each(pairs, separator, read, |found| {
        let is_clear = found.is_certain() && found.longer.is_none();
        if !is_clear || common.is_some_and(|known| known != found.value) {
            return Err(Lack::Ambiguous);
        }
        common = Some(found.value);
        Ok(())
    })?;
    common.ok_or(Lack::Absent)
}

/// A pair whose name is the wanted one for some backends.
struct Found<'r> {
    relation: Relation,
    value: &'r [u8],
    /// Whether it begins a pair. If not, only backends that separate pairs otherwise see it.
    is_first: bool,
    /// The longer value that backends see which do not separate here.
    longer: Option<&'r [u8]>,
}

impl Found<'_> {
    /// Whether every backend sees a value of the name.
    fn is_certain(&self) -> bool {
        self.is_first && self.relation == Relation::Same
    }
}

/// Calls `see` with all `pairs` that have the name. `read` compares the name of a pair with it, and
/// returns the value. Some backends also separate pairs by `separator`.
fn each<'r>(
    pairs: impl Iterator<Item = &'r [u8]>,
    separator: u8,
    read: impl Fn(&'r [u8]) -> Option<(Relation, &'r [u8])>,
    mut see: impl FnMut(Found<'r>) -> Result<(), Lack>,
) -> Result<(), Lack> {
    for (seen, pair) in pairs.enumerate() {
        if seen == MAX_PAIRS {
            return Err(Lack::Ambiguous);
        }
        for (index, part) in pair.split(|&byte| byte == separator).enumerate() {
            let Some((relation, value)) = read(part) else { continue };
            if relation == Relation::Other {
                continue;
            }
            let is_first = index == 0;
            let has_more = is_first && part.len() < pair.len();
            let longer = has_more.then(|| read(pair)).flatten().map(|(_, value)| value);
            see(Found { relation, value, is_first, longer })?;
        }
    }
    Ok(())
}

/// The result of a comparison of a pair's name with the wanted name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Same,
    /// Some backends treat the two names as the same: backends that ignore case, PHP, which
    /// replaces some characters by `_` and ends a name at NUL, and backends that treat `name[]` as a
    /// list.
    Alike,
    Other,
}

fn relation(written: &[u8], wanted: &[u8]) -> Relation {
    if written == wanted {
        return Relation::Same;
    }
    // PHP removes spaces before a name.
    let indented = written.iter().take_while(|byte| matches!(byte, b' ' | b'+')).count();
    let written = &written[indented..];
    // PHP ends a name at NUL (`php_register_variable_ex`).
    let written = written.split(|&byte| byte == 0).next().unwrap_or_default();
    let is_like = |(written, wanted): (&u8, &u8)| {
        written.eq_ignore_ascii_case(wanted)
            || *wanted == b'_' && matches!(written, b' ' | b'+' | b'.' | b'[')
    };
    let starts_alike = written.len() >= wanted.len() && written.iter().zip(wanted).all(is_like);
    match written.get(wanted.len()) {
        None | Some(b'[') if starts_alike => Relation::Alike,
        _ => Relation::Other,
    }
}

/// The same for the name of a cookie, which some backends decode (PHP before 8, Rack before 2.2.3).
fn cookie_relation(written: &[u8], wanted: &[u8]) -> Relation {
    match relation(written, wanted) {
        Relation::Other if written.contains(&b'%') => {
            let decoded: Cow<'_, [u8]> = percent_decode(written).into();
            match relation(&decoded, wanted) {
                Relation::Other => Relation::Other,
                Relation::Same | Relation::Alike => Relation::Alike,
            }
        }
        relation => relation,
    }
}

/// Whether a `%` is not part of an escape. Backends treat such a `%` differently.
fn has_bad_escape(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        match rest.get(at + 1..at + 3) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => rest = &rest[at + 3..],
            _ => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn cookies(lines: &[&str]) -> HeaderMap {
        let value = |line: &&str| HeaderValue::from_bytes(line.as_bytes()).unwrap();
        lines.iter().map(|line| (COOKIE, value(line))).collect()
    }

    fn of_cookies(lines: &[&str]) -> Result<Vec<u8>, Lack> {
        cookie(&cookies(lines), "sid").map(Cow::into_owned)
    }

    fn of_query(text: &str) -> Result<Vec<u8>, Lack> {
        query(Some(text), "a_key").map(Cow::into_owned)
    }

    #[test]
    fn all_forms_of_a_cookie_have_the_same_value() {
        let same = [
            &["sid=a"][..],
            &["x=1; sid=\"a\""],
            &["x=1", "y; sid = a "],
            &["sid=%61"],
            &["sid=a; x=2; sid=a"],
            &["sid=a", "sid=a"],
        ];
        for lines in same {
            assert_eq!(of_cookies(lines), Ok(b"a".to_vec()), "{lines:?}");
        }
        assert_eq!(of_cookies(&["sid=a=b"]), Ok(b"a=b".to_vec()));
        assert_eq!(of_cookies(&["sid=s%3Aab.c%2B"]), Ok(b"s:ab.c+".to_vec()));
        for lines in [&["xsid=a"][..], &["sid"], &["sid="], &["sid=\"\""], &["a=sid"], &[]] {
            assert_eq!(of_cookies(lines), Err(Lack::Absent), "{lines:?}");
        }
    }

    #[test]
    fn a_cookie_that_backends_read_differently_is_ambiguous() {
        let cases = [
            &["sid=a; sid=b"][..],
            &["sid=a", "sid=b"],
            &["sid=; sid=b"],
            &["sid=\"a"],
            &["sid=\"a\\162\""],
            &["SID=a"],
            &["sid=a; Sid=b"],
            &["x=1, sid=a"],
            &["sid=a,b"],
            &["sid[]=a"],
            &["%73id=a; sid=b"],
            &["s%69d=a"],
            &["%53ID=a"],
            &["sid%00=a"],
            &["sid=a; s%69d%00x=b"],
        ];
        for lines in cases {
            assert_eq!(of_cookies(lines), Err(Lack::Ambiguous), "{lines:?}");
        }
    }

    #[test]
    fn all_forms_of_a_query_parameter_have_the_same_value() {
        for text in ["a_key=x y", "a%5Fkey=x+y", "b=1&%61_key=x%20y", "a_key=x%2By&c&a_key=x%2By"] {
            assert_eq!(of_query(text), Ok(b"x+y".to_vec()), "{text}");
        }
        for text in [
            "",
            "a_key",
            "a_key=",
            "a-key=x",
            "xa_key=x",
            "a_keys=x",
            "b=a_key",
            "%00a_key=x",
            "a%00_key=x",
        ] {
            assert_eq!(of_query(text), Err(Lack::Absent), "{text}");
        }
        assert_eq!(query(None, "a"), Err(Lack::Absent));
        assert_eq!(query(Some("a.b=1&a_b=2"), "a.b").as_deref(), Ok(&b"1"[..]));
        assert_eq!(query(Some("a+b=1"), "a b").as_deref(), Ok(&b"1"[..]));
    }

    #[test]
    fn a_query_parameter_that_backends_read_differently_is_ambiguous() {
        let cases = [
            "a_key=x&a_key=y",
            "a_key=&a_key=y",
            "A_Key=x",
            "a.key=x",
            "a+key=x",
            "a%20key=x",
            "a%5bkey=x",
            "%20a_key=x",
            "a_key[]=x",
            "A_KEY[0]=x&a_key=x",
            "b=1;a_key=x",
            "a_key=x;b=1",
            "a_key=x%",
            "a_key=%u0041",
            "a_key%00=x",
            "a_key%00x=y&a_key=z",
            "a_key=z&+A.key%00[=x",
            "a_key[%00=x",
        ];
        for text in cases {
            assert_eq!(of_query(text), Err(Lack::Ambiguous), "{text}");
        }
    }

    #[test]
    fn too_many_pairs_are_ambiguous() {
        let of = |junk: usize| {
            let found = of_cookies(&[&format!("sid=a{}", ";x=1".repeat(junk))]);
            let text = format!("sid=a{}", "&x=1".repeat(junk));
            assert_eq!(found, query(Some(&text), "sid").map(Cow::into_owned));
            found
        };
        assert_eq!(of(MAX_PAIRS - 1), Ok(b"a".to_vec()));
        assert_eq!(of(MAX_PAIRS), Err(Lack::Ambiguous));
    }

    /// A backend that reads the cookie `sid`: the characters at which it splits, its
    /// comparison of names, the one of several cookies that it uses, and whether it decodes
    /// values.
    #[derive(Clone, Copy, Debug)]
    struct Backend {
        splits_at_commas: bool,
        ignores_case: bool,
        takes_last: bool,
        decodes: bool,
    }

    impl Backend {
        fn any() -> impl Iterator<Item = Self> {
            (0..16_u8).map(|bits| Self {
                splits_at_commas: bits & 1 > 0,
                ignores_case: bits & 2 > 0,
                takes_last: bits & 4 > 0,
                decodes: bits & 8 > 0,
            })
        }

        fn read(self, line: &str) -> Option<Vec<u8>> {
            let separators = if self.splits_at_commas { &[';', ','][..] } else { &[';'] };
            let mut found = line.split(separators).filter_map(|pair| {
                let (name, value) = pair.split_once('=')?;
                let is_same = match self.ignores_case {
                    true => name.trim().eq_ignore_ascii_case("sid"),
                    false => name.trim() == "sid",
                };
                let value = value.trim().trim_matches('"').as_bytes();
                let decoded = || percent_decode(value).collect();
                is_same.then(|| if self.decodes { decoded() } else { value.to_vec() })
            });
            let value = if self.takes_last { found.next_back() } else { found.next() };
            value.filter(|value| !value.is_empty())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// If a backend reads two requests as the same client, they have the same key, and
        /// both have one.
        #[test]
        fn what_a_backend_takes_for_one_client_is_never_two(
            lines in proptest::array::uniform2(proptest::collection::vec(
                "(sid|sid|sid|x|SID|Sid) ?= ?(a|%61|\"a\"|b||a,sid=b|a,x)",
                1..4,
            )),
        ) {
            let [one, other] = lines.map(|pairs| pairs.join("; "));
            let keys = [of_cookies(&[&one]), of_cookies(&[&other])];
            for backend in Backend::any() {
                let clients = [backend.read(&one), backend.read(&other)];
                let is_ambiguous = keys.contains(&Err(Lack::Ambiguous));
                if clients[0].is_some() && clients[0] == clients[1] && !is_ambiguous {
                    prop_assert_eq!(&keys[0], &keys[1], "{} | {} | {:?}", one, other, backend);
                    prop_assert!(keys[0].is_ok(), "{} | {:?}", one, backend);
                }
            }
        }
    }
}

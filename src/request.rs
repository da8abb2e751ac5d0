//! A request as the rules see it: borrowed, and the same whether it came over
//! HTTP, from another gateway's question, or out of a log.
//!
//! A view exists only of a request that means one thing. What a backend might
//! read otherwise than we do (two hosts, dot segments, a bad escape) is refused
//! here, before any rule has looked at it.

mod malformed;

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::{HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Method, Uri, Version};

pub use malformed::Malformed;

/// What rules may look at. Nothing in it is trusted: forwarding fields are
/// believed only by the rules that know the trusted proxies.
#[derive(Clone, Debug)]
pub struct RequestView<'a> {
    /// The method, as sent.
    pub method: &'a Method,
    /// The host asked for, in lower case and without port; empty if none was named.
    pub host: Cow<'a, str>,
    /// The path in the one form that rules compare, see [`normal_path`].
    pub path: Cow<'a, str>,
    /// What follows the first `?`, as sent.
    pub query: Option<&'a str>,
    /// All header fields.
    pub headers: &'a HeaderMap,
    /// The address of the other end of the connection, IPv4-mapped addresses unmapped.
    pub peer: IpAddr,
    /// Who the other end is, by the certificate that it has shown.
    pub tls_subject: Option<&'a str>,
}

/// Why a request means nothing, or more than one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ambiguity {
    /// RFC 9112, section 3.2: a request of HTTP/1.1 has exactly one Host. One of
    /// HTTP/2 may name its host as `:authority` instead (RFC 9113, section 8.3.1).
    #[error("the request has no Host field")]
    NoHost,
    /// RFC 9112, section 3.2.
    #[error("the request has more than one Host field")]
    ManyHosts,
    /// RFC 9112, section 3.2: the value must be `host [":" port]`.
    #[error("the Host field is not a host")]
    BadHost,
    /// RFC 9112, section 3.2.2: a target in absolute form names the host that Host names.
    #[error("the target names another host than the Host field")]
    TwoHosts,
    /// Neither `/path`, `http://host/path`, nor `*` with OPTIONS.
    #[error("the request's target is not one that a gateway serves")]
    BadTarget,
    /// RFC 3986, section 2.1: `%` and two hexadecimal digits.
    #[error("the path has a `%` that begins no escape")]
    BadEscape,
    /// Backends differ in what `/a/../b` and `/a/%2e%2e/b` are.
    #[error("the path has a segment `.` or `..`")]
    DotSegment,
    /// NUL and `\` mean different things to different backends.
    #[error("the path has a character that does not belong there")]
    BadCharacter,
    /// The values that a limit goes by: an API key, a token, a cookie.
    #[error(
        "the request carries a key or a plan that can be read in two ways: send it once, \
         and in one place"
    )]
    ManyKeys,
    /// RFC 9112, section 6.1: `chunked`, once, is the only coding that the
    /// gateway can undo. Backends differ in what `chunked, chunked` is.
    #[error("the request has a transfer coding other than `chunked`")]
    BadCoding,
}

impl<'a> RequestView<'a> {
    /// The view of a request that came over HTTP from `peer`.
    ///
    /// # Errors
    /// If the request means nothing, or more than one thing.
    pub fn of(parts: &'a Parts, peer: IpAddr) -> Result<Self, Ambiguity> {
        check_coding(&parts.headers)?;
        Ok(Self {
            method: &parts.method,
            host: host_of(parts)?,
            path: path_of(&parts.method, &parts.uri)?,
            query: parts.uri.query(),
            headers: &parts.headers,
            peer: peer.to_canonical(),
            tls_subject: None,
        })
    }
}

fn check_coding(headers: &HeaderMap) -> Result<(), Ambiguity> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(only), None) if only.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Ambiguity::BadCoding),
    }
}

fn host_of(parts: &Parts) -> Result<Cow<'_, str>, Ambiguity> {
    let mut fields = parts.headers.get_all(HOST).iter();
    let named = match (fields.next(), fields.next()) {
        (_, Some(_)) => return Err(Ambiguity::ManyHosts),
        (Some(host), None) => host_name(host.to_str().map_err(|_| Ambiguity::BadHost)?)?,
        (None, None) if parts.version <= Version::HTTP_10 => "",
        (None, None) if parts.version >= Version::HTTP_2 && parts.uri.authority().is_some() => "",
        (None, None) => return Err(Ambiguity::NoHost),
    };
    let Some(target) = parts.uri.authority() else {
        return Ok(lower_case(named));
    };
    if host_name(target.as_str()).is_err() {
        return Err(Ambiguity::BadTarget);
    }
    let same = parts
        .headers
        .get(HOST)
        .is_none_or(|host| host.as_bytes().eq_ignore_ascii_case(target.as_str().as_bytes()));
    if same { Ok(lower_case(target.host())) } else { Err(Ambiguity::TwoHosts) }
}

/// A host as rules compare it: as a Host field names it, without port, in lower case.
///
/// # Errors
/// If it is no host, or has a port.
pub fn normal_host(host: &str) -> Result<Cow<'_, str>, Ambiguity> {
    match host_name(host) {
        Ok(named) if named == host && !host.is_empty() => Ok(lower_case(host)),
        Ok(_) => Err(Ambiguity::BadHost),
        Err(error) => Err(error),
    }
}

/// The host in the value of a Host field, which may be empty (RFC 9110, section 7.2).
fn host_name(text: &str) -> Result<&str, Ambiguity> {
    if text.is_empty() {
        return Ok(text);
    }
    let (host, port) = match text.rfind(':') {
        Some(colon) if !text.ends_with(']') => (&text[..colon], &text[colon + 1..]),
        _ => (text, ""),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte);
    let is_literal = |host: &str| {
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).is_some_and(|address| {
            address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.')
        })
    };
    let good = !host.is_empty()
        && (host.bytes().all(is_name) || is_literal(host))
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse::<Authority>().is_ok();
    if good { Ok(host) } else { Err(Ambiguity::BadHost) }
}

fn lower_case(host: &str) -> Cow<'_, str> {
    if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    }
}

fn path_of<'a>(method: &Method, uri: &'a Uri) -> Result<Cow<'a, str>, Ambiguity> {
    if uri.scheme_str().is_some_and(|scheme| !matches!(scheme, "http" | "https")) {
        return Err(Ambiguity::BadTarget);
    }
    match uri.path() {
        path if path.starts_with('/') => normal_path(path),
        "*" if method == Method::OPTIONS => Ok(Cow::Borrowed("*")),
        // Without a scheme it is a target of CONNECT, and of nothing else.
        "" if uri.scheme().is_some() => Ok(Cow::Borrowed("/")),
        _ => Err(Ambiguity::BadTarget),
    }
}

/// A path in the one form that rules compare: escapes of unreserved characters
/// decoded and all others in capitals (RFC 3986, section 6.2.2), several
/// slashes in a row merged, because that is what many backends do.
///
/// Only the rules see this form; the path is forwarded as it came.
///
/// # Errors
/// If the path could mean different things to different backends.
pub fn normal_path(path: &str) -> Result<Cow<'_, str>, Ambiguity> {
    let bytes = path.as_bytes();
    let plain = !bytes.iter().any(|byte| matches!(byte, b'%' | b'\\' | 0))
        && !bytes.windows(2).any(|pair| pair == b"//" || pair == b"/.");
    if plain {
        return Ok(Cow::Borrowed(path));
    }
    let mut normal = String::with_capacity(path.len());
    let mut rest = path.chars();
    while let Some(character) = rest.next() {
        match character {
            '%' => unescape(&mut rest, &mut normal)?,
            '\\' | '\0' => return Err(Ambiguity::BadCharacter),
            '/' if normal.ends_with('/') => {}
            _ => normal.push(character),
        }
    }
    if has_dot_segment(&normal) {
        return Err(Ambiguity::DotSegment);
    }
    Ok(Cow::Owned(normal))
}

/// Whether a segment of a path in normal form is `.` or `..` for any backend. Some
/// take an escaped slash for a slash, and some cut off what follows a semicolon
/// before they look at the dots.
fn has_dot_segment(normal: &str) -> bool {
    let segments = normal.split('/').flat_map(|segment| segment.split("%2F"));
    let mut names =
        segments.map(|segment| match segment.find(';').or_else(|| segment.find("%3B")) {
            Some(end) => &segment[..end],
            None => segment,
        });
    names.any(|name| name == "." || name == "..")
}

/// Reads the two digits after a `%`, and writes what they stand for.
fn unescape(rest: &mut std::str::Chars<'_>, normal: &mut String) -> Result<(), Ambiguity> {
    let mut digit = || rest.next().and_then(|character| character.to_digit(16));
    let (Some(high), Some(low)) = (digit(), digit()) else {
        return Err(Ambiguity::BadEscape);
    };
    match char::from_u32(high * 16 + low) {
        Some('\0' | '\\') => Err(Ambiguity::BadCharacter),
        Some(character)
            if character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_' | '~') =>
        {
            normal.push(character);
            Ok(())
        }
        _ => {
            let hex = |value: u32| char::from_digit(value, 16).map(|c| c.to_ascii_uppercase());
            normal.push('%');
            normal.extend([hex(high), hex(low)].into_iter().flatten());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};
    use proptest::prelude::*;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn request(target: &str, hosts: &[&str]) -> Parts {
        let mut request = Request::builder().uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).expect("a request that http can hold").into_parts().0
    }

    #[test]
    fn a_path_has_one_form() {
        let cases = [
            ("/v1/orders", "/v1/orders"),
            ("/v1/%6Frders", "/v1/orders"),
            ("//v1///orders/", "/v1/orders/"),
            ("/a%2fb", "/a%2Fb"),
            ("/%7euser", "/~user"),
            ("/a%20b", "/a%20b"),
            ("/.well-known/x", "/.well-known/x"),
            ("/...", "/..."),
            ("/a..;x/.b%2F..c", "/a..;x/.b%2F..c"),
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
            ("/a%", Ambiguity::BadEscape),
            ("/a%2", Ambiguity::BadEscape),
            ("/a%zz", Ambiguity::BadEscape),
            ("/a%00", Ambiguity::BadCharacter),
            ("/a%5cb", Ambiguity::BadCharacter),
            ("/a\\b", Ambiguity::BadCharacter),
        ];
        for (path, ambiguity) in cases {
            assert_eq!(normal_path(path), Err(ambiguity), "{path}");
        }
    }

    #[test]
    fn there_is_one_host() {
        let host = |target, hosts: &[&str]| {
            RequestView::of(&request(target, hosts), PEER).map(|view| view.host.into_owned())
        };
        assert_eq!(host("/", &["API.example.com:8080"]), Ok("api.example.com".into()));
        assert_eq!(host("/", &["[::1]:80"]), Ok("[::1]".into()));
        assert_eq!(host("/", &[""]), Ok(String::new()));
        assert_eq!(host("http://a.example/x", &["A.example"]), Ok("a.example".into()));
        assert_eq!(host("/", &[]), Err(Ambiguity::NoHost));
        assert_eq!(host("/", &["a", "a"]), Err(Ambiguity::ManyHosts));
        assert_eq!(host("http://a.example/x", &["b.example"]), Err(Ambiguity::TwoHosts));
        assert_eq!(host("http://u:p@a.example/", &["u:p@a.example"]), Err(Ambiguity::BadHost));
        for bad in ["a b", "a/b", "a:b", "a@b", "[::1", "a:80:80", ":80", "a\\b", "\"a\""] {
            assert_eq!(host("/", &[bad]), Err(Ambiguity::BadHost), "{bad}");
        }
    }

    #[test]
    fn a_request_of_http_2_names_its_host_in_either_way() {
        let host = |target, hosts: &[&str]| {
            let mut parts = request(target, hosts);
            parts.version = Version::HTTP_2;
            RequestView::of(&parts, PEER).map(|view| view.host.into_owned())
        };
        assert_eq!(host("https://a.example:443/", &[]), Ok("a.example".into()));
        assert_eq!(host("/", &["a.example"]), Ok("a.example".into()));
        assert_eq!(host("/", &[]), Err(Ambiguity::NoHost));
        for bad in ["https://a.example:x/", "https://u:p@a.example/"] {
            assert_eq!(host(bad, &[]), Err(Ambiguity::BadTarget), "{bad}");
        }
    }

    #[test]
    fn an_asterisk_is_for_options_only() {
        let mut parts = request("*", &["a"]);
        assert_eq!(RequestView::of(&parts, PEER).map(|_| ()), Err(Ambiguity::BadTarget));
        parts.method = Method::OPTIONS;
        assert!(RequestView::of(&parts, PEER).is_ok_and(|view| view.path == "*"));
    }

    #[test]
    fn a_target_in_absolute_form_is_of_the_web() {
        let path = |target| {
            let parts = request(target, &["a"]);
            RequestView::of(&parts, PEER).map(|view| view.path.into_owned())
        };
        assert_eq!(path("http://a"), Ok("/".into()));
        assert_eq!(path("https://a/x"), Ok("/x".into()));
        for bad in ["a", "ftp://a/x"] {
            assert_eq!(path(bad), Err(Ambiguity::BadTarget), "{bad}");
        }
    }

    #[test]
    fn the_only_coding_is_chunked() {
        let judged = |codings: &[&str]| {
            let mut parts = request("/", &["a"]);
            for coding in codings {
                let coding = HeaderValue::from_str(coding).expect("a value");
                parts.headers.append(TRANSFER_ENCODING, coding);
            }
            RequestView::of(&parts, PEER).map(|_| ())
        };
        assert_eq!(judged(&[]), Ok(()));
        assert_eq!(judged(&["Chunked"]), Ok(()));
        for bad in [&["gzip, chunked"][..], &["chunked, chunked"], &["chunked", "chunked"], &[""]] {
            assert_eq!(judged(bad), Err(Ambiguity::BadCoding), "{bad:?}");
        }
    }

    #[test]
    fn a_mapped_peer_is_the_address_it_maps() {
        let parts = request("/", &["a"]);
        let peer = "::ffff:192.0.2.1".parse().expect("an address");
        let view = RequestView::of(&parts, peer).expect("a good request");
        assert_eq!(view.peer.to_string(), "192.0.2.1");
    }

    proptest! {
        #[test]
        fn the_normal_form_of_a_normal_form_is_itself(path in "/[a-z%./~0-9A-F\\\\]{0,24}") {
            if let Ok(once) = normal_path(&path) {
                prop_assert_eq!(normal_path(&once), Ok(once.clone()));
            }
        }
    }
}

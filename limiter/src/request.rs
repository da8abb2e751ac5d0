//! A request as the rules see it: borrowed, and the same whether it came over
//! HTTP, from another gateway's question, or out of a log.
//!
//! A view exists only of a request that means one thing. What a backend might
//! read otherwise than we do (two hosts, dot segments, a bad escape) is refused
//! here, before any rule has looked at it.

mod disguise;
mod host;
mod malformed;
mod params;
mod path;
mod path_match;
mod pattern;

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};

pub use disguise::{folded_name, is_disguised, is_plain_name};
use host::host_of_field;
pub use host::normal_host;
pub use malformed::Malformed;
pub use params::Params;
pub use path::{is_path_character, loose_path, normal_path, slashed_path, without_parameters};
pub use path_match::PathMatch;
pub use pattern::{
    MAX_SEGMENTS, PathPattern, PathPatternError, Segment, is_parameter_name, segments,
};

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
    /// Whether content follows the fields.
    pub has_content: bool,
    /// Whether the peer may speak for its clients, if its address is trusted. It may
    /// not where a balancer has passed a connection on and has not said whose it is.
    pub may_forward: bool,
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
    /// `/a/;x/b` is `/a/b` for some backends.
    #[error("the path has a segment that is empty but for a parameter")]
    EmptySegment,
    /// Control characters and `\` mean different things to different backends.
    #[error("the path has a character that does not belong there")]
    BadCharacter,
    /// An escaped slash in the path, or a field that replaces the method, leads to
    /// another route if the backend heeds it.
    #[error("the request has a path or a method that can be read in two ways")]
    TwoRoutes,
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
            has_content: has_content(&parts.headers),
            may_forward: true,
            tls_subject: None,
        })
    }
}

/// Fields by which some backends take a request for one of another method.
const METHOD_OVERRIDES: [HeaderName; 3] = [
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-method-override"),
];

impl RequestView<'_> {
    /// The method that a field of the request gives it for backends that heed such
    /// fields. They do so for methods that may change something, and write the name
    /// in capitals.
    ///
    /// # Errors
    /// If the field has no method, or several fields name different ones.
    pub fn overriding_method(&self) -> Result<Option<Method>, Ambiguity> {
        if matches!(*self.method, Method::GET | Method::HEAD) {
            return Ok(None);
        }
        let mut overriding = None;
        for value in METHOD_OVERRIDES.iter().flat_map(|name| self.headers.get_all(name)) {
            let method = Method::from_bytes(&value.as_bytes().to_ascii_uppercase());
            let method = method.map_err(|_| Ambiguity::TwoRoutes)?;
            if overriding.replace(method.clone()).is_some_and(|known| known != method) {
                return Err(Ambiguity::TwoRoutes);
            }
        }
        Ok(overriding)
    }
}

/// Whether fields announce content, which over HTTP/2 nothing has to announce.
fn has_content(headers: &HeaderMap) -> bool {
    let is_empty = |length: &HeaderValue| length.as_bytes() == b"0";
    headers.contains_key(TRANSFER_ENCODING)
        || headers.get(CONTENT_LENGTH).is_some_and(|length| !is_empty(length))
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
        (Some(host), None) => host_of_field(host.to_str().map_err(|_| Ambiguity::BadHost)?)?,
        (None, None) if parts.version <= Version::HTTP_10 => Cow::Borrowed(""),
        (None, None) if parts.version >= Version::HTTP_2 && parts.uri.authority().is_some() => {
            Cow::Borrowed("")
        }
        (None, None) => return Err(Ambiguity::NoHost),
    };
    let Some(target) = parts.uri.authority() else {
        return Ok(named);
    };
    let host = host_of_field(target.as_str()).map_err(|_| Ambiguity::BadTarget)?;
    let is_same = parts
        .headers
        .get(HOST)
        .is_none_or(|host| host.as_bytes().eq_ignore_ascii_case(target.as_str().as_bytes()));
    if is_same { Ok(host) } else { Err(Ambiguity::TwoHosts) }
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

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

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
        assert_eq!(host("/", &["a@b"]), Err(Ambiguity::BadHost));
        assert_eq!(host("http://a.example./x", &["A.example."]), Ok("a.example".into()));
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
}

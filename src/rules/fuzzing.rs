//! Fuzz targets of this layer: which client and which route a request has.

mod tokens;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};

pub use self::tokens::jwt;
use super::cidr::CidrSet;
use super::client_ip::client_ip;
use super::router::{Reading, Router};
use super::{
    ApiKeySettings, ClientSettings, ForwardedHeader, HostPattern, KeyExpr, KeyFor, MissingKey,
    PathMatch, Policy, Route, Rules, Segment, UserSource, path,
};
use crate::algorithm::{Algorithm, Quota, SlidingWindow};
use crate::digest::{Secret, SharedSecret};
use crate::message::fuzzing::fields;
use crate::message::{Forwarding, Via};
use crate::request::{RequestView, loose_path, normal_host, normal_path, without_parameters};
use crate::time::{Span, Timestamp};

const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const STRANGER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fn client(forwarded_header: ForwardedHeader) -> ClientSettings {
    ClientSettings {
        trusted_proxies: vec!["10.0.0.0/8".parse().expect("a network")],
        forwarded_header,
        ipv4_prefix: 32,
        ipv6_prefix: 64,
        api_key: ApiKeySettings {
            headers: vec!["x-api-key".parse().expect("a name")],
            bearer: true,
            query: Some("api_key".into()),
        },
        user: Some(UserSource::Header("x-user".parse().expect("a name"))),
        geo: vec![],
    }
}

fn route(hosts: Vec<HostPattern>, path: path::PathPattern) -> Route {
    let (methods, headers, policies) = (Vec::new(), Vec::new(), Vec::new());
    let path_match = PathMatch::default();
    Route { name: "r".into(), hosts, path, path_match, methods, headers, policies, affinity: None }
}

fn view<'a>(path: &'a str, query: Option<&'a str>, headers: &'a HeaderMap) -> RequestView<'a> {
    RequestView {
        method: &Method::GET,
        host: Cow::Borrowed("a.test"),
        path: Cow::Borrowed(path),
        query,
        headers,
        peer: STRANGER,
        has_content: false,
        may_forward: true,
        tls_subject: None,
    }
}

/// One of each kind, and several together.
fn every_key() -> Vec<KeyExpr> {
    let words = [
        "ip",
        "api_key",
        "user",
        "cookie:sid",
        "header:x-tenant",
        "query:key",
        "param:tenant",
        "path",
        "method",
        "host",
        "route",
    ];
    let mut keys: Vec<KeyExpr> = words.map(|word| word.parse().expect("a key")).into();
    let several = [KeyExpr::First(keys[1..6].to_vec()), KeyExpr::All(keys[3..6].to_vec())];
    keys.extend(several);
    keys
}

/// What a request is counted by: its cookies, its query, its API key, its token.
pub fn keys(input: &[u8]) {
    let Some((&flags, rest)) = input.split_first() else { return };
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let target = [b"/t/acme?", &rest[..end]].concat();
    let Ok(uri) = Uri::try_from(&target[..]) else { return };
    let mut headers = fields(&rest[end..]);
    static KEYS: LazyLock<Vec<KeyExpr>> = LazyLock::new(every_key);
    static RULES: LazyLock<Rules> = LazyLock::new(|| {
        let secret = Arc::new(SharedSecret::new(Secret::from_bytes([3; 16])));
        let routes = vec![route(Vec::new(), "/t/{tenant}".parse().expect("a path"))];
        Rules::new(routes, client(ForwardedHeader::XForwardedFor), secret)
    });
    let find = |headers: &HeaderMap, missing_key| {
        let peer = if flags & 1 == 1 { PROXY } else { STRANGER };
        let request = RequestView { peer, ..view("/t/acme", uri.query(), headers) };
        let matched = RULES.select(&request).expect("the route matches");
        let subject = RULES.subject(&request, matched, Timestamp::default());
        let key = |key: &KeyExpr| {
            let quota = Quota::new(100, Span::SECOND).expect("a quota");
            let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(quota));
            let policy = Policy { missing_key, ..Policy::new("p", key.clone(), algorithm) };
            subject.key(&policy)
        };
        KEYS.iter().map(key).collect::<Vec<_>>()
    };
    let denying = find(&headers, MissingKey::Deny);
    let counting = find(&headers, MissingKey::Ip);
    for (denied, counted) in denying.iter().zip(&counting) {
        assert!(!matches!(counted, KeyFor::Denied), "what is counted by address is not denied");
        let is_ambiguous = |key: &KeyFor| matches!(key, KeyFor::Ambiguous);
        assert_eq!(is_ambiguous(denied), is_ambiguous(counted), "ambiguous is not missing");
        if let KeyFor::Key(_) = denied {
            assert_eq!(denied, counted, "a key depends on what is done without one");
        }
    }
    headers.append("x-unrelated", HeaderValue::from_static("1"));
    assert_eq!(find(&headers, MissingKey::Deny), denying, "another field changes a key");
}

/// What proxies say of a client, and what backends are told of it.
pub fn forwarding(input: &[u8]) {
    let (mut head, ()) = Request::new(()).into_parts();
    head.headers = fields(input);
    // Others are refused before anything is forwarded.
    if RequestView::of(&head, PROXY).is_err() {
        return;
    }
    let headers = head.headers;
    let trusted = CidrSet::new(&client(ForwardedHeader::XForwardedFor).trusted_proxies);
    let find = |headers: &HeaderMap, peer, header: &ForwardedHeader| {
        client_ip(&RequestView { peer, ..view("/", None, headers) }, &trusted, header)
    };
    let own: IpAddr = [198, 51, 100, 1].into();
    for (header, name, element) in [
        (ForwardedHeader::XForwardedFor, "x-forwarded-for", "198.51.100.1"),
        (ForwardedHeader::Forwarded, "forwarded", "for=198.51.100.1"),
    ] {
        assert_eq!(find(&headers, STRANGER, &header), STRANGER, "a stranger is believed");
        find(&headers, PROXY, &header);
        let mut more = headers.clone();
        let last = more.get_all(name).iter().next_back().cloned();
        let last = last.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
        let line = [last, b", ", element.as_bytes()].concat();
        more.append(name, HeaderValue::from_bytes(&line).expect("made of values"));
        assert_eq!(find(&more, PROXY, &header), own, "what stands to the left changes the client");
    }
    let peer = (own, 4711).into();
    let forwarding = Forwarding::new(peer, ([10, 0, 0, 9], 443).into(), true);
    for is_trusted in [false, true] {
        let mut told = headers.clone();
        forwarding.write(&mut told, is_trusted, true);
        Via::write(&mut told, Version::HTTP_11);
        let mut lines = told.get_all("x-forwarded-for").iter();
        assert_eq!(lines.next_back().map(HeaderValue::as_bytes), Some(&b"198.51.100.1"[..]));
        assert!(is_trusted || lines.next().is_none(), "a stranger's word is passed on");
        assert_eq!(find(&told, PROXY, &ForwardedHeader::XForwardedFor), own);
        assert_eq!(find(&told, PROXY, &ForwardedHeader::Forwarded), own);
    }
}

/// Routes by path: patterns, a line each, and the path behind them.
pub fn paths(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (patterns, path) = text.rsplit_once('\n').unwrap_or(("", text));
    let Ok(normal) = normal_path(path) else { return };
    assert_eq!(normal_path(&normal).as_ref(), Ok(&normal), "the normal form is another one");
    if !path.starts_with('/') {
        return;
    }
    assert!(!normal.contains("//") && !normal.split('/').any(|it| matches!(it, "." | "..")));
    assert_eq!(normal_path(&escaped(path)).as_ref(), Ok(&normal), "escapes make a difference");
    let patterns = patterns.split('\n').take(8).filter_map(|pattern| pattern.parse().ok());
    let routes: Vec<Route> = patterns.map(|pattern| route(Vec::new(), pattern)).collect();
    for route in &routes {
        assert!(route.covers(route), "a route covers itself");
    }
    let headers = HeaderMap::new();
    let request = view(&normal, None, &headers);
    let first = routes.iter().position(|route| matches(route, &request));
    let router = Router::new(&routes);
    assert_eq!(selected(&router, &routes, &request), first, "another route is first");
    for spelling in spellings(&normal) {
        let request = view(&spelling, None, &headers);
        assert_eq!(selected(&router, &routes, &request), first, "{spelling} has another route");
    }
    if let Some(first) = first {
        let later = &routes[first];
        assert!(!routes[..first].iter().any(|earlier| earlier.covers(later)));
        let params = super::Params::new(later, &normal);
        assert_eq!(params.iter().count(), later.path.param_names().count());
        assert!(params.iter().all(|(_, value)| !value.is_empty() && !value.contains(['/', ';'])));
    }
}

fn selected(router: &Router, routes: &[Route], request: &RequestView<'_>) -> Option<usize> {
    router.select(routes, &Reading { request, path: &request.path, method: request.method })
}

/// Other spellings, in normal form, of a path that some backend takes for the same.
fn spellings(normal: &str) -> Vec<String> {
    if normal == "/" || normal == "*" {
        return Vec::new();
    }
    let loose = loose_path(normal);
    // A path in upper case has the same escapes.
    let whole = normal.trim_end_matches('/');
    let parameter = if whole.is_empty() { String::new() } else { format!("{whole};a=b") };
    vec![format!("{loose}/"), loose.to_ascii_uppercase(), parameter]
        .into_iter()
        .filter(|spelling| !spelling.is_empty())
        .collect()
}

/// `path` with every other character escaped that is no slash.
fn escaped(path: &str) -> String {
    let mut escaped = String::new();
    // The two digits behind a `%` are part of an escape.
    let (mut digits, mut is_second) = (0, false);
    for character in path.chars() {
        is_second = !is_second;
        if !"/%".contains(character) && digits == 0 && is_second {
            for byte in character.to_string().bytes() {
                escaped.push_str(&format!("%{byte:02x}"));
            }
        } else {
            escaped.push(character);
        }
        digits = if character == '%' { 2 } else { u8::saturating_sub(digits, 1) };
    }
    escaped
}

/// The host of a request, and patterns of hosts.
pub fn hosts(input: &[u8]) {
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let (Some(host), target) = (lines.next(), lines.next().unwrap_or(b"/")) else { return };
    let pattern = lines.next().unwrap_or_default();
    let (Ok(value), Ok(uri)) = (HeaderValue::from_bytes(host), Uri::try_from(target)) else {
        return;
    };
    let (mut head, ()) = Request::new(()).into_parts();
    head.uri = uri;
    head.headers.insert(HOST, value);
    let pattern = std::str::from_utf8(pattern).ok().and_then(|it| it.parse::<HostPattern>().ok());
    for version in [Version::HTTP_11, Version::HTTP_2] {
        head.version = version;
        let Ok(request) = RequestView::of(&head, STRANGER) else { continue };
        let host = &*request.host;
        assert!(!host.contains(['@', '/', '\\', '"', ' ']) && !host.contains(char::is_uppercase));
        assert!(host.is_empty() || host.starts_with('[') || !host.contains(':'), "it has a port");
        if !host.is_empty() {
            assert_eq!(normal_host(host).as_deref(), Ok(host), "the normal form is another one");
        }
        if let Some(pattern) = &pattern {
            let routes = [route(vec![pattern.clone()], "/*".parse().expect("a path"))];
            let expected = matches(&routes[0], &request).then_some(0);
            assert_eq!(selected(&Router::new(&routes), &routes, &request), expected, "{host}");
        }
    }
}

/// What the documentation of routes says, word by word.
pub(super) fn matches(route: &Route, request: &RequestView<'_>) -> bool {
    let host = route.hosts.is_empty()
        || route.hosts.iter().any(|pattern| match pattern {
            HostPattern::Exact(name) => *request.host == **name,
            HostPattern::Below(name) => request.host.ends_with(&format!(".{name}")),
        });
    let method = route.methods.is_empty() || route.methods.contains(request.method);
    let headers = route
        .headers
        .iter()
        .all(|(name, value)| request.headers.get_all(name).iter().any(|line| line == value));
    let how = route.path_match;
    let compared = |text: &str| {
        let text = if how.exact_parameters { text } else { without_parameters(text) };
        if how.exact_case { text.to_owned() } else { text.to_ascii_lowercase() }
    };
    let mut segments: Vec<_> = path::segments(&request.path).map(compared).collect();
    let mut wanted = &*route.path.segments;
    if !how.exact_trailing_slash {
        segments.pop_if(|last| last.is_empty());
        wanted = &wanted[..wanted.len() - usize::from(route.path.ends_in_slash())];
    }
    let is_path = request.path.starts_with('/');
    let length = is_path && segments.len() == wanted.len()
        || route.path.tail && segments.len() >= wanted.len();
    let same = wanted.iter().zip(&segments).all(|(pattern, segment)| match pattern {
        Segment::Literal(text) => compared(text) == **segment,
        Segment::Param(_) => !without_parameters(segment).is_empty(),
        Segment::Prefix(start) => segment.starts_with(&compared(start)),
    });
    host && method && headers && length && same
}

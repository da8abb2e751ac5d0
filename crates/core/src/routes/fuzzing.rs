//! Fuzz targets for the selection of a request's route.

use std::net::IpAddr;

use crate::request::{
    Params, PathPattern, RequestView, Segment, loose_path, normal_host, normal_path, segments,
    without_parameters,
};
use http::header::{COOKIE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, Version};

use super::part::{Met, Part, PartMatch, Wanted};
use super::reading::Reading;
use super::router::Router;
use super::{HostPattern, Route};

const STRANGER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fn route(hosts: Vec<HostPattern>, path: PathPattern) -> Route {
    Route { hosts, path, ..Route::for_all(Vec::new()) }
}

/// Routes by path: one pattern on each line, and then the path.
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
    // The configuration refuses patterns with path parameters if the route ignores these.
    let patterns = patterns.filter(|pattern: &PathPattern| !pattern.has_parameters());
    let routes: Vec<Route> = patterns.map(|pattern| route(Vec::new(), pattern)).collect();
    for route in &routes {
        assert!(route.covers(route), "a route covers itself");
    }
    let headers = HeaderMap::new();
    let request = RequestView::sample("a.test", &normal, &headers);
    let first = routes.iter().position(|route| met(route, &request) != Met::No);
    let router = Router::new(&routes);
    assert_eq!(selected(&router, &routes, &request), first, "another route is first");
    for spelling in spellings(&normal) {
        let request = RequestView::sample("a.test", &spelling, &headers);
        assert_eq!(selected(&router, &routes, &request), first, "{spelling} has another route");
    }
    if let Some(first) = first {
        let later = &routes[first];
        assert!(!routes[..first].iter().any(|earlier| earlier.covers(later)));
        let params = Params::new(&later.path, later.path_match, &normal);
        assert_eq!(params.iter().count(), later.path.param_names().count());
        assert!(params.iter().all(|(_, value)| !value.is_empty() && !value.contains(['/', ';'])));
    }
}

fn selected(router: &Router, routes: &[Route], request: &RequestView<'_>) -> Option<usize> {
    let reading = Reading { request, path: request.path(), method: request.method() };
    router.select(routes, &reading).map(|selected| selected.index)
}

/// Other spellings, in normal form, that some backend treats as the same path.
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

/// `path` with every other character escaped, except slashes.
fn escaped(path: &str) -> String {
    let mut escaped = String::new();
    // The two digits after a `%` are part of an escape.
    let mut digits = 0;
    let mut is_second = false;
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

/// The host of a request, its target, a pattern of hosts, and conditions on parts of it.
pub fn hosts(input: &[u8]) {
    let mut lines = input.splitn(4, |byte| *byte == b'\n');
    let (Some(host), target) = (lines.next(), lines.next().unwrap_or(b"/")) else { return };
    let pattern = lines.next().unwrap_or_default();
    lines.next().into_iter().for_each(parts);
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
        let host = request.host();
        assert!(!host.contains(['@', '/', '\\', '"', ' ']) && !host.contains(char::is_uppercase));
        assert!(host.is_empty() || host.starts_with('[') || !host.contains(':'), "it has a port");
        if !host.is_empty() {
            assert_eq!(normal_host(host).as_deref(), Ok(host), "the normal form is another one");
        }
        if let Some(pattern) = &pattern {
            let routes = [route(vec![pattern.clone()], "/*".parse().expect("a path"))];
            let expected = (met(&routes[0], &request) == Met::Yes).then_some(0);
            assert_eq!(selected(&Router::new(&routes), &routes, &request), expected, "{host}");
        }
    }
}

/// Conditions on one header field, parameter or cookie. The first line names the kind. Conditions
/// follow, one on each line, such as `=a`, `^a`, `|a|b`, `+` or `-`; then an empty line, and the
/// values: the lines of a field or of `Cookie`, or the query.
fn parts(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.split('\n');
    let kind = lines.next().unwrap_or_default();
    let wanted = lines.by_ref().take_while(|line| !line.is_empty()).take(4);
    let wanted: Vec<Wanted> = wanted.filter_map(wanted_of).collect();
    let values: Vec<HeaderValue> = lines.filter_map(|line| line.parse().ok()).take(8).collect();
    let name = if kind == "cookie" { COOKIE } else { HeaderName::from_static("x-mode") };
    let headers: HeaderMap = values.iter().map(|value| (name.clone(), value.clone())).collect();
    let query = values.first().and_then(|value| value.to_str().ok());
    let request = RequestView::sample("a.test", "/", &headers);
    let request = if kind == "query" { request.with_query(query) } else { request };
    let part = match kind {
        "cookie" => Part::Cookie("mode".into()),
        "query" => Part::Query("mode".into()),
        _ => Part::Header(name),
    };
    let of = |wanted| PartMatch { part: part.clone(), wanted };
    let all: Vec<PartMatch> = wanted.into_iter().map(of).collect();
    let route = |part: &PartMatch| Route { parts: vec![part.clone()], ..Route::for_all(vec![]) };
    let routes: Vec<Route> = all.iter().map(route).collect();
    let first = all.iter().position(|part| part.met(&request) != Met::No);
    assert_eq!(selected(&Router::new(&routes), &routes, &request), first, "another one is first");
    for (mine, later) in all.iter().flat_map(|mine| all.iter().map(move |later| (mine, later))) {
        let covers = route(mine).covers(&route(later));
        // A route that never matches must not be reached through a request in doubt either.
        let is_reached = mine.met(&request) == Met::No && later.met(&request) != Met::No;
        assert!(!covers || !is_reached, "a covered route is reached");
    }
    let [there, absent] = [true, false].map(|wanted| of(Wanted::Present(wanted)).met(&request));
    let is_opposite = match there {
        Met::Yes => absent == Met::No,
        Met::No => absent == Met::Yes,
        Met::Unclear => absent == Met::Unclear,
    };
    assert!(is_opposite, "it is neither there nor absent");
}

fn wanted_of(line: &str) -> Option<Wanted> {
    let (form, text) = line.split_at_checked(1)?;
    Some(match form {
        "=" => Wanted::Equal(text.as_bytes().into()),
        "^" => Wanted::Prefix(text.as_bytes().into()),
        "|" => Wanted::Any(text.split('|').map(|it| it.as_bytes().into()).collect()),
        "+" => Wanted::Present(true),
        "-" => Wanted::Present(false),
        _ => return None,
    })
}

/// Whether a route matches for every backend.
#[cfg(test)]
pub(super) fn matches(route: &Route, request: &RequestView<'_>) -> bool {
    met(route, request) == Met::Yes
}

/// Implements the documentation of routes literally.
pub(super) fn met(route: &Route, request: &RequestView<'_>) -> Met {
    let host = route.hosts.is_empty()
        || route.hosts.iter().any(|pattern| match pattern {
            HostPattern::Exact(name) => request.host() == &**name,
            HostPattern::Below(name) => request.host().ends_with(&format!(".{name}")),
        });
    let method = route.methods.is_empty() || route.methods.contains(request.method());
    let parts = route.parts.iter().fold(Met::Yes, |met, part| met.and(part.met(request)));
    let how = route.path_match;
    let compared = |text: &str| {
        let text = if how.exact_parameters { text } else { without_parameters(text) };
        if how.exact_case { text.to_owned() } else { text.to_ascii_lowercase() }
    };
    let mut segments: Vec<_> = segments(request.path()).map(compared).collect();
    let mut wanted = &*route.path.segments;
    if !how.exact_trailing_slash {
        if segments.last().is_some_and(|last| last.is_empty()) {
            segments.pop();
        }
        wanted = &wanted[..wanted.len() - usize::from(route.path.ends_in_slash())];
    }
    let is_path = request.path().starts_with('/');
    let length = is_path && segments.len() == wanted.len()
        || route.path.tail && segments.len() >= wanted.len();
    let same = wanted.iter().zip(&segments).all(|(pattern, segment)| match pattern {
        Segment::Literal(text) => compared(text) == **segment,
        Segment::Param(_) => !without_parameters(segment).is_empty(),
        Segment::Prefix(start) => segment.starts_with(&compared(start)),
    });
    if host && method && length && same { parts } else { Met::No }
}

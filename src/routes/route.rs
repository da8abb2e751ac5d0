//! A route: which requests, and by which policies they are judged.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method};

use super::HostPattern;
use super::reading::Reading;
use crate::policy::{KeyExpr, Policy, RouteView};
use crate::request::{PathMatch, PathPattern};

/// Which requests, and by which policies they are judged. Where they go then
/// is not the rules' business: the router answers with the route's index.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its name: given, or its number in the file.
    pub name: Arc<str>,
    /// Any of these; none: every host.
    pub hosts: Vec<HostPattern>,
    /// The path.
    pub path: PathPattern,
    /// How paths are compared with it.
    pub path_match: PathMatch,
    /// Any of these; none: every method. GET does not imply HEAD: a route that
    /// lists methods means these and no others.
    pub methods: Vec<Method>,
    /// All of these, with exactly this value on one of the field's lines.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// All must admit. No policy stands here twice.
    pub policies: Vec<Arc<Policy>>,
    /// By which key its upstream spreads requests over its endpoints, if by one.
    pub affinity: Option<KeyExpr>,
}

impl Route {
    /// Whether every request that `later` matches is matched by this route,
    /// too: standing after it, `later` would never match.
    ///
    /// Several earlier routes that only together take everything are not seen.
    pub fn covers(&self, later: &Self) -> bool {
        let hosts = self.hosts.is_empty()
            || !later.hosts.is_empty()
                && later.hosts.iter().all(|their| self.hosts.iter().any(|mine| mine.covers(their)));
        let methods = self.methods.is_empty()
            || !later.methods.is_empty()
                && later.methods.iter().all(|method| self.methods.contains(method));
        let headers = self.headers.iter().all(|wanted| later.headers.contains(wanted));
        let path = self.path_match.covers(&self.path, later.path_match, &later.path);
        hosts && methods && headers && path
    }

    /// What policies may know of it.
    pub fn view(&self) -> RouteView<'_> {
        RouteView { name: &self.name, path: &self.path, path_match: self.path_match }
    }

    /// The keys that its policies and its upstream read in requests.
    pub(super) fn keys(&self) -> impl Iterator<Item = &KeyExpr> {
        self.policies.iter().flat_map(|policy| policy.keys()).chain(&self.affinity)
    }

    /// Whether a request whose host and loose path match has the path, the method
    /// and the header fields.
    pub(super) fn admits(&self, reading: &Reading<'_>) -> bool {
        let Reading { request, path, method } = reading;
        let method = self.methods.is_empty() || self.methods.contains(method);
        method
            && self.path_match.admits(&self.path, path)
            && self.headers.iter().all(|(name, wanted)| {
                request.headers().get_all(name).iter().any(|value| value == wanted)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `HOSTS PATH METHODS VERSION`, with `-` for nothing.
    fn route(text: &str) -> Route {
        let parts: Vec<_> = text.split(' ').collect();
        let list = |part: &str| -> Vec<String> {
            part.split(',').filter(|word| *word != "-").map(str::to_owned).collect()
        };
        let version = HeaderName::from_static("x-version");
        let value = |text: &String| (version.clone(), text.parse().unwrap());
        Route {
            name: text.into(),
            hosts: list(parts[0]).iter().map(|host| host.parse().unwrap()).collect(),
            path: parts[1].parse().unwrap(),
            path_match: PathMatch::default(),
            methods: list(parts[2]).iter().map(|method| method.parse().unwrap()).collect(),
            headers: list(parts[3]).iter().map(value).collect(),
            policies: vec![],
            affinity: None,
        }
    }

    #[test]
    fn a_route_covers_those_that_it_leaves_nothing() {
        let cases = [
            ("- /* - -", "a.test /v1/{id} GET 1"),
            ("*.test /* - -", "a.test,*.b.test /* - -"),
            ("*.test /* - -", "*.test /* - -"),
            ("- /{any}/* - -", "- /v1 - -"),
            ("- /v1/* - -", "- /v1/{id}/* - -"),
            ("- /o/{id} - -", "- /o/{other} - -"),
            ("- /o/{id} - -", "- /o/7 - -"),
            ("- /v* - -", "- /v - -"),
            ("- /v* - -", "- /v1/x - -"),
            ("- /v* - -", "- /v1.* - -"),
            ("- /* - -", "- /v* - -"),
            ("- /{any}/* - -", "- /v* - -"),
            ("- /* GET,POST -", "- /* POST -"),
            ("- /* - 1", "- /* GET 1"),
        ];
        for (earlier, later) in cases {
            assert!(route(earlier).covers(&route(later)), "{earlier} | {later}");
        }
    }

    #[test]
    fn a_route_does_not_cover_those_that_it_leaves_something() {
        let cases = [
            ("a.test /* - -", "- /* - -"),
            ("a.test /* - -", "a.test,b.test /* - -"),
            ("*.test /* - -", "test /* - -"),
            ("*.a.test /* - -", "*.test /* - -"),
            ("*.test /* - -", "atest /* - -"),
            ("- /v1 - -", "- /v1/* - -"),
            ("- /{any}/* - -", "- /* - -"),
            ("- /{any} - -", "- / - -"),
            ("- /o/7 - -", "- /o/{id} - -"),
            ("- /o/{id} - -", "- /o/7/8 - -"),
            ("- /v1* - -", "- /v* - -"),
            ("- /v* - -", "- /{any} - -"),
            ("- /v* - -", "- /* - -"),
            ("- /v1/* - -", "- /v1* - -"),
            ("- /{any} - -", "- /v* - -"),
            ("- /* GET -", "- /* - -"),
            ("- /* GET -", "- /* GET,HEAD -"),
            ("- /* - 1", "- /* - -"),
            ("- /* - 1", "- /* - 2"),
        ];
        for (earlier, later) in cases {
            assert!(!route(earlier).covers(&route(later)), "{earlier} | {later}");
        }
    }
}

//! A route: the requests that it matches, and the policies that judge them.

use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::policy::{AccessList, AuthMethod, KeyExpr, Policy, RouteView};
use crate::request::{PathMatch, PathPattern, RequestView};
use http::Method;

use super::part::{Met, Part, PartMatch, Wanted};
use super::reading::Reading;
use super::{HostPattern, Split};

/// The requests that a route matches, and the policies that judge them. The rules do not
/// know the route's action: the router returns the route's index.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its configured name, or its number in the file.
    pub name: Arc<str>,
    /// One of these must match. If there are none, every host matches.
    pub hosts: Vec<HostPattern>,
    /// The path.
    pub path: PathPattern,
    /// How paths are compared with the pattern.
    pub path_match: PathMatch,
    /// One of these must match. If there are none, every method matches. GET does not imply
    /// HEAD: a route with methods matches only these.
    pub methods: Vec<Method>,
    /// All of these conditions on header fields, parameters and cookies must be met.
    pub parts: Vec<PartMatch>,
    /// All of these access lists must allow the request. None occurs twice.
    pub access: Vec<Arc<AccessList>>,
    /// All of these policies must admit the request. None occurs twice.
    pub policies: Vec<Arc<Policy>>,
    /// The key by which its upstream distributes requests over its endpoints, if it has one
    /// upstream that uses a key. See [`Self::affinity`].
    pub affinity: Option<KeyExpr>,
    /// Whether the gateway itself answers preflights. The route then also matches a preflight
    /// whose request it would match, as far as the preflight tells.
    pub answers_preflights: bool,
    /// The upstreams that share its requests, if it has more than one.
    pub split: Option<Arc<Split>>,
    /// The kinds of credentials of which a request needs one. If there are none, it needs none.
    pub auth: Box<[AuthMethod]>,
    /// Whether an authorizer is asked about its requests. Policies that need its answer judge a
    /// request after the others.
    pub has_authorizer: bool,
    /// Whether one of its upstreams has a bound, and refuses requests while it has no room.
    pub has_bounded_upstream: bool,
    /// Whether the body of a request is read, because one of the policies needs it.
    pub reads_body: bool,
    /// Where requests go that only some of the policies refuse.
    pub overflow: Option<Box<Overflow>>,
}

/// The route that judges requests once more which only these policies refuse.
#[derive(Clone, Debug)]
pub struct Overflow {
    /// The names of the policies.
    pub policies: Box<[Arc<str>]>,
    /// The index of the route.
    pub route: usize,
}

impl Overflow {
    /// Whether a policy is one of them.
    pub fn has(&self, policy: &Policy) -> bool {
        self.policies.contains(&policy.name)
    }
}

impl Route {
    /// The first route of a file, which matches every request.
    pub fn for_all(policies: Vec<Arc<Policy>>) -> Self {
        Self {
            name: "1".into(),
            hosts: Vec::new(),
            path: PathPattern { segments: Vec::new(), tail: true },
            path_match: PathMatch::default(),
            methods: Vec::new(),
            parts: Vec::new(),
            access: Vec::new(),
            policies,
            affinity: None,
            answers_preflights: false,
            split: None,
            auth: Box::default(),
            has_authorizer: false,
            has_bounded_upstream: false,
            reads_body: false,
            overflow: None,
        }
    }

    /// Whether this route matches every request that `later` matches. Then `later` would
    /// never be selected after this route.
    ///
    /// The check does not detect several earlier routes that only together match every
    /// request.
    pub fn covers(&self, later: &Self) -> bool {
        let hosts = self.hosts.is_empty()
            || !later.hosts.is_empty()
                && later.hosts.iter().all(|their| self.hosts.iter().any(|mine| mine.covers(their)));
        let methods = self.methods.is_empty()
            || !later.methods.is_empty()
                && later.methods.iter().all(|method| self.methods.contains(method));
        let parts =
            self.parts.iter().all(|mine| later.parts.iter().any(|their| mine.follows_from(their)));
        let path = self.path_match.covers(&self.path, later.path_match, &later.path);
        let preflights = !later.answers_preflights
            || self.answers_preflights
            || self.methods.is_empty() && self.parts.is_empty();
        hosts && methods && parts && path && preflights
    }

    /// Whether one of its policies delays requests.
    pub fn may_delay(&self) -> bool {
        self.policies.iter().any(|policy| matches!(policy.algorithm, Algorithm::LeakyBucket(_)))
    }

    /// Whether something after the policies may refuse a request that they have admitted: what was
    /// charged is given back then.
    pub fn may_give_back(&self) -> bool {
        self.has_authorizer || self.has_bounded_upstream || self.may_delay()
    }

    /// The parts of the route that policies use.
    pub fn view(&self) -> RouteView<'_> {
        RouteView { name: &self.name, path: &self.path, path_match: self.path_match }
    }

    /// The keys that its access lists, its policies and its upstream read in requests.
    pub fn keys(&self) -> impl Iterator<Item = &KeyExpr> {
        let access = self.access.iter().flat_map(|list| list.keys());
        let of_policies = self.policies.iter().flat_map(|policy| policy.keys());
        of_policies.chain(self.own_keys()).chain(access)
    }

    /// Whether the user of a request decides what becomes of it.
    pub fn needs_user(&self) -> bool {
        self.auth.contains(&AuthMethod::User) || self.keys().any(KeyExpr::has_user)
    }

    /// The key by which the upstream of the branch with this index distributes requests over its
    /// endpoints, if it uses one.
    pub fn affinity(&self, branch: usize) -> Option<&KeyExpr> {
        match &self.split {
            None => self.affinity.as_ref(),
            Some(split) => split.branches()[branch].affinity.as_ref(),
        }
    }

    /// The keys that the choice of its upstream, and of the endpoint, reads in requests.
    pub fn own_keys(&self) -> impl Iterator<Item = &KeyExpr> {
        let of_split = self.split.iter().flat_map(|split| split.keys());
        self.affinity.iter().chain(of_split)
    }

    /// Whether a request whose host and loose path match also has the path, the method and
    /// the parts of the route. It is not clear if backends may read different parts.
    pub(super) fn admits(&self, reading: &Reading<'_>) -> Met {
        let Reading { request, path, method } = reading;
        let method = self.methods.is_empty()
            || self.methods.contains(method)
            || self.answers_preflights && request.asks_for_method(&self.methods);
        if !method || !self.path_match.admits(&self.path, path) {
            return Met::No;
        }
        self.parts.iter().fold(Met::Yes, |met, part| match met {
            Met::No => Met::No,
            met => met.and(self.met(part, request)),
        })
    }

    /// Whether a request meets a condition of the route. A preflight has the names of the fields that
    /// its request will have, and no values.
    fn met(&self, part: &PartMatch, request: &RequestView<'_>) -> Met {
        match &part.part {
            Part::Header(name) if self.answers_preflights && request.asks_for_field(name) => {
                if part.wanted == Wanted::Present(false) { Met::No } else { Met::Yes }
            }
            _ => part.met(request),
        }
    }

    /// The first of its parts that the request does not have for every backend.
    pub(super) fn lacking_part(&self, request: &RequestView<'_>) -> Option<&Part> {
        self.parts.iter().find(|part| self.met(part, request) != Met::Yes).map(|part| &part.part)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    /// Parses `HOSTS PATH METHODS VERSION`, with `-` for an empty part.
    fn route(text: &str) -> Route {
        let parts: Vec<_> = text.split(' ').collect();
        let list = |part: &str| -> Vec<String> {
            part.split(',').filter(|word| *word != "-").map(str::to_owned).collect()
        };
        let version = HeaderName::from_static("x-version");
        let value = |text: &String| PartMatch::header(version.clone(), text.as_bytes());
        Route {
            name: text.into(),
            hosts: list(parts[0]).iter().map(|host| host.parse().unwrap()).collect(),
            path: parts[1].parse().unwrap(),
            methods: list(parts[2]).iter().map(|method| method.parse().unwrap()).collect(),
            parts: list(parts[3]).iter().map(value).collect(),
            ..Route::for_all(vec![])
        }
    }

    #[test]
    fn a_route_that_answers_preflights_matches_those_of_its_requests() {
        let fields = |lines: &[(&'static str, &'static str)]| -> http::HeaderMap {
            let line = |&(name, value)| {
                (HeaderName::from_static(name), http::HeaderValue::from_static(value))
            };
            lines.iter().map(line).collect()
        };
        let asks = [("origin", "https://a.test"), ("access-control-request-method", "POST")];
        let naming = ("access-control-request-headers", "authorization,x-version");
        let is_matched = |route: &Route, headers: &http::HeaderMap| {
            let request =
                RequestView::sample("a.test", "/o", headers).with_method(&Method::OPTIONS);
            let reading =
                Reading { request: &request, path: request.path(), method: request.method() };
            route.admits(&reading) == Met::Yes
        };
        let plain = route("- /o POST 1");
        let answering = Route { answers_preflights: true, ..plain.clone() };
        let other = Route { answers_preflights: true, ..route("- /o GET 1") };
        let whole = fields(&[asks[0], asks[1], naming]);
        assert!(is_matched(&answering, &whole));
        assert!(!is_matched(&plain, &whole), "OPTIONS is not one of its methods");
        assert!(!is_matched(&other, &whole), "the request will be a POST");
        assert!(!is_matched(&answering, &fields(&asks)), "the request will not have the field");
        let no_preflight = fields(&[asks[1], naming]);
        assert!(!is_matched(&answering, &no_preflight));
        assert!(!plain.covers(&answering) && answering.covers(&plain));
        assert!(route("- /o - -").covers(&answering));
    }

    #[test]
    fn a_route_covers_routes_that_match_nothing_else() {
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
    fn a_route_does_not_cover_routes_that_match_further_requests() {
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

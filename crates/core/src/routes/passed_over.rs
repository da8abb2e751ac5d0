//! Why the routes before the selected one do not match a request.

use std::slice;

use crate::request::RequestView;

use super::reading::Reading;
use super::router::Router;
use super::{HostPattern, Route, Rules};

/// The most routes that are compared, so that a call does not hold up a worker.
const MAX_COMPARED: usize = 1000;
/// The most routes that are named.
const MAX_NAMED: usize = 32;

/// The part of a request that a route does not match, and how near the route is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// A header field, a parameter or a cookie of the route is absent, or has another value. The
    /// text names the kind and the name.
    Part(String),
    /// The method.
    Method,
    /// The path.
    Path,
    /// The host.
    Host,
}

/// Routes that do not match a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// The names of the nearest routes, in file order.
    pub named: Vec<(String, Mismatch)>,
    /// The number of other routes.
    pub others: usize,
}

impl Rules {
    /// The routes before the one with this index, or all, if none is selected.
    pub fn passed_over(&self, request: &RequestView<'_>, selected: Option<usize>) -> PassedOver {
        let before = &self.routes[..selected.unwrap_or(self.routes.len())];
        let (far, before) = before.split_at(before.len().saturating_sub(MAX_COMPARED));
        let mismatch = |route: &Route| Some((route.name.to_string(), route.mismatch(request)?));
        let all: Vec<_> = before.iter().filter_map(mismatch).enumerate().collect();
        let count = far.len() + all.len();
        let mut nearest = all;
        nearest.sort_by_key(|(_, (_, mismatch))| mismatch.nearness());
        nearest.truncate(MAX_NAMED);
        nearest.sort_by_key(|(index, _)| *index);
        let named: Vec<_> = nearest.into_iter().map(|(_, named)| named).collect();
        PassedOver { others: count - named.len(), named }
    }
}

impl Mismatch {
    const fn nearness(&self) -> u8 {
        match self {
            Self::Part(_) => 0,
            Self::Method => 1,
            Self::Path => 2,
            Self::Host => 3,
        }
    }

    /// One word, or the kind and the name of the part.
    pub fn text(&self) -> String {
        match self {
            Self::Part(text) => text.clone(),
            Self::Method => "method".to_owned(),
            Self::Path => "path".to_owned(),
            Self::Host => "host".to_owned(),
        }
    }
}

impl Route {
    /// The first part of a request that does not match. None: the route matches.
    fn mismatch(&self, request: &RequestView<'_>) -> Option<Mismatch> {
        let host = HostPattern::Exact(request.host().into());
        if !self.hosts.is_empty() && !self.hosts.iter().any(|it| it.covers(&host)) {
            return Some(Mismatch::Host);
        }
        let reading = Reading { request, path: request.path(), method: request.method() };
        // A router with this route alone compares the path as the true router does.
        let by_path = Self { hosts: vec![], methods: vec![], parts: vec![], ..self.clone() };
        let routes = slice::from_ref(&by_path);
        if Router::new(routes).select(routes, &reading).is_none() {
            return Some(Mismatch::Path);
        }
        let is_asked = self.answers_preflights && request.asks_for_method(&self.methods);
        if !self.methods.is_empty() && !self.methods.contains(request.method()) && !is_asked {
            return Some(Mismatch::Method);
        }
        self.lacking_part(request).map(|part| Mismatch::Part(part.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::digest::{Secret, SharedSecret};
    use crate::policy::ClientSettings;
    use crate::request::PathMatch;
    use http::{HeaderMap, HeaderValue, Method};
    use proptest::prelude::*;

    use super::*;
    use crate::routes::{PartMatch, fuzzing};

    fn route((host, path, method, version): (usize, usize, usize, usize)) -> Route {
        let hosts = ["", "a.test", "*.test", "b.a.test"][host];
        Route {
            name: format!("{host}{path}{method}{version}").into(),
            hosts: Some(hosts)
                .filter(|it| !it.is_empty())
                .map(|it| it.parse().unwrap())
                .into_iter()
                .collect(),
            path: ["/*", "/o", "/o/{id}", "/o/7/", "/O*"][path].parse().unwrap(),
            path_match: PathMatch { exact_case: path == 1, ..PathMatch::default() },
            methods: (method > 0)
                .then(|| [Method::GET, Method::POST][method - 1].clone())
                .into_iter()
                .collect(),
            parts: (version > 0)
                .then(|| {
                    let value = [version.to_string()];
                    PartMatch::header("x-version".parse().unwrap(), value[0].as_bytes())
                })
                .into_iter()
                .collect(),
            ..Route::for_all(vec![])
        }
    }

    fn routes() -> impl Strategy<Value = Vec<Route>> {
        prop::collection::vec(
            (0..4_usize, 0..5_usize, 0..3_usize, 0..3_usize).prop_map(route),
            1..6,
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn each_route_before_the_selected_one_has_a_reason_and_that_one_has_none(
            routes in routes(),
            host in prop::sample::select(vec!["a.test", "b.a.test", "c.example"]),
            path in prop::sample::select(vec!["/", "/o", "/O", "/o/7", "/o/7/8", "/other"]),
            is_post in any::<bool>(),
            version in prop::option::of(1..3_u16),
        ) {
            let headers: HeaderMap = version.iter().map(|it| ("x-version".parse().unwrap(), HeaderValue::from(*it))).collect();
            let method = if is_post { Method::POST } else { Method::GET };
            let request = RequestView::sample(host, path, &headers).with_method(&method);
            for route in &routes {
                prop_assert_eq!(route.mismatch(&request).is_none(), fuzzing::matches(route, &request));
            }
            let secret = Arc::new(SharedSecret::new(Secret::from_bytes([3; 16])));
            let rules = Rules::new(routes, ClientSettings::default(), secret);
            let selected = rules.select(&request).ok();
            let passed = rules.passed_over(&request, selected);
            prop_assert_eq!(passed.named.len(), selected.unwrap_or(rules.routes.len()));
        }
    }

    #[test]
    fn the_nearest_of_many_routes_are_named_in_their_order() {
        let far = (0..MAX_COMPARED).map(|_| route((3, 0, 0, 0)));
        let near = [route((0, 0, 2, 0)), route((0, 1, 0, 2))];
        let routes: Vec<Route> = far.clone().chain(near).chain(far.skip(2)).collect();
        let secret = Arc::new(SharedSecret::new(Secret::from_bytes([3; 16])));
        let rules = Rules::new(routes, ClientSettings::default(), secret);
        let headers = HeaderMap::new();
        let passed = rules.passed_over(&RequestView::sample("a.test", "/o", &headers), None);
        assert_eq!((passed.named.len(), passed.others), (MAX_NAMED, 2 * MAX_COMPARED - MAX_NAMED));
        let near: Vec<_> = passed.named.iter().filter(|(_, it)| *it != Mismatch::Host).collect();
        assert_eq!(near[0].1.text(), "method");
        assert_eq!(near[1].1.text(), "header x-version");
    }
}

//! Compares the router with a linear search through the file.

use crate::request::{PathMatch, RequestView};
use http::{HeaderMap, HeaderValue, Method};
use proptest::prelude::*;

use super::*;
use crate::routes::fuzzing::{matches, met};
use crate::routes::part::{Met, PartMatch};

/// The owned parts of a request.
#[derive(Clone, Debug)]
struct Asked {
    method: Method,
    host: String,
    path: String,
    headers: HeaderMap,
}

impl Asked {
    fn get(host: &str, path: &str) -> Self {
        Self {
            method: Method::GET,
            host: host.into(),
            path: path.into(),
            headers: HeaderMap::new(),
        }
    }

    fn view(&self) -> RequestView<'_> {
        RequestView::sample(&self.host, &self.path, &self.headers).with_method(&self.method)
    }
}

fn route(hosts: &[&str], path: &str) -> Route {
    Route {
        name: path.into(),
        hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
        path: path.parse().unwrap(),
        ..Route::for_all(vec![])
    }
}

fn selected(routes: &[Route], asked: &Asked) -> Option<usize> {
    found(&Router::new(routes), routes, asked)
}

fn found(router: &Router, routes: &[Route], asked: &Asked) -> Option<usize> {
    let request = &asked.view();
    let reading = Reading { request, path: &asked.path, method: &asked.method };
    router.select(routes, &reading).map(|selected| selected.index)
}

/// The same route, which compares paths exactly.
fn exact(route: Route) -> Route {
    let path_match = PathMatch {
        exact_case: true,
        exact_trailing_slash: true,
        exact_parameters: true,
        ..PathMatch::default()
    };
    Route { path_match, ..route }
}

#[test]
fn an_exact_path_matches_by_its_text_by_parameter_or_by_tail() {
    let cases = [
        ("/", &["/"][..], &["/a", "*"][..]),
        ("/*", &["/", "/a", "/a/b/", "*"], &[]),
        ("/v1/*", &["/v1", "/v1/", "/v1/a/b"], &["/", "/v2", "/v11", "/v1x/a", "*"]),
        ("/v1", &["/v1"], &["/v1/", "/v1/a", "/V1"]),
        ("/v1/", &["/v1/"], &["/v1", "/v1/a"]),
        ("/o/{id}", &["/o/7", "/o/a%2Fb"], &["/o", "/o/", "/o/7/", "/o/7/8"]),
        ("/o/{id}/*", &["/o/7", "/o/7/", "/o/7/8"], &["/o", "/o/"]),
        (
            "/grpc.*",
            &["/grpc.health.v1.Health/Check", "/grpc.", "/grpc.x/", "/grpc.x/y/z"],
            &["/grpc", "/grpc/", "/agrpc.x/y", "/", "*", "/x/grpc.y", "/Grpc.x"],
        ),
        ("/a/v*", &["/a/v1", "/a/v", "/a/v1/b"], &["/a", "/a/", "/a/1v", "/b/v1"]),
        ("/a;v=1", &["/a;v=1"], &["/a", "/a;v=2", "/a;v=1/b"]),
        ("/a;v=*", &["/a;v=", "/a;v=1", "/a;v=1/b"], &["/a", "/a;w=1", "/a/b", "/ab;v=1"]),
    ];
    for (pattern, inside, outside) in cases {
        let routes = [exact(route(&[], pattern))];
        for path in inside {
            assert_eq!(selected(&routes, &Asked::get("", path)), Some(0), "{pattern} {path}");
        }
        for path in outside {
            assert_eq!(selected(&routes, &Asked::get("", path)), None, "{pattern} {path}");
        }
    }
}

#[test]
fn a_path_matches_in_every_spelling_that_some_backend_treats_as_the_same() {
    let cases = [
        ("/", &["/", "/;x"][..], &["/a", "*"][..]),
        ("/v1", &["/v1", "/v1/", "/V1", "/v1;x", "/V1;x=1/"], &["/v1/a", "/v11"]),
        ("/v1/", &["/v1", "/v1/", "/V1;x"], &["/v1/a"]),
        ("/V1/*", &["/v1", "/v1/a/", "/v1;x/A"], &["/v2", "*"]),
        ("/o/{id}", &["/o/7", "/O/7/", "/o;x/7;y"], &["/o", "/o/", "/o/;x", "/o/7/8"]),
        ("/Grpc.*", &["/grpc.Health/Check", "/GRPC.x"], &["/grpc"]),
    ];
    for (pattern, inside, outside) in cases {
        let routes = [route(&[], pattern)];
        for path in inside {
            assert_eq!(selected(&routes, &Asked::get("", path)), Some(0), "{pattern} {path}");
        }
        for path in outside {
            assert_eq!(selected(&routes, &Asked::get("", path)), None, "{pattern} {path}");
        }
    }
}

#[test]
fn a_host_matches_exactly_or_at_any_depth_below() {
    let routes = [route(&["api.example.com", "*.example.org"], "/*")];
    for host in ["api.example.com", "a.example.org", "a.b.example.org"] {
        assert_eq!(selected(&routes, &Asked::get(host, "/")), Some(0), "{host}");
    }
    for host in ["", "example.com", "x.api.example.com", "example.org", "xexample.org", "org"] {
        assert_eq!(selected(&routes, &Asked::get(host, "/")), None, "{host}");
    }
}

#[test]
fn the_first_route_in_the_file_wins_and_not_the_most_specific() {
    let hosts: [&[&str]; 4] = [&[], &["*.example.com"], &["a.example.com"], &["*.a.example.com"]];
    let paths = ["/*", "/{a}", "/x", "/x/*"];
    for (first_host, second_host) in hosts.iter().flat_map(|one| hosts.map(|other| (one, other))) {
        for (first, second) in paths.iter().flat_map(|one| paths.map(|other| (one, other))) {
            let routes = [route(first_host, first), route(second_host, second)];
            let asked = Asked::get("a.example.com", "/x");
            let wanted = routes.iter().position(|route| met(route, &asked.view()) != Met::No);
            assert_eq!(selected(&routes, &asked), wanted, "{first_host:?}{first}");
        }
    }
}

#[test]
fn get_does_not_imply_head() {
    let mut only_get = route(&[], "/*");
    only_get.methods = vec![Method::GET];
    let head = Asked { method: Method::HEAD, ..Asked::get("", "/") };
    assert_eq!(selected(&[only_get.clone()], &Asked::get("", "/")), Some(0));
    assert_eq!(selected(&[only_get, route(&[], "/*")], &head), Some(1));
}

#[test]
fn no_search_visits_a_node_twice() {
    // A literal and a parameter match at every step. No trie has more branches.
    let mut trie = paths::PathTrie::default();
    let depth = 10;
    for number in 0..1_usize << depth {
        let step = |bit| if number >> bit & 1 == 0 { "/a".into() } else { format!("/{{p{bit}}}") };
        let pattern: String = (0..depth).map(step).collect();
        trie.insert(&pattern.parse().unwrap(), number);
    }
    let steps = |path: &str, bound| {
        let mut walk = trie.walk(path);
        std::iter::from_fn(|| walk.next_before(bound)).count()
    };
    let nodes = (1 << (depth + 1)) - 1;
    assert_eq!(steps(&"/a".repeat(depth), usize::MAX), nodes);
    assert_eq!(steps(&"/a".repeat(10_000), usize::MAX), nodes);
    assert_eq!(steps(&"/b".repeat(10_000), usize::MAX), depth + 1);
    // After the first route is found, only nodes that lead to earlier routes are visited.
    assert_eq!(steps(&"/a".repeat(depth), 1), depth + 1);
}

/// However many prefixes there are of one length, and however long a segment is.
#[test]
fn a_segment_is_looked_up_once_for_each_length_of_a_prefix() {
    let mut trie = paths::PathTrie::default();
    for number in 0..1000 {
        trie.insert(&format!("/p{number:03}.*").parse().unwrap(), number);
    }
    trie.insert(&"/p*".parse().unwrap(), 1000);
    let seen = |path: &str| -> Vec<usize> {
        let mut walk = trie.walk(path);
        let candidates = std::iter::from_fn(|| walk.next_before(usize::MAX));
        candidates.flat_map(|it| it.tails.to_vec()).collect()
    };
    assert_eq!(seen(&format!("/p007.{}", "x".repeat(10_000))), [7, 1000]);
    assert_eq!(seen("/p\u{e9}\u{e9}\u{e9}"), [1000]);
    assert_eq!(seen("/q007.x"), [0; 0]);
}

fn text(choices: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(choices)
}

/// Patterns and requests consist of few words, so that they match often.
fn any_route() -> impl Strategy<Value = Route> {
    let host = text(&["a.test", "b.a.test", "*.a.test", "*.test", "*.b.a.test"]);
    let segment = text(&["a", "B", "ab", "a;x", "{x}", "{y}", "{z}"]);
    let method = text(&["GET", "HEAD", "POST"]);
    let collected = proptest::collection::vec;
    (
        collected(host, 0..3),
        collected(segment, 0..4),
        text(&["", "/", "/*", "*"]),
        collected(method, 0..3),
        collected(text(&["1", "2"]), 0..2),
        proptest::array::uniform3(proptest::bool::weighted(0.3)),
    )
        .prop_filter_map(
            "a parameter stands twice, or before a star",
            |(hosts, segments, end, methods, values, exact)| {
                let path: String = segments.iter().map(|segment| format!("/{segment}")).collect();
                let path = if path.is_empty() && end.is_empty() { "/".into() } else { path + end };
                let pattern = path.parse::<crate::request::PathPattern>().ok()?;
                let version = http::HeaderName::from_static("x-version");
                let mut route = route(&hosts, &path);
                let [exact_case, exact_trailing_slash, exact_parameters] = exact;
                // The configuration requires this.
                let exact_parameters = exact_parameters || pattern.has_parameters();
                route.path_match = PathMatch {
                    exact_case,
                    exact_trailing_slash,
                    exact_parameters,
                    ..PathMatch::default()
                };
                route.methods = methods.iter().map(|method| method.parse().unwrap()).collect();
                route.parts = values
                    .iter()
                    .map(|value| PartMatch::header(version.clone(), value.as_bytes()))
                    .collect();
                Some(route)
            },
        )
}

/// Paths are in normal form.
fn any_path() -> impl Strategy<Value = String> {
    let segment = text(&["a", "A", "b", "B", "ab", "Abc", "a;x", "a;xy", "B;x"]);
    (proptest::collection::vec(segment, 1..5), text(&["", "/", "/;x"]))
        .prop_map(|(segments, end)| format!("/{}{end}", segments.join("/")))
}

fn any_request() -> impl Strategy<Value = Asked> {
    let collected = proptest::collection::vec;
    (
        text(&["GET", "HEAD", "POST", "PUT"]),
        text(&["", "test", "a.test", "b.a.test", "c.b.a.test", "x.test", "xa.test"]),
        prop_oneof![
            9 => any_path(),
            1 => Just("*".to_owned()),
        ],
        collected(text(&["1", "2"]), 0..3),
    )
        .prop_map(|(method, host, path, values)| Asked {
            method: method.parse().unwrap(),
            host: host.into(),
            path,
            headers: values
                .iter()
                .map(|value| {
                    (http::HeaderName::from_static("x-version"), HeaderValue::from_static(value))
                })
                .collect(),
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_router_answers_as_one_who_reads_the_file_from_the_top(
        routes in proptest::collection::vec(any_route(), 0..40),
        requests in proptest::collection::vec(any_request(), 1..20),
    ) {
        let router = Router::new(&routes);
        for asked in &requests {
            let wanted = routes.iter().position(|route| met(route, &asked.view()) != Met::No);
            prop_assert_eq!(found(&router, &routes, asked), wanted, "{:?}", asked);
        }
    }

    #[test]
    fn a_covered_route_matches_nothing_that_the_earlier_one_does_not(
        earlier in any_route(),
        later in any_route(),
        requests in proptest::collection::vec(any_request(), 1..40),
    ) {
        prop_assert!(earlier.covers(&earlier));
        if earlier.covers(&later) {
            for asked in requests.iter().filter(|asked| matches(&later, &asked.view())) {
                prop_assert!(matches(&earlier, &asked.view()), "{:?}", asked);
            }
            for asked in requests.iter().filter(|it| met(&later, &it.view()) != Met::No) {
                prop_assert!(met(&earlier, &asked.view()) != Met::No, "{:?}", asked);
            }
        }
    }
}

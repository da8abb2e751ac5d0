//! The time to select one of many routes, and to compute a key.
//!
//! The time to select must not grow with the number of routes.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tollgate_core::algorithm::{Algorithm, Quota, SlidingWindow};
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::policy::{ApiKeySettings, ClientSettings, Policy};
use tollgate_core::request::RequestView;
use tollgate_core::routes::{Route, Rules};
use tollgate_core::time::{Span, Timestamp};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    select(&mut criterion);
    key(&mut criterion);
    criterion.final_summary();
}

/// A mixture of literals, parameters and tails. One route in four is for one host.
fn route(number: usize) -> Route {
    let path = match number % 3 {
        0 => format!("/v1/service-{number}/orders"),
        1 => format!("/v1/service-{number}/orders/{{id}}"),
        _ => format!("/v1/service-{number}/*"),
    };
    let host = number.is_multiple_of(4).then(|| format!("*.tenant-{}.example.com", number % 100));
    Route {
        name: format!("route-{number}").into(),
        hosts: host.iter().map(|host| host.parse().expect("a host")).collect(),
        path: path.parse().expect("a path"),
        methods: vec![Method::GET, Method::POST],
        ..Route::for_all(vec![])
    }
}

fn settings() -> ClientSettings {
    ClientSettings {
        trusted_proxies: vec!["10.0.0.0/8".parse().expect("a network")],
        api_key: ApiKeySettings {
            headers: vec![HeaderName::from_static("x-api-key")],
            bearer: true,
            query: None,
            cookie: None,
        },
        ..ClientSettings::default()
    }
}

fn rules(routes: Vec<Route>) -> Rules {
    Rules::new(routes, settings(), Arc::new(SharedSecret::new(Secret::from_bytes([1; 16]))))
}

fn request<'a>(path: &'a str, headers: &'a HeaderMap) -> RequestView<'a> {
    RequestView::sample("api.tenant-4.example.com", path, headers).with_peer([10, 0, 0, 1].into())
}

fn select(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("select");
    let headers = HeaderMap::new();
    for count in [10, 100, 1_000, 10_000] {
        let rules = rules((0..count).map(route).collect());
        // The last route that has a parameter and any host, so that a linear search would
        // read all routes.
        let last = (0..count).rev().find(|number| number % 12 == 1).expect("one in twelve");
        let path = format!("/v1/service-{last}/orders/4711");
        for (name, path) in [("last", &*path), ("none", "/v2/service-1/orders")] {
            let request = request(path, &headers);
            assert_eq!(rules.select(&request).ok(), (name == "last").then_some(last));
            group.bench_function(BenchmarkId::new(name, count), |bencher| {
                bencher.iter(|| rules.select(black_box(&request)));
            });
        }
    }
}

fn key(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("key");
    let headers: HeaderMap = [
        ("x-forwarded-for", "203.0.113.9, 198.51.100.1, 10.0.0.2"),
        ("x-api-key", "0123456789abcdef0123456789abcdef"),
        ("cookie", "theme=dark; session=0123456789abcdef"),
    ]
    .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
    .into_iter()
    .collect();
    let request = request("/v1/service-1/orders/4711", &headers);
    let rules = rules((0..100).map(route).collect());
    for key in ["ip", "api_key", "cookie:session", "header:x-api-key"] {
        let policy = policy(key);
        group.bench_function(key, |bencher| {
            bencher.iter(|| {
                let matched = rules.select(black_box(&request)).expect("route 1 matches");
                rules.subject(&request, matched, Timestamp::default()).key(black_box(&policy))
            });
        });
    }
}

fn policy(key: &str) -> Arc<Policy> {
    let quota = Quota::new(100, Span::from_secs(60)).expect("a quota");
    let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(quota));
    Arc::new(Policy::new("per-client", key.parse().expect("a key"), algorithm))
}

//! What a decision costs on the memory store: with a million live keys in time
//! and in memory, and for one client from the request to the decision.
//!
//! The aims: under 250 ns with one policy, at most 50 bytes a key.

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;
use std::task::{Context, Waker};

use criterion::{Criterion, criterion_group, criterion_main};
use http::{HeaderMap, Method};
use tollgate::algorithm::{Algorithm, Quota, SlidingWindow, TokenBucket};
use tollgate::digest::{Key, Secret};
use tollgate::limiter::{RateLimiter, Room};
use tollgate::request::RequestView;
use tollgate::rules::{
    ApiKeySettings, ClientSettings, ForwardedHeader, KeyExpr, Policy, Route, Rules,
};
use tollgate::store::{Charge, MemoryStore, Store};
use tollgate::time::{Span, Timestamp};

const KEYS: usize = 1_000_000;
const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

/// Pages that the process has touched, in bytes.
fn resident_bytes() -> usize {
    const PAGE_BYTES: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or_default() * PAGE_BYTES
}

/// A million keys in no order that a cache could know.
fn keys() -> Vec<Key> {
    let secret = Secret::random();
    let digest = |number: usize| {
        let mut digest = secret.digest();
        digest.value(&number.to_le_bytes());
        digest.finish()
    };
    (0..KEYS).map(digest).collect()
}

/// A limit that nobody reaches, so that every decision writes.
fn per_minute() -> Quota {
    Quota::new(1_000_000_000, Span::from_secs(60)).expect("a valid quota")
}

fn charge(key: Key, algorithm: &Algorithm) -> Charge<'_> {
    Charge { key, algorithm, cost: 1, binding: true }
}

#[expect(clippy::print_stderr, reason = "the result of a measurement")]
fn filled(keys: &[Key], algorithm: &Algorithm) -> MemoryStore {
    let before = resident_bytes();
    let store = MemoryStore::new(KEYS);
    for &key in keys {
        store.apply(&[charge(key, algorithm)], NOW);
    }
    let bytes = resident_bytes().saturating_sub(before);
    let live = store.live_keys(NOW);
    let tenths = bytes * 10 / live;
    eprintln!(
        "{}: {live} live keys, {}.{} bytes each, {} forgiven",
        algorithm.name(),
        tenths / 10,
        tenths % 10,
        store.forgiven(),
    );
    store
}

fn decisions(criterion: &mut Criterion) {
    let keys = keys();
    let sliding = Algorithm::SlidingWindow(SlidingWindow::new(per_minute()));
    let bucket = TokenBucket::new(per_minute(), 1_000_000).expect("a valid burst");
    for algorithm in [&sliding, &Algorithm::TokenBucket(bucket)] {
        let store = filled(&keys, algorithm);
        let mut next = keys.iter().copied().cycle();
        let mut next = || next.next().expect("the keys never end");
        criterion.bench_function(&format!("{}, one policy", algorithm.name()), |bencher| {
            bencher.iter(|| store.apply(black_box(&[charge(next(), algorithm)]), NOW));
        });
        criterion.bench_function(&format!("{}, three policies", algorithm.name()), |bencher| {
            bencher.iter(|| {
                let charges = [next(), next(), next()].map(|key| charge(key, algorithm));
                store.apply(black_box(&charges), NOW)
            });
        });
    }
}

/// Rules with one route, which these policies judge.
fn rules(policies: Vec<Arc<Policy>>) -> Rules {
    let route = Route {
        name: "all".into(),
        hosts: vec![],
        path: "/*".parse().expect("a path"),
        methods: vec![],
        headers: vec![],
        policies,
    };
    let client = ClientSettings {
        trusted_proxies: vec![],
        forwarded_header: ForwardedHeader::XForwardedFor,
        ipv4_prefix: 32,
        ipv6_prefix: 64,
        api_key: ApiKeySettings { headers: vec![], bearer: false, query: None },
        user: None,
    };
    Rules::new(vec![route], client, Secret::random())
}

/// All that the limiter does for a request of a client who is not refused.
fn whole_decisions(criterion: &mut Criterion) {
    let sliding = Algorithm::SlidingWindow(SlidingWindow::new(per_minute()));
    let plain = |name: &str| Arc::new(Policy::new(name, KeyExpr::Ip, sliding.clone()));
    let limiter = RateLimiter::new(Store::Memory(MemoryStore::new(1000)));
    let (headers, method) = (HeaderMap::new(), Method::GET);
    let request = RequestView {
        method: &method,
        host: Cow::Borrowed("a.example"),
        path: Cow::Borrowed("/"),
        query: None,
        headers: &headers,
        peer: [192, 0, 2, 1].into(),
    };
    for names in [&["a"][..], &["a", "b", "c"]] {
        let rules = rules(names.iter().map(|name| plain(name)).collect());
        criterion.bench_function(&format!("decide, {} plain policies", names.len()), |bencher| {
            bencher.iter(|| {
                let matched = rules.select(black_box(&request)).expect("every path matches");
                let subject = rules.subject(&request, matched, NOW);
                let mut deciding = std::pin::pin!(limiter.decide(&subject, Room::default(), NOW));
                // The memory store is never waited for.
                let polled = deciding.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_ready());
            });
        });
    }
}

criterion_group!(benches, decisions, whole_decisions);
criterion_main!(benches);

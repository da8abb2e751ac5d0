//! The time of a whole decision: the route is selected, the keys are computed, and
//! the policies decide. The same client sends all requests, so this measures the
//! computation; `benches/limiter.rs` measures the access to memory.

use std::hint::black_box;
use std::sync::Arc;
use std::task::{Context, Waker};

use criterion::{Criterion, criterion_group, criterion_main};
use http::HeaderMap;
use tollgate_core::algorithm::{Algorithm, Quota, SlidingWindow};
use tollgate_core::decision::{Headroom, RateLimiter};
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::policy::{ClientSettings, KeyExpr, Policy};
use tollgate_core::request::RequestView;
use tollgate_core::routes::{Route, Rules};
use tollgate_core::store::{MemoryStore, Store};
use tollgate_core::time::{Span, Timestamp};

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

fn per_minute() -> Quota {
    Quota::new(1_000_000_000, Span::from_secs(60)).expect("a valid quota")
}

/// Rules with one route, which has these policies.
fn rules(policies: Vec<Arc<Policy>>) -> Rules {
    let client = ClientSettings::default();
    Rules::new(
        vec![Route::for_all(policies)],
        client,
        Arc::new(SharedSecret::new(Secret::random())),
    )
}

/// All work of the limiter for an admitted request.
fn whole_decisions(criterion: &mut Criterion) {
    let sliding = Algorithm::SlidingWindow(SlidingWindow::new(per_minute()));
    let plain = |name: &str| Arc::new(Policy::new(name, KeyExpr::Ip, sliding.clone()));
    let limiter = RateLimiter::new(Store::Memory(Arc::new(MemoryStore::new(1000))));
    let headers = HeaderMap::new();
    let request = RequestView::sample("a.example", "/", &headers);
    for names in [&["a"][..], &["a", "b", "c"]] {
        let rules = rules(names.iter().map(|name| plain(name)).collect());
        criterion.bench_function(&format!("decide, {} plain policies", names.len()), |bencher| {
            bencher.iter(|| {
                let matched = rules.select(black_box(&request)).expect("every path matches");
                let subject = rules.subject(&request, matched, NOW);
                let mut deciding = std::pin::pin!(limiter.decide(
                    &rules.route(matched).policies,
                    &subject,
                    Headroom::default(),
                    NOW
                ));
                // A decision in memory never waits.
                let polled = deciding.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_ready());
            });
        });
    }
}

criterion_group!(benches, whole_decisions);
criterion_main!(benches);

//! Nanoseconds for each call of the library, of `governor` and of `tower_governor`, in memory on
//! one thread, with ten thousand clients below their limits:
//!
//!     cd bench/library && cargo bench

use std::convert::Infallible;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;

use axum::extract::ConnectInfo;
use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use futures_util::FutureExt as _;
use governor::{Quota, RateLimiter};
use http::{Request, Response};
use tollgate_limiter::{Algorithm, Dialect, Key, Limiter, Policy, PolicyHandle, RateLimitLayer};
use tower::{Layer, Service, service_fn};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

const CLIENTS: u32 = 10_000;
const PER_SECOND: u32 = 100_000_000;

/// The addresses in an order that no cache can predict.
fn addresses() -> impl Iterator<Item = IpAddr> {
    (0_u32..).map(|n| {
        let client = n.wrapping_mul(2_654_435_761) % CLIENTS;
        IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | client))
    })
}

fn limiter(algorithm: Algorithm, dialects: &[Dialect]) -> (Limiter, PolicyHandle) {
    let limit = format!("{PER_SECOND}/s").parse().expect("a limit");
    let policy = Policy::new("p", Key::Ip, limit).algorithm(algorithm);
    let builder = Limiter::builder().policy(policy).headers(dialects.iter().copied());
    let limiter = builder.build().expect("a limiter");
    let policy = limiter.policy("p").expect("a policy");
    (limiter, policy)
}

fn checks(c: &mut Criterion) {
    let mut group = c.benchmark_group("check");
    println!("a Decision has {} bytes", size_of::<tollgate_limiter::Decision>());
    for (name, algorithm) in
        [("sliding_window", Algorithm::SlidingWindow), ("token_bucket", Algorithm::TokenBucket)]
    {
        let (limiter, policy) = limiter(algorithm, &[]);
        let (head, ()) = Request::get("/").body(()).expect("a request").into_parts();
        let handles = [policy.clone()];
        let mut peers = addresses();
        group.bench_function(format!("tollgate check_request, {name}"), |b| {
            b.iter(|| {
                let check = limiter.check_request(&handles, &head, peers.next());
                black_box(check.now_or_never().expect("ready").is_admitted())
            });
        });
        group.bench_function(format!("tollgate check of a text, {name}"), |b| {
            b.iter(|| {
                let check = limiter.check_text(&policy, "192.0.2.7", 1).expect("a key");
                black_box(check.now_or_never().expect("ready").is_admitted())
            });
        });
        group.bench_function(format!("tollgate check of an own value, {name}"), |b| {
            b.iter(|| {
                let IpAddr::V4(value) = peers.next().expect("endless") else { unreachable!() };
                let decision = limiter.check(&policy, value.octets()).now();
                black_box(decision.is_some_and(|decision| decision.is_admitted()))
            });
        });
    }
    let quota = Quota::per_second(NonZeroU32::new(PER_SECOND).expect("not zero"));
    let governor = RateLimiter::keyed(quota);
    let mut peers = addresses();
    group.bench_function("governor check_key, GCRA", |b| {
        b.iter(|| black_box(governor.check_key(&peers.next().expect("endless")).is_ok()));
    });
    group.finish();
}

async fn hello(_: Request<axum::body::Body>) -> Result<Response<axum::body::Body>, Infallible> {
    Ok(Response::new(axum::body::Body::from(Bytes::from_static(b"hello"))))
}

fn request(peer: IpAddr) -> Request<axum::body::Body> {
    let mut request = Request::new(axum::body::Body::empty());
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(peer, 1)));
    request
}

fn bench_service<S, B>(group: &mut Group<'_>, name: &str, mut service: S)
where
    S: Service<Request<axum::body::Body>, Response = Response<B>>,
{
    let mut peers = addresses();
    group.bench_function(name, |b| {
        b.iter(|| {
            let response = service.call(request(peers.next().expect("endless")));
            black_box(response.now_or_never().expect("ready").is_ok())
        });
    });
}

type Group<'c> = criterion::BenchmarkGroup<'c, criterion::measurement::WallTime>;

fn layers(c: &mut Criterion) {
    let mut group = c.benchmark_group("layer");
    bench_service(&mut group, "no layer", service_fn(hello));
    let families: [(&str, &[Dialect]); 2] =
        [("no fields", &[]), ("fields", &[Dialect::XRatelimit, Dialect::RetryAfter])];
    for (name, dialects) in families {
        let (limiter, policy) = limiter(Algorithm::TokenBucket, dialects);
        let layer = RateLimitLayer::new(&limiter, [policy]);
        bench_service(&mut group, &format!("tollgate, {name}"), layer.layer(service_fn(hello)));
    }
    let mut builder = GovernorConfigBuilder::default();
    builder.per_nanosecond(10).burst_size(PER_SECOND);
    let config = builder.finish().expect("a configuration");
    let layer = GovernorLayer::new(config);
    bench_service(&mut group, "tower_governor, no fields", layer.layer(service_fn(hello)));
    let config = builder.use_headers().finish().expect("a configuration");
    let layer = GovernorLayer::new(config);
    bench_service(&mut group, "tower_governor, fields", layer.layer(service_fn(hello)));
    group.finish();
}

criterion_group!(benches, checks, layers);
criterion_main!(benches);

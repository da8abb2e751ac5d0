//! An application with the library and a gateway on one Redis: one counter, and the decisions of
//! a sequence in one place.

use std::net::SocketAddr;
use std::time::Duration;

use tollgate_limiter::{Key, Limiter, Policy, RateLimitLayer, Store};
use tower::ServiceExt as _;

use super::{node, wait_for_store};
use crate::support::redis::shared_server;

/// One request of the application, from another node of its clients: its status and what
/// remains.
async fn ask(app: &axum::Router, tenant: &str) -> (u16, String) {
    let peer: SocketAddr = "127.0.0.1:9".parse().expect("an address");
    let request = http::Request::get("/")
        .header("x-client", tenant)
        .extension(axum::extract::ConnectInfo(peer))
        .body(axum::body::Body::empty())
        .expect("a request");
    let response = app.clone().oneshot(request).await.expect("no error");
    let remaining = response.headers()["x-ratelimit-remaining"].to_str().expect("a number");
    (response.status().as_u16(), remaining.to_owned())
}

#[test]
fn an_application_and_a_gateway_share_their_counters() {
    let redis = shared_server();
    let url = redis.url();
    let gateway = node(&format!("url: \"{url}\""), "limit: 8/day, algorithm: fixed_window");
    wait_for_store(&gateway);
    let mut client = gateway.client();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
    let policy =
        Policy::new("each", Key::Header("x-client".into()), "8/day".parse().expect("a limit"))
            .algorithm(tollgate_limiter::Algorithm::FixedWindow);
    let limiter = Limiter::builder()
        .policy(policy)
        .store(Store::redis(&url).expect("a URL").timeout(Duration::from_secs(5)))
        .build()
        .expect("a limiter");
    let layer = RateLimitLayer::new(&limiter, [limiter.policy("each").expect("a policy")]);
    let app = axum::Router::new().fallback(async || "hello").layer(layer);
    runtime.block_on(limiter.ready());
    for remaining in (0..8_u64).rev() {
        if remaining % 2 == 0 {
            let response = client.get("/", &["X-Client: application"]);
            let told = response.number("X-Ratelimit-Remaining");
            assert_eq!((response.status, told), (200, remaining));
        } else {
            let told = runtime.block_on(ask(&app, "application"));
            assert_eq!(told, (200, remaining.to_string()));
        }
    }
    assert_eq!(client.get("/", &["X-Client: application"]).status, 429);
    assert_eq!(runtime.block_on(ask(&app, "application")).0, 429);
    runtime.block_on(limiter.close());
}

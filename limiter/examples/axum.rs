//! Limits in an axum application on a multi-threaded runtime: ten requests a minute for each
//! address, by counters in memory. With REDIS_URL, the counters are in Redis.
//!
//!     cargo run --package tollgate-limiter --features axum,redis --example axum
//!     for n in $(seq 12); do curl --silent --output /dev/null --write-out '%{http_code}\n' 127.0.0.1:3000; done

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::routing::get;
use axum::{Extension, Router};
use tollgate_limiter::{Decision, Key, Limiter, Policy, RateLimitLayer, Store};

/// The layer hands the decision to the handler.
async fn hello(Extension(decision): Extension<Arc<Decision>>) -> String {
    decision.reports().map(|report| format!("{report}\n")).collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = match std::env::var("REDIS_URL") {
        Ok(url) => Store::redis(&url)?,
        Err(_) => Store::memory(100_000),
    };
    let limiter = Limiter::builder()
        .policy(Policy::new("per-client", Key::Ip, "10/minute".parse()?))
        .store(store)
        .build()?;
    limiter.ready().await;
    let layer = RateLimitLayer::new(&limiter, [limiter.policy("per-client")?]);
    let app = Router::new().route("/", get(hello)).layer(layer);
    let socket = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(socket, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    limiter.close().await;
    Ok(())
}

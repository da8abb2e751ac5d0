//! Limits around a service of plain hyper: two requests of each address at the same time, and
//! ten a minute.
//!
//!     cargo run --package tollgate-limiter --features tower --example hyper
//!     for n in $(seq 12); do curl --silent --output /dev/null --write-out '%{http_code}\n' 127.0.0.1:3000; done

use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tollgate_limiter::{Algorithm, Key, Limiter, Policy, RateLimitLayer};
use tower::Layer as _;
use tower::service_fn;

async fn hello(
    _request: http::Request<Incoming>,
) -> Result<http::Response<Full<Bytes>>, Infallible> {
    Ok(http::Response::new(Full::from("hello\n")))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let in_progress = Policy::new("in-progress", Key::Ip, "2".parse()?);
    let limiter = Limiter::builder()
        .policy(Policy::new("per-client", Key::Ip, "10/minute".parse()?))
        .policy(in_progress.algorithm(Algorithm::Concurrency))
        .build()?;
    let policies = [limiter.policy("per-client")?, limiter.policy("in-progress")?];
    let layer = RateLimitLayer::new(&limiter, policies);
    let socket = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    loop {
        let (stream, peer) = socket.accept().await?;
        // All connections share the counters. Each tells the layer its peer.
        let layer = layer.clone().peer(move |_| Some(peer.ip()));
        let service = TowerToHyperService::new(layer.layer(service_fn(hello)));
        #[allow(clippy::disallowed_methods, reason = "a service on a multi-threaded runtime")]
        tokio::spawn(async move {
            let connection = Builder::new(TokioExecutor::new());
            // A connection that breaks concerns its client alone.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

//! Limits around a server of tonic: ten calls a minute for each address.
//!
//!     cargo run --package tollgate-limiter --features tower --example tonic
//!     cargo run --package tollgate-limiter --features tower --example tonic -- call
//!
//! The second command makes twelve calls and prints their statuses. The example has no generated
//! code: no service is at the path that it calls, so calls within the limit end with
//! `Unimplemented`, and the others with `ResourceExhausted`.

use std::error::Error;
use std::net::SocketAddr;

use tollgate_limiter::{Key, Limiter, Policy, RateLimitLayer};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::server::TcpConnectInfo;
use tonic::transport::{Channel, Server};
use tower::{Service as _, ServiceExt as _};

async fn serve(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::builder()
        .policy(Policy::new("per-client", Key::Ip, "10/minute".parse()?))
        .build()?;
    let layer = RateLimitLayer::new(&limiter, [limiter.policy("per-client")?]).peer(|head| {
        let connection = head.extensions.get::<TcpConnectInfo>()?;
        connection.remote_addr().map(|peer| peer.ip())
    });
    // Services of generated code are added here.
    let services = Routes::default();
    Server::builder().layer(layer).add_routes(services).serve(address).await?;
    Ok(())
}

async fn call(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut channel = Channel::from_shared(format!("http://{address}"))?.connect().await?;
    for _ in 0..12 {
        let request = http::Request::post("/example.Service/Call")
            .header("content-type", "application/grpc")
            .body(Body::empty())?;
        let response = channel.ready().await?.call(request).await?;
        let status = tonic::Status::from_header_map(response.headers());
        let shown =
            status.map_or("Ok".to_owned(), |it| format!("{:?}: {}", it.code(), it.message()));
        #[allow(clippy::print_stdout, reason = "the example prints")]
        {
            println!("{shown}");
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = SocketAddr::from(([127, 0, 0, 1], 3000));
    match std::env::args().nth(1).as_deref() {
        Some("call") => call(address).await,
        _ => serve(address).await,
    }
}

//! Applications with the library, axum and tonic on runtimes of several threads, and a gateway on
//! one Redis: one counter, and the decisions of a sequence in one place.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tollgate_limiter::{Algorithm, Key, Limiter, Policy, RateLimitLayer, Store};
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};

use super::{node, wait_for_store};
use crate::support::Client;
use crate::support::http::{Http, block_on, nothing, request};
use crate::support::redis::shared_server;

/// What a client may do in a day.
const LIMIT: u64 = 8;

/// What a client can ask.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Http(SocketAddr),
    Grpc(SocketAddr),
}

impl Asked {
    /// Asks on a connection of its own: whether the client was admitted, and what remains.
    fn ask(self, client: &str) -> (bool, u64) {
        match self {
            Self::Http(address) => {
                let field = format!("X-Client: {client}");
                let response = Client::connect(address).get("/", &[&field]);
                assert!([200, 429].contains(&response.status), "{}", response.status);
                (response.status == 200, response.number("X-Ratelimit-Remaining"))
            }
            Self::Grpc(address) => block_on(async {
                let mut call = request("POST", "/a.Service/Call", nothing());
                let fields = call.headers_mut();
                fields.insert("content-type", "application/grpc".parse().expect("a value"));
                fields.insert("x-client", client.parse().expect("a value"));
                let connection = Http::prior_knowledge(address).await;
                let answer = connection.ask(call).await.expect("an answer");
                let text = |name: &str| answer.headers[name].to_str().expect("a text").to_owned();
                let status = text("grpc-status");
                // An admitted call finds that there is no such service.
                assert!(["12", "8"].contains(&&*status), "{status}");
                (status == "12", text("x-ratelimit-remaining").parse().expect("a number"))
            }),
        }
    }
}

/// A limiter with the gateway's policy, for one application.
fn limiter(url: &str) -> Limiter {
    let limit = format!("{LIMIT}/day").parse().expect("a limit");
    let policy = Policy::new("each", Key::Header("x-client".into()), limit);
    Limiter::builder()
        .policy(policy.algorithm(Algorithm::FixedWindow))
        .store(Store::redis(url).expect("a URL").timeout(Duration::from_secs(5)))
        .build()
        .expect("a limiter")
}

fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::new(limiter, [limiter.policy("each").expect("a policy")])
}

fn listener(runtime: &Runtime) -> (TcpListener, SocketAddr) {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

/// Serves axum on the threads of the runtime.
fn with_axum(runtime: &Runtime, limiter: &Limiter) -> Asked {
    let (listener, address) = listener(runtime);
    let app = axum::Router::new().fallback(async || "hello").layer(layer(limiter));
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    runtime.spawn(async { axum::serve(listener, app).await });
    Asked::Http(address)
}

/// Serves tonic, without a service, on the threads of the runtime.
fn with_tonic(runtime: &Runtime, limiter: &Limiter) -> Asked {
    let (listener, address) = listener(runtime);
    let layer = layer(limiter).peer(|head| {
        let connection = head.extensions.get::<TcpConnectInfo>()?;
        connection.remote_addr().map(|peer| peer.ip())
    });
    let server = Server::builder().layer(layer).add_routes(Routes::default());
    runtime.spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    Asked::Grpc(address)
}

#[test]
fn applications_and_a_gateway_share_their_counters() {
    let redis = shared_server();
    let url = redis.url();
    let policy = format!("limit: {LIMIT}/day, algorithm: fixed_window");
    let gateway = node(&format!("url: \"{url}\""), &policy);
    wait_for_store(&gateway);
    let runtime = || Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtimes = [runtime(), runtime()].map(|it| it.expect("a runtime"));
    let limiters = [limiter(&url), limiter(&url)];
    for (runtime, limiter) in runtimes.iter().zip(&limiters) {
        runtime.block_on(limiter.ready());
    }
    let servers = [
        Asked::Http(gateway.addresses()[0]),
        with_axum(&runtimes[0], &limiters[0]),
        with_tonic(&runtimes[1], &limiters[1]),
    ];
    for (server, remaining) in servers.iter().cycle().zip((0..LIMIT).rev()) {
        assert_eq!(server.ask("in turn"), (true, remaining), "{server:?}");
    }
    for server in servers {
        assert_eq!(server.ask("in turn"), (false, 0), "{server:?}");
    }

    let at_once = |server: Asked| (0..LIMIT).filter(|_| server.ask("at once").0).count();
    let admitted: usize = thread::scope(|scope| {
        let askers = servers.iter().flat_map(|&it| [it; 2]);
        let threads: Vec<_> = askers.map(|it| scope.spawn(move || at_once(it))).collect();
        threads.into_iter().map(|it| it.join().expect("it does not panic")).sum()
    });
    assert_eq!(admitted, 8);
    for (runtime, limiter) in runtimes.iter().zip(limiters) {
        runtime.block_on(limiter.close());
    }
}

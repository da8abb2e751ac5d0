//! A scripted server of the protocol xDS. It says what a test says, and keeps what it is told.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Response;
use prost::Message;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, pki_types::PrivateKeyDer, pki_types::pem::PemObject as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::broadcast::{self, Sender};
use tokio::task::{LocalSet, spawn_local};
use tokio_rustls::TlsAcceptor;

use crate::support::{Certificates, eventually, read_certificate};

pub(super) const TYPE: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";
const METHOD: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Asked {
    #[prost(string, tag = "1")]
    pub(super) version: String,
    #[prost(message, optional, tag = "2")]
    pub(super) node: Option<Node>,
    #[prost(string, repeated, tag = "3")]
    pub(super) names: Vec<String>,
    #[prost(string, tag = "4")]
    pub(super) kind: String,
    #[prost(string, tag = "5")]
    pub(super) nonce: String,
    #[prost(message, optional, tag = "6")]
    pub(super) error: Option<Fault>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) metadata: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Fault {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Told {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, repeated, tag = "2")]
    resources: Vec<Any>,
    #[prost(string, tag = "4")]
    kind: String,
    #[prost(string, tag = "5")]
    nonce: String,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// The limits of a domain.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Domain {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(message, repeated, tag = "3")]
    descriptors: Vec<Limited>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Limited {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
    #[prost(message, optional, tag = "3")]
    pub(super) limit: Option<Limit>,
    #[prost(message, repeated, tag = "4")]
    pub(super) below: Vec<Limited>,
    #[prost(bool, tag = "5")]
    pub(super) shadow: bool,
    #[prost(bool, tag = "6")]
    pub(super) detailed: bool,
    #[prost(bool, tag = "7")]
    pub(super) quota: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Limit {
    #[prost(int32, tag = "1")]
    pub(super) unit: i32,
    #[prost(uint32, tag = "2")]
    pub(super) requests: u32,
}

/// A domain with these descriptors.
pub(crate) fn domain(name: &str, descriptors: Vec<Limited>) -> Domain {
    Domain { name: format!("resource-{name}"), domain: name.into(), descriptors }
}

/// A descriptor with so many requests in a day.
pub(crate) fn daily(key: &str, requests: u32) -> Limited {
    let limit = Some(Limit { unit: 4, requests });
    Limited { key: key.into(), limit, ..Limited::default() }
}

/// What all connections do.
#[derive(Clone, Debug)]
enum Order {
    Say(Bytes),
    Close,
}

/// The server. Its thread ends with the process.
pub(crate) struct Server {
    address: SocketAddr,
    orders: Sender<Order>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("a free port"), None)
    }

    /// Demands certificates of this authority.
    pub(super) fn with_tls(made: &Certificates) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("a free port"), Some(acceptor(made)))
    }

    pub(super) fn on(listener: TcpListener, tls: Option<TlsAcceptor>) -> Self {
        let address = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("it is a socket");
        let orders = Sender::new(64);
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let server = Self { address, orders: orders.clone(), asked: Arc::clone(&asked) };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            LocalSet::new().block_on(&runtime.expect("a runtime"), async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                let mut closed = orders.subscribe();
                loop {
                    let (stream, _) = tokio::select! {
                        accepted = listener.accept() => accepted.expect("a connection"),
                        // One that is closed twice listens no more.
                        order = closed.recv() => match order {
                            Ok(Order::Close) if asked.lock().expect("it works").is_empty() => return,
                            _ => continue,
                        },
                    };
                    let orders = orders.subscribe();
                    let asked = Arc::clone(&asked);
                    let tls = tls.clone();
                    spawn_local(async move {
                        match tls {
                            None => serve(stream, orders, asked).await,
                            Some(tls) => match tls.accept(stream).await {
                                Ok(stream) => serve(stream, orders, asked).await,
                                Err(_) => None,
                            },
                        }
                    });
                }
            });
        });
        server
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it was asked so far, on all streams.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("it works").clone()
    }

    /// Waits for the question with this index.
    pub(crate) fn nth(&self, index: usize) -> Asked {
        eventually("there is a question", || self.asked().len() > index);
        self.asked()[index].clone()
    }

    /// Says the state on all streams.
    pub(crate) fn say(&self, version: &str, nonce: &str, domains: &[Domain]) {
        let any = |it: &Domain| Any { kind: TYPE.into(), value: it.encode_to_vec() };
        let told = Told {
            version: version.into(),
            resources: domains.iter().map(any).collect(),
            kind: TYPE.into(),
            nonce: nonce.into(),
        };
        let message = told.encode_to_vec();
        let length = u32::try_from(message.len()).expect("it is short").to_be_bytes();
        let framed = [&[0][..], &length, &message].concat();
        // Without a stream nothing is said.
        let _ = self.orders.send(Order::Say(framed.into()));
    }

    /// Closes all connections. The next ones are accepted.
    pub(super) fn close(&self) {
        let _ = self.orders.send(Order::Close);
    }

    /// Closes all connections, and listens no more.
    pub(super) fn stop(self) {
        self.asked.lock().expect("it works").clear();
        self.close();
    }
}

/// Serves the one stream of a connection.
async fn serve<T: AsyncRead + AsyncWrite + Unpin + 'static>(
    stream: T,
    mut orders: broadcast::Receiver<Order>,
    asked: Arc<Mutex<Vec<Asked>>>,
) -> Option<()> {
    let mut connection = h2::server::handshake(stream).await.ok()?;
    let (request, mut respond) = connection.accept().await?.ok()?;
    assert_eq!(request.uri().path(), METHOD);
    assert_eq!(request.headers()["content-type"], "application/grpc");
    let driver = spawn_local(async move { while connection.accept().await.is_some() {} });
    let mut body = request.into_body();
    let reader = spawn_local(async move {
        let mut arrived = Vec::new();
        while let Some(Ok(data)) = body.data().await {
            let _ = body.flow_control().release_capacity(data.len());
            arrived.extend_from_slice(&data);
            while let Some(&[_, a, b, c, d]) = arrived.first_chunk::<5>() {
                let end = 5 + usize::try_from(u32::from_be_bytes([a, b, c, d])).expect("short");
                if arrived.len() < end {
                    break;
                }
                let message = Asked::decode(&arrived[5..end]).expect("a question");
                asked.lock().expect("it works").push(message);
                arrived.drain(..end);
            }
        }
    });
    let mut answer = None;
    while let Ok(Order::Say(bytes)) = orders.recv().await {
        if answer.is_none() {
            let head = Response::builder().header("content-type", "application/grpc").body(());
            answer = respond.send_response(head.expect("a response"), false).ok();
        }
        answer.as_mut()?.send_data(bytes, false).ok()?;
    }
    reader.abort();
    driver.abort();
    None
}

fn acceptor(made: &Certificates) -> TlsAcceptor {
    let mut roots = RootCertStore::empty();
    roots.add(read_certificate(&made.ca())).expect("the test's own authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let key = PrivateKeyDer::from_pem_file(made.server_key()).expect("the test's own key");
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version with suites")
        .with_client_cert_verifier(verifier.build().expect("an authority"))
        .with_single_cert(vec![read_certificate(&made.server())], key)
        .expect("they belong together");
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

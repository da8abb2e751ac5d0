//! Traces, as a collector receives them, decoded with the messages that OpenTelemetry publishes.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::support::redis::{Options, Redis};
use crate::support::{Certificates, Gateway, Origin, PATIENCE, eventually, now};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A collector for OTLP over gRPC.
struct Collector(Sender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.send(request.into_inner()).map_err(|_| Status::cancelled("the test has ended"))?;
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Serves on a thread that ends with the process.
fn collect(sender: Sender<ExportTraceServiceRequest>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    listener.set_nonblocking(true).expect("it is a socket");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let service = TraceServiceServer::new(Collector(sender));
            let served = Server::builder().add_service(service);
            served.serve_with_incoming(TcpIncoming::from(listener)).await
        })
    });
    address
}

/// Ends TLS in front of the collector at `inner`, with the certificate of a test. Serves on a
/// thread that ends with the process.
fn encrypted(made: &Certificates, protocol: &str, inner: SocketAddr) -> SocketAddr {
    let certificate = CertificateDer::from_pem_file(made.server()).expect("the test's own");
    let key = PrivateKeyDer::from_pem_file(made.server_key()).expect("the test's own");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("versions with suites");
    let builder = builder.with_no_client_auth();
    let config = builder.with_single_cert(vec![certificate], key);
    let mut config = config.expect("they belong together");
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    listener.set_nonblocking(true).expect("it is a socket");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            loop {
                let (stream, _) = listener.accept().await.expect("it listens");
                // A client that does not trust the certificate ends here.
                let Ok(mut outer) = acceptor.accept(stream).await else { continue };
                let mut inner = TcpStream::connect(inner).await.expect("the collector listens");
                let _ = copy_bidirectional(&mut outer, &mut inner).await;
            }
        })
    });
    address
}

/// A gateway in front of `origin`, and the directory of its file. Its machine has no certificate
/// authorities, as a bare container: plain HTTP needs none.
fn gateway(origin: &Origin, traces: &str, store: &str) -> (Gateway, TempDir) {
    gateway_that_trusts(Path::new("/dev/null"), origin, traces, store)
}

/// The same on a machine with these certificate authorities.
fn gateway_that_trusts(
    authorities: &Path,
    origin: &Origin,
    traces: &str,
    store: &str,
) -> (Gateway, TempDir) {
    let yaml = format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         client: {{ trusted_proxies: [127.0.0.0/8] }}\n\
         telemetry: {{ access_log: false, traces: {{ {traces} }} }}\n{store}\
         policies: {{ per-key: {{ key: header:x-api-key, limit: 2/minute }} }}\n\
         upstreams: {{ origin: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes: [{{ name: orders, path: \"/orders/{{id}}\", upstream: origin, policies: [per-key] }}]\n",
        origin.address()
    );
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gateway.yaml");
    std::fs::write(&file, yaml).expect("a file");
    let arguments = ["-c", file.to_str().expect("text")];
    let script = format!(
        "SSL_CERT_FILE='{}' SSL_CERT_DIR=/nonexistent exec \"$0\" \"$@\"",
        authorities.display()
    );
    (Gateway::start_by_shell(&script, &arguments), directory)
}

fn spans(request: &ExportTraceServiceRequest) -> impl Iterator<Item = &Span> {
    request.resource_spans.iter().flat_map(|it| &it.scope_spans).flat_map(|it| &it.spans)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_collector_gets_the_spans_of_sampled_requests_over_grpc() {
    let redis = Redis::start(Options::default());
    let origin = Origin::hello();
    let (sender, batches) = channel();
    let traces = format!("otlp: \"http://{}\", sample: 0%", collect(sender));
    let store = format!("store: {{ redis: {{ url: \"{}\" }} }}\n", redis.url());
    let (gateway, _directory) = gateway(&origin, &traces, &store);
    let mut client = gateway.client();
    // Not sampled: neither the client nor the share says so.
    assert_eq!(client.get("/orders/0", &["X-Api-Key: secret-key"]).status, 200);
    for status in [200, 429] {
        let fields = ["X-Api-Key: secret-key", &format!("Traceparent: {PARENT}")];
        assert_eq!(client.get("/orders/secret-order?q=secret", &fields).status, status);
    }
    let batch = batches.recv_timeout(PATIENCE).expect("a batch of both requests");
    let texts = format!("{batch:?}");
    assert!(!texts.contains("secret"), "{texts}");
    assert!(texts.contains("\"tollgate\""), "the service has a name: {texts}");
    let spans: Vec<&Span> = spans(&batch).collect();
    assert!(spans.iter().all(|span| hex(&span.trace_id) == "4bf92f3577b34da6a3ce929d0e0e4736"));
    let mut names = HashMap::<&str, usize>::new();
    spans.iter().for_each(|span| *names.entry(&span.name).or_default() += 1);
    let expected = [("GET /orders/{id}", 2), ("decide", 2), ("redis", 2), ("GET", 1)];
    assert_eq!(names, HashMap::from(expected));
    let server = spans.iter().find(|span| span.name == "GET /orders/{id}").expect("a request");
    assert_eq!(hex(&server.parent_span_id), "00f067aa0ba902b7");
    // The upstream continues the trace below the span of its own request.
    let told = origin.received().into_iter().map(|it| it.fields("traceparent").concat());
    let told: Vec<String> = told.collect();
    assert!(told[0].ends_with("-00"), "{told:?}");
    let to_upstream = spans.iter().find(|span| span.name == "GET").expect("a request");
    let span = hex(&to_upstream.span_id);
    assert_eq!(told[1], format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{span}-01"));
}

#[test]
fn a_collector_gets_spans_over_http_and_the_last_ones_at_the_stop() {
    let origin = Origin::hello();
    let collector = Origin::hello();
    let traces = format!("otlp: \"http://{}\", protocol: http, sample: 100%", collector.address());
    let (mut gateway, _directory) = gateway(&origin, &traces, "");
    assert_eq!(gateway.client().get("/orders/1", &[]).status, 200);
    gateway.terminate();
    gateway.wait();
    let received = collector.received();
    assert_eq!(received[0].line(), "POST /v1/traces HTTP/1.1");
    let batch = ExportTraceServiceRequest::decode(&*received[0].body).expect("an export");
    assert_eq!(spans(&batch).count(), 3, "{batch:?}");
}

/// Only exports without TLS were tested.
#[test]
fn a_collector_with_tls_gets_spans_if_its_authority_is_trusted() {
    let origin = Origin::hello();
    let made = Certificates::temporary("127.0.0.1");
    let (sender, batches) = channel();
    let over_http = Origin::hello();
    let grpc = encrypted(&made, "h2", collect(sender));
    let http = encrypted(&made, "http/1.1", over_http.address());
    for (protocol, address) in [("grpc", grpc), ("http", http)] {
        let traces = format!("otlp: \"https://{address}\", protocol: {protocol}, sample: 100%");
        let (mut gateway, _directory) = gateway_that_trusts(&made.ca(), &origin, &traces, "");
        assert_eq!(gateway.client().get("/orders/1", &[]).status, 200);
        gateway.terminate();
        gateway.wait();
        assert!(!gateway.log().contains("spans are lost"), "{protocol}: {}", gateway.log());
    }
    let batch = batches.recv_timeout(PATIENCE).expect("a batch over gRPC");
    assert_eq!(spans(&batch).count(), 3, "{batch:?}");
    let batch = ExportTraceServiceRequest::decode(&*over_http.received()[0].body);
    assert_eq!(spans(&batch.expect("an export")).count(), 3);
    // The certificate of another authority.
    let other = Certificates::temporary("127.0.0.1");
    for (protocol, address) in [("grpc", grpc), ("http", http)] {
        let traces = format!("otlp: \"https://{address}\", protocol: {protocol}, sample: 100%");
        let (mut gateway, _directory) = gateway_that_trusts(&other.ca(), &origin, &traces, "");
        assert_eq!(gateway.client().get("/orders/1", &[]).status, 200);
        gateway.terminate();
        gateway.wait();
        assert!(gateway.log().contains("spans are lost"), "{protocol}: {}", gateway.log());
    }
    assert!(batches.try_recv().is_err() && over_http.received().len() == 1);
}

#[test]
fn a_collector_that_accepts_and_never_answers_delays_neither_requests_nor_the_stop() {
    let origin = Origin::hello();
    let dead = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = dead.local_addr().expect("it is bound");
    let traces = format!("otlp: \"http://{address}\", sample: 100%");
    let (mut gateway, _directory) = gateway(&origin, &traces, "");
    let mut client = gateway.client();
    // More spans than may wait: two for a refused request.
    for number in 0..2000 {
        let expected = if number < 2 { 200 } else { 429 };
        assert_eq!(client.get("/orders/1", &[]).status, expected);
    }
    let begun = now();
    gateway.terminate();
    assert!(gateway.wait().success());
    assert!(begun.elapsed() < Duration::from_secs(10), "the last spans are given up");
    eventually("the log says so", || gateway.log().contains("the last spans are lost"));
}

//! Endpoints with TLS: which certificates the gateway accepts, and which it presents.

use std::sync::Arc;

use http::Version;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::gateway;
use crate::support::{Backend, Certificates, Gateway, Speaks};

struct Secure {
    backend: Backend,
    made: Certificates,
    _directory: tempfile::TempDir,
}

impl Secure {
    /// A backend with a certificate for `name` that supports these protocols. `asks` is
    /// whether it requests a client certificate.
    fn start(name: &str, protocols: &[&str], asks: bool) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let made = Certificates::make(directory.path(), name);
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(made.ca()).expect("the test's own certificates"))
            .expect("the test's own certificates");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let builder = ServerConfig::builder_with_provider(provider);
        let builder =
            builder.with_safe_default_protocol_versions().expect("the test's own certificates");
        let builder = match asks {
            true => builder
                .with_client_cert_verifier(clients.build().expect("the test's own certificates")),
            false => builder.with_no_client_auth(),
        };
        let certificate =
            CertificateDer::from_pem_file(made.server()).expect("the test's own certificates");
        let key =
            PrivateKeyDer::from_pem_file(made.server_key()).expect("the test's own certificates");
        let mut config =
            builder.with_single_cert(vec![certificate], key).expect("the test's own certificates");
        config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        let backend = Backend::start(Speaks::Tls(Arc::new(config)));
        Self { backend, made, _directory: directory }
    }

    /// A gateway in front of it with these settings.
    fn gateway(&self, host: &str, tls: &str) -> Gateway {
        let endpoint = format!("https://{host}:{}", self.backend.address().port());
        gateway(&[endpoint], &format!("tls: {{ {tls} }}"), "")
    }

    fn ca(&self) -> String {
        format!("ca: {:?}", self.made.ca())
    }
}

/// The client learns no cause. The log has it, with what an operator can do.
fn assert_untrusted(gateway: &Gateway, cause: &str, remedy: &str) {
    let response = gateway.client().get("/", &[]);
    assert_eq!(response.status, 502);
    assert_eq!(response.json()["detail"], "the upstream could not be trusted");
    assert!(gateway.client().get("/", &[]).status == 502);
    let log = gateway.log();
    let mut lines =
        log.lines().filter(|it| it.contains("no connection to an endpoint can be opened"));
    let line = lines.next().expect("the log warns");
    assert!(line.contains(cause) && line.contains(remedy), "{line}");
    assert_eq!(lines.next(), None, "it does not warn of each request");
}

#[test]
fn the_protocol_is_negotiated() {
    for (protocols, version, connections) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2, 1),
        (&["http/1.1"], Version::HTTP_11, 1),
        (&[], Version::HTTP_11, 1),
    ] {
        let secure = Secure::start("127.0.0.1", protocols, false);
        let gateway = secure.gateway("127.0.0.1", &secure.ca());
        let mut client = gateway.client();
        for body in ["one", "two", "three"] {
            assert_eq!(client.request("POST", "/a", &[], body.as_bytes()).text(), body);
        }
        let seen = secure.backend.seen();
        assert!(seen.iter().all(|it| it.version == version), "{protocols:?}");
        if version == Version::HTTP_2 {
            assert_eq!(seen[0].uri, "https://gateway.test/a");
        } else {
            assert_eq!(seen[0].headers["host"], "gateway.test");
        }
        assert_eq!(secure.backend.connections(), connections, "{protocols:?}");
    }
}

#[test]
fn only_a_certificate_for_the_name_by_a_trusted_authority_is_accepted() {
    let secure = Secure::start("backend.test", &["h2"], false);
    let stranger = Secure::start("backend.test", &["h2"], false);
    let ca = secure.ca();
    let other = stranger.ca();
    let name = "tls.server_name of the upstream";
    assert_untrusted(&secure.gateway("127.0.0.1", &ca), "not valid for name", name);
    assert_untrusted(&secure.gateway("localhost", &ca), "not valid for name", name);
    let stranger = secure.gateway("127.0.0.1", &format!("{other}, server_name: backend.test"));
    assert_untrusted(&stranger, "invalid peer certificate", "tls.ca of the upstream");
    let named = secure.gateway("127.0.0.1", &format!("{ca}, server_name: backend.test"));
    assert_eq!(named.client().get("/", &[]).status, 200);
    let careless = secure.gateway("127.0.0.1", "verify: false");
    assert_eq!(careless.client().get("/", &[]).status, 200);
}

#[test]
fn an_endpoint_that_requests_a_client_certificate_gets_it() {
    let secure = Secure::start("127.0.0.1", &["h2", "http/1.1"], true);
    let cert = secure.made.client();
    let key = secure.made.client_key();
    let with =
        secure.gateway("127.0.0.1", &format!("{}, cert: {cert:?}, key: {key:?}", secure.ca()));
    assert_eq!(with.client().get("/", &[]).status, 200);
    let without = secure.gateway("127.0.0.1", &secure.ca());
    assert_eq!(without.client().get("/", &[]).status, 502);
}

/// An endpoint that supports only HTTP/2 refuses the handshake of a connection for a
/// WebSocket. It is healthy.
#[test]
fn a_handshake_for_a_websocket_ejects_no_endpoint() {
    let secure = Secure::start("127.0.0.1", &["h2"], false);
    let endpoint = format!("https://127.0.0.1:{}", secure.backend.address().port());
    let eject = "eject: { consecutive_errors: 2, max_percent: 100% }";
    let gateway = gateway(&[endpoint], &format!("tls: {{ {} }}, {eject}", secure.ca()), "");
    for _ in 0..3 {
        let fields = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"];
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
        let response = gateway.client().get("/", &[&fields[..], &[key]].concat());
        assert_eq!(response.status, 502);
        let detail =
            "the upstream opens no WebSocket: it speaks no HTTP/1.1, or its status is not 101";
        assert_eq!(response.json()["detail"], detail);
    }
    assert!(!gateway.log().contains("an endpoint is ejected"), "{}", gateway.log());
    assert_eq!(gateway.client().get("/", &[]).status, 200);
}

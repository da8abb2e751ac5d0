//! TLS: the choice of certificate, version and protocol, and the identity of clients.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::limiting;
use crate::support::http::{Http, block_on};
use crate::support::{
    Certificates, Client, Gateway, Origin, TlsClient, eventually, read_certificate,
};

const NAME: &str = "gateway.test";

/// An origin behind a gateway with a certificate for [`NAME`].
struct Secure {
    gateway: Gateway,
    origin: Origin,
    made: Certificates,
    _directory: tempfile::TempDir,
}

impl Secure {
    /// With further fields for `tls` and for the listener.
    fn start(tls: &str, listener: &str) -> Self {
        Self::start_with(|_| tls.to_owned(), listener, "key: global, limit: 1000/day")
    }

    fn start_with(tls: impl Fn(&Certificates) -> String, listener: &str, policy: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let made = Certificates::make(directory.path(), NAME);
        let origin = Origin::hello();
        let one = pair(&made.server(), &made.server_key());
        let two = made.sign("other.test");
        let listener = format!(
            "tls: {{ certificates: [{one}, {}], {} }}, {listener}",
            pair(&two.0, &two.1),
            tls(&made)
        );
        let endpoint = format!("http://{}", origin.address());
        let gateway = limiting(&listener, &endpoint, policy, "runtime: { workers: 2 }");
        Self { gateway, origin, made, _directory: directory }
    }

    async fn http1(&self, client: &TlsClient) -> io::Result<Http> {
        let stream = client.connect(self.gateway.address(), NAME).await?;
        Ok(Http::http1(stream).await.expect("no request has been sent yet"))
    }
}

fn pair(certificate: &Path, key: &Path) -> String {
    format!("{{ cert: {certificate:?}, key: {key:?} }}")
}

#[test]
fn the_protocol_is_negotiated_and_the_backend_learns_of_tls() {
    for (offered, agreed) in
        [(&["h2", "http/1.1"][..], Some("h2")), (&["http/1.1"], Some("http/1.1")), (&[], None)]
    {
        let secure = Secure::start("", "");
        let client = TlsClient::offering(&secure.made, offered);
        let address = secure.gateway.address();
        let answer = block_on(async {
            let stream = client.connect(address, NAME).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), agreed.map(str::as_bytes));
            let http = match agreed {
                Some("h2") => Http::http2(stream).await.unwrap(),
                _ => Http::http1(stream).await.unwrap(),
            };
            http.get("/").await
        });
        assert_eq!(answer.status, 200);
        let received = &secure.origin.received()[0];
        assert_eq!(received.fields("x-forwarded-proto"), ["https"]);
        assert_eq!(received.fields("x-forwarded-port"), [address.port().to_string()]);
        assert_eq!(received.fields("host"), [NAME]);
    }
}

/// An idle connection gives back its memory after a second.
#[test]
fn a_request_after_a_pause_is_answered() {
    let secure = Secure::start("", "timeouts: { request_head: 200ms }");
    let client = TlsClient::offering(&secure.made, &["http/1.1"]);
    block_on(async {
        let http = secure.http1(&client).await.unwrap();
        for _ in 0..2 {
            assert_eq!(http.get("/").await.status, 200);
            tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
        }
        assert_eq!(http.get("/").await.status, 200);
    });
}

#[test]
fn http2_is_not_negotiated_if_it_is_disabled() {
    let secure = Secure::start("", "http2: false");
    let client = TlsClient::offering(&secure.made, &["h2", "http/1.1"]);
    block_on(async {
        let stream = client.connect(secure.gateway.address(), NAME).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(Http::http1(stream).await.unwrap().get("/").await.status, 200);
    });
    let only = TlsClient::offering(&secure.made, &["h2"]);
    block_on(only.connect(secure.gateway.address(), NAME)).expect_err("no common protocol");
}

#[test]
fn the_certificate_matches_the_requested_name_or_is_the_first() {
    let secure = Secure::start("", "");
    let client = TlsClient::offering(&secure.made, &["http/1.1"]);
    for (name, file) in
        [(NAME, "server.pem"), ("other.test", "other.test.pem"), ("OTHER.test", "other.test.pem")]
    {
        let stream = block_on(client.connect(secure.gateway.address(), name)).unwrap();
        let shown = &stream.get_ref().1.peer_certificates().unwrap()[0];
        assert_eq!(*shown, read_certificate(&secure.made.ca().with_file_name(file)), "{name}");
    }
    let unknown = block_on(client.connect(secure.gateway.address(), "unknown.test"));
    let unknown = unknown.expect_err("no certificate is for that name").to_string();
    assert!(unknown.contains(NAME) && !unknown.contains("other.test"), "{unknown}");
}

#[test]
fn a_version_older_than_the_oldest_allowed_is_refused() {
    for (oldest, accepts_tls12) in [("1.2", true), ("1.3", false)] {
        let secure = Secure::start(&format!("min_version: \"{oldest}\""), "");
        let connect = |version| {
            let client = TlsClient::speaking(&secure.made, version);
            block_on(client.connect(secure.gateway.address(), NAME)).map(drop)
        };
        assert_eq!(connect(&TLS12).is_ok(), accepts_tls12, "{oldest}");
        connect(&TLS13).expect("the newest version is always accepted");
    }
}

/// How the handshakes of so many connections in turn were done, each with a request.
fn handshakes(secure: &Secure, client: &TlsClient, count: usize) -> Vec<Option<HandshakeKind>> {
    let ask = || {
        block_on(async {
            let stream = client.connect(secure.gateway.address(), NAME).await;
            let stream = stream.expect("it trusts the certificate");
            let kind = stream.get_ref().1.handshake_kind();
            // With TLS 1.3 a ticket arrives after the handshake.
            let http = Http::http1(stream).await.expect("no request has been sent yet");
            assert_eq!(http.get("/").await.status, 200);
            kind
        })
    };
    (0..count).map(|_| ask()).collect()
}

/// There are two workers, and each connection goes to one of them.
#[test]
fn a_session_is_resumed_on_every_worker() {
    let secure = Secure::start("", "");
    for version in [&TLS12, &TLS13] {
        let client = TlsClient::speaking(&secure.made, version);
        let kinds = handshakes(&secure, &client, 13);
        assert_eq!(kinds[0], Some(HandshakeKind::Full));
        assert_eq!(kinds[1..], [Some(HandshakeKind::Resumed); 12]);
    }
}

/// A resumed session does not verify the certificate again, which may have expired.
#[test]
fn a_client_with_a_certificate_shows_it_at_each_connection() {
    let asks = |made: &Certificates| format!("client_ca: {:?}", made.ca());
    let secure = Secure::start_with(asks, "", "key: tls:subject, limit: 1000/day");
    let identity = secure.made.sign("one");
    for version in [&TLS12, &TLS13] {
        let client = TlsClient::showing_in(&secure.made, version, &identity);
        assert_eq!(handshakes(&secure, &client, 4), [Some(HandshakeKind::Full); 4]);
    }
}

#[test]
fn clients_are_counted_by_certificate_and_refused_without_one() {
    let asks = |made: &Certificates| format!("client_ca: {:?}", made.ca());
    let secure = Secure::start_with(asks, "", "key: tls:subject, limit: 2/day");
    let ask = |certificate: &Path, key: &Path| {
        let client = TlsClient::showing(&secure.made, certificate, key);
        block_on(async {
            let http = secure.http1(&client).await.unwrap();
            http.get("/").await.status.as_u16()
        })
    };
    let one = secure.made.sign("one");
    let two = secure.made.sign("two");
    let statuses = |of: &(PathBuf, PathBuf)| [(); 3].map(|()| ask(&of.0, &of.1));
    assert_eq!(statuses(&one), [200, 200, 429]);
    assert_eq!(statuses(&two), [200, 200, 429], "another client has its own counter");

    // With TLS 1.3 the client finishes the handshake before the server has verified it.
    let is_served = |client: &TlsClient| {
        block_on(async {
            let Ok(mut stream) = client.connect(secure.gateway.address(), NAME).await else {
                return false;
            };
            stream.read(&mut [0; 1]).await.is_ok()
        })
    };
    assert!(!is_served(&TlsClient::offering(&secure.made, &["http/1.1"])));
    let directory = tempfile::tempdir().unwrap();
    let stranger = Certificates::make(directory.path(), "stranger");
    let cert = stranger.client();
    let key = stranger.client_key();
    assert!(!is_served(&TlsClient::showing(&secure.made, &cert, &key)));
    assert_eq!(secure.origin.received().len(), 4);
}

#[test]
fn a_stalled_handshake_is_closed() {
    let secure = Secure::start("", "timeouts: { handshake: 200ms }");
    let mut silent = secure.gateway.client();
    let mut stalled = secure.gateway.client();
    // The header of a record of 512 bytes, and two of these bytes.
    stalled.send(&[0x16, 3, 1, 2, 0, 1, 0]);
    assert!(silent.is_closed() && stalled.is_closed());
}

#[test]
fn a_client_without_tls_is_closed_without_harm_to_others() {
    let secure = Secure::start("", "");
    let client = TlsClient::offering(&secure.made, &["http/1.1"]);
    block_on(async {
        let http = secure.http1(&client).await.unwrap();
        let mut plain = Client::connect(secure.gateway.address());
        plain.send(b"GET / HTTP/1.1\r\nHost: gateway.test\r\n\r\n");
        let answer = plain.rest();
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
        assert_eq!(http.get("/").await.status, 200);
    });
    assert_eq!(secure.origin.received().len(), 1);
}

/// The negotiated protocol is used. The bytes are not examined for another one.
#[test]
fn a_protocol_that_was_not_negotiated_reaches_no_backend() {
    let secure = Secure::start("", "");
    let answer_to = |agreed: &str, bytes: &[u8]| {
        let client = TlsClient::offering(&secure.made, &[agreed]);
        block_on(async {
            let mut stream = client.connect(secure.gateway.address(), NAME).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            let mut answer = Vec::new();
            // The connection closes, with an error or without.
            let _ = stream.read_to_end(&mut answer).await;
            answer
        })
    };
    let answer = answer_to("h2", b"GET / HTTP/1.1\r\nHost: gateway.test\r\n\r\n");
    assert!(!answer.starts_with(b"HTTP"), "{}", answer.escape_ascii());
    let answer = answer_to("http/1.1", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert!(answer.starts_with(b"HTTP/1.1 505 "), "{}", answer.escape_ascii());
    assert!(secure.origin.received().is_empty());
}

#[test]
fn changed_certificates_apply_to_new_connections_and_old_ones_stay() {
    let secure = Secure::start("", "");
    let client = TlsClient::offering(&secure.made, &["http/1.1"]);
    let address = secure.gateway.address();
    block_on(async {
        let old = secure.http1(&client).await.unwrap();
        assert_eq!(old.get("/").await.status, 200);
        let cert = secure.made.server();
        let key = secure.made.server_key();
        let before = read_certificate(&cert);
        let (new_cert, new_key) = secure.made.sign(NAME);
        std::fs::rename(new_key, key).unwrap();
        std::fs::rename(new_cert, &cert).unwrap();
        let after = read_certificate(&cert);
        assert_ne!(before, after);
        eventually("the gateway reloads", || secure.gateway.log().contains(" reloaded file="));
        // A client without sessions: a resumed one shows the certificate of its first handshake.
        let fresh = TlsClient::offering(&secure.made, &["http/1.1"]);
        let mut shown = None;
        for _ in 0..4 {
            let stream = fresh.connect(address, NAME).await.unwrap();
            shown = stream.get_ref().1.peer_certificates().map(|chain| chain[0].clone());
            drop(stream);
        }
        assert_eq!(shown, Some(after));
        assert_eq!(old.get("/").await.status, 200, "an old connection stays open");
    });
}

/// A worker that waits for one handshake serves other connections.
#[test]
fn a_slow_handshake_does_not_delay_others() {
    let secure = Secure::start("", "");
    let mut slow = std::net::TcpStream::connect(secure.gateway.address()).unwrap();
    slow.write_all(&[0x16]).unwrap();
    let client = TlsClient::offering(&secure.made, &["http/1.1"]);
    for _ in 0..8 {
        let status = block_on(async {
            let http = secure.http1(&client).await.unwrap();
            http.get("/").await.status
        });
        assert_eq!(status, 200);
    }
}

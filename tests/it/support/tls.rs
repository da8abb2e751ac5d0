//! A client's side of TLS.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Certificates;

/// A client that trusts the authority of a test, and keeps its TLS sessions.
#[derive(Clone)]
pub(crate) struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// Offers these protocols.
    pub(crate) fn offering(made: &Certificates, protocols: &[&str]) -> Self {
        Self::new(made, protocols, &[&TLS13, &TLS12], None)
    }

    /// Supports only this version.
    pub(crate) fn speaking(
        made: &Certificates,
        version: &'static SupportedProtocolVersion,
    ) -> Self {
        Self::new(made, &["http/1.1"], &[version], None)
    }

    /// Presents this certificate, which has this key.
    pub(crate) fn showing(made: &Certificates, certificate: &Path, key: &Path) -> Self {
        Self::new(made, &["http/1.1"], &[&TLS13, &TLS12], Some((certificate, key)))
    }

    /// The same, and supports only this version.
    pub(crate) fn showing_in(
        made: &Certificates,
        version: &'static SupportedProtocolVersion,
        (certificate, key): &(PathBuf, PathBuf),
    ) -> Self {
        Self::new(made, &["http/1.1"], &[version], Some((certificate, key)))
    }

    fn new(
        made: &Certificates,
        protocols: &[&str],
        versions: &[&'static SupportedProtocolVersion],
        identity: Option<(&Path, &Path)>,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(read_certificate(&made.ca())).expect("the test's own authority");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(versions).expect("versions with suites");
        let builder = builder.with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_file(key).expect("the test's own key");
                let chain = vec![read_certificate(certificate)];
                builder.with_client_auth_cert(chain, key).expect("they belong together")
            }
        };
        config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        Self(Arc::new(config))
    }

    /// Connects, and requests this name.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        name: &str,
    ) -> io::Result<TlsStream<TcpStream>> {
        self.over(TcpStream::connect(address).await?, name).await
    }

    /// The same over an existing transport.
    pub(crate) async fn over<T>(&self, transport: T, name: &str) -> io::Result<TlsStream<T>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(name.to_owned()).expect("a good name");
        TlsConnector::from(Arc::clone(&self.0)).connect(name, transport).await
    }
}

/// The first certificate in a file.
pub(crate) fn read_certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("the test's own certificate")
}

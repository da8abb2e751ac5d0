//! The byte stream to a server: TCP or a Unix socket, with or without TLS.

use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, Error, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tollgate_core::store::OutageCause;

use super::failure::StoreError;
use super::settings::{Address, Identity, TlsSettings};

/// The stream of a connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Opens a stream. If a certificate is not for the host, it may be for this `other_name`.
///
/// # Errors
/// If it cannot be opened. The error says why.
pub(super) async fn connect(
    address: &Address,
    tls: Option<&TlsSettings>,
    other_name: Option<&str>,
) -> Result<Box<dyn Stream>, StoreError> {
    let unreachable = |error: io::Error| failed(OutageCause::Unreachable, &error);
    let stream = open(address).await.map_err(unreachable)?;
    match (stream, address, tls) {
        (Opened::Tcp(stream), Address::Tcp { host, .. }, Some(tls)) => {
            let mut encrypted = encrypt(stream, host, tls).await;
            if let (Err(error), Some(name), None) = (&encrypted, other_name, &tls.server_name)
                && is_of_another_name(error)
                && let Opened::Tcp(stream) = open(address).await.map_err(unreachable)?
            {
                encrypted = encrypt(stream, name, tls).await;
            }
            encrypted.map_err(|error| failed(OutageCause::Tls, &error))
        }
        (Opened::Tcp(stream), ..) => Ok(Box::new(stream)),
        (Opened::Unix(stream), ..) => Ok(Box::new(stream)),
    }
}

/// Whether the certificate of a server is good, but for another name.
fn is_of_another_name(error: &io::Error) -> bool {
    let why = error.get_ref().and_then(|why| why.downcast_ref::<Error>());
    matches!(
        why,
        Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        ))
    )
}

enum Opened {
    Tcp(TcpStream),
    Unix(UnixStream),
}

async fn open(address: &Address) -> io::Result<Opened> {
    match address {
        Address::Unix(path) => Ok(Opened::Unix(UnixStream::connect(path).await?)),
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Ok(Opened::Tcp(stream))
        }
    }
}

async fn encrypt(stream: TcpStream, host: &str, tls: &TlsSettings) -> io::Result<Box<dyn Stream>> {
    let name = match &tls.server_name {
        Some(name) => name.clone(),
        None => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
    };
    let connector = TlsConnector::from(Arc::new(client_config(tls)?));
    Ok(Box::new(connector.connect(name, stream).await?))
}

fn failed(cause: OutageCause, error: &io::Error) -> StoreError {
    StoreError::NotConnected(cause, error.to_string())
}

impl Identity {
    /// Checks that certificate and key can be used together.
    ///
    /// # Errors
    /// If they cannot.
    pub fn check(&self) -> Result<(), Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(RootCertStore::empty());
        builder.with_client_auth_cert(self.chain.clone(), self.key.clone_key()).map(drop)
    }
}

fn client_config(tls: &TlsSettings) -> io::Result<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let roots = Arc::new(roots(tls.ca.as_deref())?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_webpki_verifier(verifier.build().map_err(io::Error::other)?);
    let Some(Identity { chain, key }) = &tls.identity else {
        return Ok(builder.with_no_client_auth());
    };
    builder.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(io::Error::other)
}

/// The authorities of the settings, or those that the system trusts.
fn roots(ca: Option<&[CertificateDer<'static>]>) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(authorities) => {
            for certificate in authorities {
                roots.add(certificate.clone()).map_err(io::Error::other)?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

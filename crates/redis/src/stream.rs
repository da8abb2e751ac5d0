//! The byte stream to a server: TCP or a Unix socket, with or without TLS.

use std::io;

use rustls::pki_types::ServerName;
use rustls::{CertificateError, Error};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tollgate_core::store::OutageCause;

use super::failure::StoreError;
use super::settings::Address;
use super::tls::TlsSettings;

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
            if let (Err(error), Some(name), None) =
                (&encrypted, other_name, &tls.parts().server_name)
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
    let name = match &tls.parts().server_name {
        Some(name) => name.clone(),
        None => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
    };
    let connector = TlsConnector::from(tls.client_config().map_err(io::Error::other)?);
    Ok(Box::new(connector.connect(name, stream).await?))
}

fn failed(cause: OutageCause, error: &io::Error) -> StoreError {
    StoreError::NotConnected(cause, error.to_string())
}

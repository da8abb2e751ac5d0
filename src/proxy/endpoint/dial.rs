//! Opening a connection: to an address, through TLS, up to the protocol that
//! both sides speak.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustls::{AlertDescription, Error as TlsError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{http1, http2};
use crate::proxy::fault::Fault;
use crate::proxy::member::{Address, Member, Protocol};

/// What ALPN calls HTTP/2 (RFC 9113, section 3.2).
const ALPN_HTTP2: &[u8] = b"h2";
/// And HTTP/1.1 (RFC 7301, section 6).
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// An open connection.
#[derive(Debug)]
pub(in crate::proxy) enum Dialed {
    /// One request at a time.
    Http1(http1::Connection),
    /// Many.
    Http2(http2::Connection),
}

/// Opens a connection within `limit`.
///
/// # Errors
/// If none can be opened, or not in time.
pub(in crate::proxy) async fn dial(member: &Member, limit: Duration) -> Result<Dialed, Fault> {
    timeout(limit, open(member, &[])).await.map_err(|_| Fault::ConnectTimeout)?
}

/// Opens one of HTTP/1.1, whatever else the other side speaks: it alone can
/// change its protocol.
///
/// # Errors
/// If none can be opened, or not in time.
pub(super) async fn dial_http1(
    member: &Member,
    limit: Duration,
) -> Result<http1::Connection, Fault> {
    let opened = timeout(limit, open(member, &[ALPN_HTTP1])).await;
    match opened.map_err(|_| Fault::ConnectTimeout)?? {
        Dialed::Http1(connection) => Ok(connection),
        Dialed::Http2(_) => Err(Fault::NoTunnel),
    }
}

/// Whose fault it is that no connection can be opened: nothing is said about an
/// endpoint by what this process is out of.
fn unreachable(error: io::Error) -> Fault {
    match Errno::from_io_error(&error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Fault::Exhausted,
        _ => Fault::Unreachable,
    }
}

/// Why there is no TLS. An endpoint that speaks only HTTP/2 refuses a handshake for
/// a tunnel, which offers only HTTP/1.1.
fn untrusted(error: &io::Error, is_for_tunnel: bool) -> Fault {
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    match error {
        Some(TlsError::AlertReceived(AlertDescription::NoApplicationProtocol)) if is_for_tunnel => {
            Fault::NoTunnel
        }
        _ => Fault::Untrusted,
    }
}

/// `protocols` are those of ALPN, if not all that we speak are wanted.
async fn open(member: &Member, protocols: &[&[u8]]) -> Result<Dialed, Fault> {
    let address = match &member.address {
        Address::Socket(address) => address,
        Address::Path(path) => {
            let stream = UnixStream::connect(path).await.map_err(unreachable)?;
            return http1_over(stream).await;
        }
    };
    let stream = TcpStream::connect(address).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    match &member.protocol {
        Protocol::Http1 => http1_over(stream).await,
        Protocol::Http2 => http2_over(stream).await,
        Protocol::Tls { config, server_name } => {
            let mut config = config.clone();
            if !protocols.is_empty() {
                let wanted = protocols.iter().map(|it| it.to_vec()).collect();
                Arc::make_mut(&mut config).alpn_protocols = wanted;
            }
            let connector = TlsConnector::from(config);
            let stream = connector.connect(server_name.clone(), stream).await;
            let stream = stream.map_err(|error| untrusted(&error, !protocols.is_empty()))?;
            match stream.get_ref().1.alpn_protocol() {
                Some(ALPN_HTTP2) => http2_over(stream).await,
                _ => http1_over(stream).await,
            }
        }
    }
}

async fn http1_over<T>(stream: T) -> Result<Dialed, Fault>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Connection::over(stream).await;
    connection.map(Dialed::Http1).map_err(|_| Fault::Unreachable)
}

async fn http2_over<T>(stream: T) -> Result<Dialed, Fault>
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    http2::Connection::over(stream).await.map(Dialed::Http2)
}

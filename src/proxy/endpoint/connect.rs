//! Opens connections: to an address, through TLS, and with the HTTP version that both
//! sides support.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustls::{AlertDescription, Error as TlsError};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::counted::Counted;
use super::stream::Transport;
use super::{http1, http2};
use crate::proxy::endpoint_shared::{Address, EndpointShared, Protocol};
use crate::proxy::fault::Fault;
use crate::proxy::limit::ConnectionPermit;
use crate::proxy::tls::HandshakeFailure;
use crate::telemetry::UpstreamTraffic;

/// The ALPN name of HTTP/2 (RFC 9113, section 3.2).
const ALPN_HTTP2: &[u8] = b"h2";
/// The ALPN name of HTTP/1.1 (RFC 7301, section 6).
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// A new connection.
#[derive(Debug)]
pub enum NewConnection {
    /// Carries one request at a time.
    Http1(Box<http1::Connection>),
    /// Carries many requests at once.
    Http2(http2::Connection),
}

/// Opens a connection within `limit`. Its bytes are counted in `traffic`. It keeps `permit` until it
/// is closed.
///
/// # Errors
/// If none can be opened in time.
pub async fn connect(
    endpoint: &EndpointShared,
    limit: Duration,
    traffic: &UpstreamTraffic,
    permit: Option<ConnectionPermit>,
) -> Result<NewConnection, Fault> {
    timeout(limit, open(endpoint, &[], traffic, permit)).await.map_err(|_| Fault::ConnectTimeout)?
}

/// Opens a connection of HTTP/1.1, even if the endpoint also supports HTTP/2: only
/// HTTP/1.1 can change its protocol.
///
/// # Errors
/// If none can be opened in time.
pub async fn connect_http1(
    endpoint: &EndpointShared,
    limit: Duration,
    traffic: &UpstreamTraffic,
    permit: Option<ConnectionPermit>,
) -> Result<Box<http1::Connection>, Fault> {
    let opened = timeout(limit, open(endpoint, &[ALPN_HTTP1], traffic, permit)).await;
    match opened.map_err(|_| Fault::ConnectTimeout)?? {
        NewConnection::Http1(connection) => Ok(connection),
        NewConnection::Http2(_) => Err(Fault::NoTunnel),
    }
}

/// The fault if no connection can be opened. A lack of resources in this process is no
/// fault of the endpoint.
fn unreachable(error: io::Error) -> Fault {
    match Errno::from_io_error(&error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Fault::Exhausted,
        _ => Fault::Unreachable,
    }
}

/// The fault if the TLS handshake fails, whose cause is kept for the log. An endpoint that supports
/// only HTTP/2 refuses the handshake for a tunnel, which offers only HTTP/1.1.
fn untrusted(endpoint: &EndpointShared, error: &io::Error, is_for_tunnel: bool) -> Fault {
    let why = error.get_ref().and_then(|error| error.downcast_ref());
    match why {
        Some(TlsError::AlertReceived(AlertDescription::NoApplicationProtocol)) if is_for_tunnel => {
            Fault::NoTunnel
        }
        _ => {
            endpoint.handshake_failed(HandshakeFailure::of(error));
            Fault::Untrusted
        }
    }
}

/// `protocols` are the ALPN names to offer; if empty, those of the TLS settings.
async fn open(
    endpoint: &EndpointShared,
    protocols: &[&[u8]],
    traffic: &UpstreamTraffic,
    permit: Option<ConnectionPermit>,
) -> Result<NewConnection, Fault> {
    let address = match &endpoint.address {
        Address::Socket(address) => address,
        Address::Path(path) => {
            let stream = UnixStream::connect(path).await.map_err(unreachable)?;
            return Ok(http1_over(stream, traffic, permit));
        }
    };
    let stream = TcpStream::connect(address).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    match &endpoint.protocol {
        Protocol::Http1 => Ok(http1_over(stream, traffic, permit)),
        Protocol::Http2 => http2_over(stream, traffic, permit).await,
        Protocol::Tls { config, server_name } => {
            let mut config = config.clone();
            if !protocols.is_empty() {
                let wanted = protocols.iter().map(|it| it.to_vec()).collect();
                Arc::make_mut(&mut config).alpn_protocols = wanted;
            }
            let connector = TlsConnector::from(config);
            let stream = connector.connect(server_name.clone(), stream).await;
            let is_for_tunnel = !protocols.is_empty();
            let stream = stream.map_err(|error| untrusted(endpoint, &error, is_for_tunnel))?;
            match stream.get_ref().1.alpn_protocol() {
                Some(ALPN_HTTP2) => http2_over(stream, traffic, permit).await,
                _ => Ok(http1_over(stream, traffic, permit)),
            }
        }
    }
}

fn http1_over(
    stream: impl Transport,
    traffic: &UpstreamTraffic,
    permit: Option<ConnectionPermit>,
) -> NewConnection {
    let stream = Box::new(Counted::new(stream, traffic, permit));
    NewConnection::Http1(http1::Connection::over(stream))
}

async fn http2_over(
    stream: impl Transport,
    traffic: &UpstreamTraffic,
    permit: Option<ConnectionPermit>,
) -> Result<NewConnection, Fault> {
    http2::Connection::over(Counted::new(stream, traffic, permit)).await.map(NewConnection::Http2)
}

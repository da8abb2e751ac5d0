//! One connection with one stream.
//!
//! The connection counts as open when the server has answered a PING, because a server that has
//! nothing to tell sends nothing on the stream itself.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use h2::client::{Builder, ResponseFuture};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Version};
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::messages::DiscoveryRequest;
use crate::check::settings::XdsSettings;
use crate::grpc::{FrameError, PREFIX_BYTES, frame, length_of};
use crate::proxy::{Target, TlsSettings, lookup};

const METHOD: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("tollgate/", env!("CARGO_PKG_VERSION")));
/// How long a connection, a handshake or the answer to a PING may take.
const LIMIT: Duration = Duration::from_secs(10);
/// After this time without a byte the system asks whether the server is there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How many addresses of a name are tried.
const MAX_ADDRESSES: usize = 4;
const WINDOW_BYTES: u32 = 1024 * 1024;
const MAX_FIELDS_BYTES: u32 = 64 * 1024;
/// The longest text of the server that a message quotes, in characters.
const MAX_QUOTED: usize = 200;

/// Why there is no stream any more.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The name has no address.
    #[error("the name cannot be looked up: {0}")]
    Lookup(io::Error),
    /// There is no connection.
    #[error("it cannot be reached: {0}")]
    Unreachable(io::Error),
    /// The TLS handshake has failed.
    #[error("the TLS handshake failed: {0}")]
    Tls(io::Error),
    /// Something took too long.
    #[error("it has not answered for {0:?}")]
    Silent(Duration),
    /// The server wants fewer PINGs.
    #[error("it wants fewer PINGs")]
    TooManyPings,
    /// HTTP/2 has failed.
    #[error("the connection failed: {0}")]
    Http2(h2::Error),
    /// The response is none of gRPC.
    #[error("it has answered with the status {0} of HTTP")]
    Status(u16),
    /// The server has ended the call.
    #[error("it has ended the stream with the code {code} of gRPC: {message}")]
    Call {
        /// The code. 0 if the stream ended without a mistake.
        code: String,
        /// Its message.
        message: String,
    },
    /// A message is too large or compressed.
    #[error("its message cannot be read: {0} (see check.grpc.xds.max_message)")]
    Frame(#[from] FrameError),
    /// A message is not one of the protocol.
    #[error("its message is malformed: {0}")]
    Malformed(#[from] prost::DecodeError),
}

impl From<h2::Error> for Ended {
    fn from(error: h2::Error) -> Self {
        match error.reason() {
            Some(Reason::ENHANCE_YOUR_CALM) => Self::TooManyPings,
            _ => Self::Http2(error),
        }
    }
}

trait Transport: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Transport for T {}

/// A stream on a connection of its own.
pub struct Stream {
    requests: SendStream<Bytes>,
    response: Response,
    /// What has arrived of the next message.
    arrived: BytesMut,
    most_bytes: usize,
    /// Returns when the server does not answer any more.
    silence: Pin<Box<dyn Future<Output = Ended>>>,
    driver: Driver,
}

enum Response {
    Expected(ResponseFuture),
    Begun(RecvStream),
}

/// The task of a connection, which ends with the stream.
struct Driver(JoinHandle<Result<(), h2::Error>>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Stream {
    /// Opens a stream with this first request. A PING follows each time that `ping_each` has passed.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn open(
        settings: &XdsSettings,
        first: &DiscoveryRequest,
        ping_each: Duration,
    ) -> Result<Self, Ended> {
        let transport = connect(settings).await?;
        let handshake = Builder::new()
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_header_list_size(MAX_FIELDS_BYTES)
            .enable_push(false)
            .handshake(transport);
        let (sender, mut connection) = in_time(handshake).await??;
        let mut pings = connection.ping_pong().expect("it is taken once");
        let driver = Driver(spawn_local(connection));
        in_time(pings.ping(Ping::opaque())).await??;
        let mut sender = in_time(sender.ready()).await??;
        let (response, mut requests) = sender.send_request(request(settings), false)?;
        requests.send_data(frame(first), false)?;
        Ok(Self {
            requests,
            response: Response::Expected(response),
            arrived: BytesMut::new(),
            most_bytes: settings.max_bytes,
            silence: Box::pin(silence(pings, ping_each)),
            driver,
        })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If the stream has ended.
    pub fn send(&mut self, request: &DiscoveryRequest) -> Result<(), Ended> {
        Ok(self.requests.send_data(frame(request), false)?)
    }

    /// The bytes of the next message. The future may be dropped, and nothing is lost.
    ///
    /// # Errors
    /// If the stream has ended.
    pub async fn next(&mut self) -> Result<Bytes, Ended> {
        let ended = tokio::select! {
            next = next(&mut self.response, &mut self.arrived, self.most_bytes) => match next {
                Err(Ended::Http2(error)) => Ended::Http2(error),
                other => return other,
            },
            ended = &mut self.silence => return Err(ended),
        };
        // The error of the connection says more than that of its stream.
        match timeout(Duration::from_secs(1), &mut self.driver.0).await {
            Ok(Ok(Err(error))) => Err(error.into()),
            _ => Err(ended),
        }
    }
}

/// The bytes of the next message.
async fn next(
    response: &mut Response,
    arrived: &mut BytesMut,
    most_bytes: usize,
) -> Result<Bytes, Ended> {
    let body = match response {
        Response::Begun(body) => body,
        Response::Expected(expected) => {
            let (head, body) = expected.await?.into_parts();
            if !head.status.is_success() {
                return Err(Ended::Status(head.status.as_u16()));
            }
            if head.headers.contains_key("grpc-status") {
                return Err(of_call(&head.headers));
            }
            *response = Response::Begun(body);
            let Response::Begun(body) = response else { unreachable!("it has just begun") };
            body
        }
    };
    loop {
        if let Some(prefix) = arrived.first_chunk::<PREFIX_BYTES>() {
            let length = length_of(*prefix, most_bytes)?;
            let whole = PREFIX_BYTES + length;
            if arrived.len() >= whole {
                arrived.advance(PREFIX_BYTES);
                let message = arrived.split_to(length).freeze();
                if arrived.is_empty() {
                    // The buffer of a large message is not kept for the next one.
                    *arrived = BytesMut::new();
                }
                return Ok(message);
            }
            arrived.reserve(whole - arrived.len());
        }
        match body.data().await {
            Some(data) => {
                let data = data?;
                body.flow_control().release_capacity(data.len())?;
                arrived.extend_from_slice(&data);
            }
            None => return Err(of_call(&body.trailers().await?.unwrap_or_default())),
        }
    }
}

/// What the server says of the end of the call.
fn of_call(fields: &HeaderMap) -> Ended {
    let text = |name: &str| {
        let value = fields.get(name).map(HeaderValue::as_bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(value);
        text.chars().filter(|it| !it.is_control()).take(MAX_QUOTED).collect::<String>()
    };
    Ended::Call { code: text("grpc-status"), message: text("grpc-message") }
}

async fn in_time<T>(work: impl Future<Output = T>) -> Result<T, Ended> {
    timeout(LIMIT, work).await.map_err(|_| Ended::Silent(LIMIT))
}

/// Sends PINGs, and returns when one has no answer.
async fn silence(mut pings: PingPong, each: Duration) -> Ended {
    loop {
        sleep(each).await;
        match in_time(pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return error.into(),
            Err(silent) => return silent,
        }
    }
}

fn request(settings: &XdsSettings) -> Request<()> {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let authority = settings.server.authority().map_or("", Authority::as_str);
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = format!("{scheme}://{authority}{METHOD}")
        .parse()
        .expect("an authority and a path are a URI");
    let fields = request.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    fields.insert(TE, HeaderValue::from_static("trailers"));
    fields.insert(USER_AGENT, AGENT);
    request
}

/// A connection to the server, with TLS if the settings say so.
async fn connect(settings: &XdsSettings) -> Result<Box<dyn Transport>, Ended> {
    let name = settings.server.authority().map(ToString::to_string).unwrap_or_default();
    let addresses = lookup(name).await.map_err(Ended::Lookup)?;
    let mut failed = Ended::Lookup(io::Error::other("there is no address"));
    for address in addresses.into_iter().take(MAX_ADDRESSES) {
        match connect_to(address, settings).await {
            Ok(transport) => return Ok(transport),
            Err(ended) => failed = ended,
        }
    }
    Err(failed)
}

async fn connect_to(
    address: SocketAddr,
    settings: &XdsSettings,
) -> Result<Box<dyn Transport>, Ended> {
    let tcp = in_time(TcpStream::connect(address)).await?.map_err(Ended::Unreachable)?;
    // Small requests are sent at once. If this is not possible, they are sent later.
    drop(tcp.set_nodelay(true));
    // A server that is gone is noticed although PINGs may be rare.
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(LIMIT);
    drop(SockRef::from(&tcp).set_tcp_keepalive(&keepalive));
    match (&settings.server, &settings.tls) {
        (Target::Https(_, host), Some(tls)) => encrypted(tcp, host, tls).await,
        _ => Ok(Box::new(tcp)),
    }
}

async fn encrypted(
    tcp: TcpStream,
    host: &ServerName<'static>,
    tls: &TlsSettings,
) -> Result<Box<dyn Transport>, Ended> {
    let (config, name) = tls.for_host(host);
    let handshake = TlsConnector::from(config).connect(name, tcp);
    let stream = in_time(handshake).await?.map_err(Ended::Tls)?;
    Ok(Box::new(stream))
}

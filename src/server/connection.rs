//! One connection, from accept to close: the handshakes before HTTP, and the choice of
//! the HTTP version.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use rustls::ServerConfig;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;
use tollgate_core::drain::Drain;
use tollgate_core::time::monotonic;
use tracing::debug;

use super::drive::End;
use super::http1::{Ended, Http1, Served};
use super::http2::{self, PREFACE};
use super::service::RequestService;
use super::settings::ListenerSettings;
use super::state::activity::{Activity, Watched};
use super::state::exchange::{Exchange, Phase};
use super::state::{ClientLink, Peer, Place};
use super::ticker::{Ticker, idle_drain};
use super::transport::identity::identity;
use super::transport::proxy_protocol::{self, ProxyProtocolError};
use super::transport::{ALPN_HTTP2, MAX_AT_ONCE, Socket, Stream, Transport};
use crate::boxed::boxed;
use crate::telemetry::{ConnectionMetrics, Traffic};

/// What the connections of a listener have in common on one worker.
pub struct Protocols {
    settings: Arc<ListenerSettings>,
    tls: Option<TlsAcceptor>,
    ticker: Ticker,
    http1: Http1,
    metrics: Option<Rc<ConnectionMetrics>>,
}

impl Protocols {
    /// For a listener with these settings, of which `tls` was made. Must run on a worker's local
    /// runtime. The `drain` is held until this value is dropped.
    pub fn new(
        settings: Arc<ListenerSettings>,
        tls: Option<Arc<ServerConfig>>,
        metrics: Option<Rc<ConnectionMetrics>>,
        drain: Drain,
    ) -> Self {
        let ticker = Ticker::new(Activity::interval(&settings.timeouts), drain);
        let http1 = Http1::new(Arc::clone(&settings), ticker.clone());
        Self { settings, tls: tls.map(TlsAcceptor::from), ticker, http1, metrics }
    }
}

impl Protocols {
    /// Whether the listener is for this client.
    pub fn are_for(&self, peer: &Peer) -> bool {
        self.settings.callers.include(peer.address.ip(), peer.uid)
    }

    /// Whether anything comes before HTTP.
    fn have_handshake(&self) -> bool {
        self.settings.proxy_protocol.is_some() || self.tls.is_some()
    }

    /// Counts the result of a TLS handshake, if the listener uses TLS.
    fn count_handshake(&self, result: &'static str) {
        if let (Some(metrics), Some(_)) = (&self.metrics, &self.tls) {
            metrics.handshake(result);
        }
    }
}

/// The HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

/// Why a connection was closed before HTTP.
#[derive(Debug, thiserror::Error)]
enum HandshakeError {
    #[error("{0} is not a trusted proxy, and only trusted proxies may connect here")]
    NotTrusted(SocketAddr),
    #[error(transparent)]
    ProxyProtocol(#[from] ProxyProtocolError),
    #[error("TLS: {0}")]
    Tls(io::Error),
}

impl HandshakeError {
    /// Its name in metrics.
    const fn name(&self) -> &'static str {
        match self {
            Self::NotTrusted(_) => "not_trusted",
            Self::ProxyProtocol(_) => "proxy_protocol",
            Self::Tls(_) => "tls",
        }
    }
}

/// Serves one connection to its end, with the service that `service` makes for its peer, and
/// counts it. If it has a place that another connection takes, it ends at once.
pub async fn serve<F, S>(
    transport: Transport,
    peer: Peer,
    place: Option<Arc<Place>>,
    protocols: Rc<Protocols>,
    mut drain: Drain,
    service: &F,
) where
    F: Fn(Peer, Option<ClientLink>, &ListenerSettings) -> S,
    S: RequestService,
{
    let ended = {
        let served = serve_requests(transport, peer, &place, &protocols, &mut drain, service);
        let mut served = pin!(served);
        match &place {
            None => served.await,
            Some(place) => tokio::select! {
                biased;
                ended = &mut served => ended,
                () = place.given_up() => Ended::Closed("gave_way"),
            },
        }
    };
    if let Some(metrics) = &protocols.metrics {
        metrics.ended(ended.cause());
    }
    // The stop need not wait for the closing.
    drop((protocols, drain));
    ended.close().await;
}

/// Serves one connection. Returns how it has ended.
async fn serve_requests<F, S>(
    transport: Transport,
    peer: Peer,
    place: &Option<Arc<Place>>,
    protocols: &Protocols,
    drain: &mut Drain,
    service: &F,
) -> Ended
where
    F: Fn(Peer, Option<ClientLink>, &ListenerSettings) -> S,
    S: RequestService,
{
    let settings = &protocols.settings;
    let (mut stream, peer) = match open(transport, peer, protocols).await {
        Ok(opened) => opened,
        Err(cause) => return Ended::Closed(cause),
    };
    let activity = |since| {
        let traffic = Traffic::new(protocols.metrics.clone());
        Activity::new(since, settings.demand(), Watched { traffic, place: place.clone() })
    };
    let opened = monotonic();
    let version = detect(&mut stream, protocols, drain).await;
    if let (Version::Http2, Some(bounds)) = (version, settings.http2) {
        let ticks = protocols.ticker.ticks();
        let drain = drain.clone();
        let address = peer.address;
        let service = service(peer, None, settings);
        let activity = activity(opened);
        let served =
            boxed(|| http2::serve(stream, bounds, settings, activity, ticks, drain, service));
        let end = served.await;
        if let End::Excess(bound) = end {
            debug!(%address, bound, "a connection of HTTP/2 is closed: its client sends too much");
        }
        return Ended::Closed(end.name());
    }
    let mut exchange = Exchange::new(activity(opened), Phase::Opening);
    loop {
        // Boxed, so that an idle connection keeps no memory for its next request.
        let served =
            boxed(|| protocols.http1.serve(stream, peer.clone(), exchange, drain, service));
        let (idle, since) = match served.await {
            Served::Ended(ended) => return ended,
            Served::Idle(idle, since) => (idle, since),
        };
        // Boxed, because few connections rest.
        match boxed(|| protocols.http1.rest(idle, since, drain)).await {
            Ok(awake) => stream = awake,
            Err(ended) => return ended,
        }
        exchange = Exchange::new(activity(since), Phase::Idle);
    }
}

/// Performs what comes before HTTP, if anything does, within the time for it.
///
/// # Errors
/// Why the connection has ended.
async fn open(
    transport: Transport,
    peer: Peer,
    protocols: &Protocols,
) -> Result<(Stream, Peer), &'static str> {
    let socket = Socket::new(transport);
    let address = peer.address;
    if !protocols.have_handshake() {
        return Ok((Either::Left(socket), peer));
    }
    // Boxed, so that a connection keeps no memory for it.
    let handshake = boxed(|| handshake(socket, peer, protocols));
    match timeout(protocols.settings.timeouts.handshake, handshake).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => {
            debug!(%address, %error, "a connection is closed");
            Err(error.name())
        }
        Err(_) => {
            debug!(%address, "a connection is closed: its handshake takes too long");
            protocols.count_handshake("timeout");
            Err("handshake_timeout")
        }
    }
}

/// Performs what comes before HTTP: the PROXY protocol, then TLS.
async fn handshake(
    mut socket: Socket,
    mut peer: Peer,
    protocols: &Protocols,
) -> Result<(Stream, Peer), HandshakeError> {
    if let Some(trusted) = &protocols.settings.proxy_protocol {
        let ip = peer.address.ip().to_canonical();
        if !trusted.iter().any(|block| block.contains(&ip)) {
            return Err(HandshakeError::NotTrusted(peer.address));
        }
        match proxy_protocol::read(&mut socket).await? {
            Some(addresses) => (peer.address, peer.local) = (addresses.client, addresses.local),
            None => peer.may_forward = false,
        }
    }
    let Some(tls) = &protocols.tls else {
        return Ok((Either::Left(socket), peer));
    };
    let accepted = tls.accept(socket).await;
    protocols.count_handshake(if accepted.is_ok() { "ok" } else { "failed" });
    let stream = accepted.map_err(HandshakeError::Tls)?;
    let (_, session) = stream.get_ref();
    peer.is_encrypted = true;
    peer.identity = session
        .peer_certificates()
        .and_then(|chain| chain.first())
        .and_then(|certificate| identity(certificate));
    Ok((Either::Right(Box::new(stream)), peer))
}

/// The HTTP version that a client uses: with TLS the one that was negotiated, else the
/// one that its first bytes show (RFC 9113, section 3.3). If a client sends nothing in
/// time, or until a drain ends the connection, HTTP/1 is assumed, which can answer it.
async fn detect(stream: &mut Stream, protocols: &Protocols, drain: &mut Drain) -> Version {
    if protocols.settings.http2.is_none() {
        return Version::Http1;
    }
    match stream {
        Either::Right(tls) if tls.get_ref().1.alpn_protocol() == Some(ALPN_HTTP2) => Version::Http2,
        Either::Right(_) => Version::Http1,
        Either::Left(socket) => {
            // The first request has mostly arrived with its connection.
            let arrived = poll_fn(|cx| Poll::Ready(pin!(read_preface(socket)).poll(cx))).await;
            match arrived {
                Poll::Ready(version) => version,
                // Boxed, so that a connection keeps no memory for it.
                Poll::Pending => Box::pin(await_preface(socket, protocols, drain)).await,
            }
        }
    }
}

/// Reads until the first bytes show the version, but not longer than a client may take.
async fn await_preface(socket: &mut Socket, protocols: &Protocols, drain: &mut Drain) -> Version {
    let preface = timeout(protocols.settings.timeouts.request_head, read_preface(socket));
    tokio::select! {
        version = preface => version.unwrap_or(Version::Http1),
        () = idle_drain(drain) => Version::Http1,
    }
}

/// Reads until the first bytes show the version.
async fn read_preface(socket: &mut Socket) -> Version {
    loop {
        let known = socket.ahead();
        // More than the preface may have come with a header of the PROXY protocol.
        if known.starts_with(PREFACE) {
            return Version::Http2;
        }
        if !PREFACE.starts_with(known) {
            return Version::Http1;
        }
        // In one step with the rest of the request.
        if !socket.read_ahead(MAX_AT_ONCE).await.unwrap_or(false) {
            return Version::Http1;
        }
    }
}

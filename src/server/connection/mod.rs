//! One connection, from accept to close: what comes before HTTP, which HTTP it
//! is, and how long it may take.

mod http1;
mod http2;

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper_util::server::graceful::GracefulConnection;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;
use tower::Service;
use tracing::debug;

use super::activity::Activity;
use super::client_body::ClientBody;
use super::frames::PREFACE;
use super::identity::identity;
use super::interim::InterimQueue;
use super::proxied::{self, ProxiedError};
use super::stream::{Socket, Stream, Transport};
use super::{ListenerSettings, ListenerTimeouts, Terms, tls};
use crate::drain::Drain;
use crate::time::monotonic;

/// How long an idle connection of HTTP/1 stays open once it is to end.
const FAREWELL: Duration = Duration::from_secs(1);

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address; over a Unix socket that of this machine's loopback. Of a
    /// connection that a trusted balancer passed on, the address that it names.
    pub address: SocketAddr,
    /// The address at which it reached us, or the balancer.
    pub local: SocketAddr,
    /// Whether it may speak for others, if its address is trusted: not if a balancer
    /// has passed the connection on and has not named its client.
    pub may_forward: bool,
    /// Whether it came over TLS.
    pub is_encrypted: bool,
    /// Who it is, by the certificate that it has shown.
    pub identity: Option<Arc<str>>,
    /// The way of interim responses to it; none over HTTP/2, for which the HTTP
    /// library has none.
    pub interim: Option<InterimQueue>,
}

/// All that connections of a listener have in common on one worker.
pub(super) struct Protocols {
    settings: Arc<ListenerSettings>,
    tls: Option<TlsAcceptor>,
    http1: hyper::server::conn::http1::Builder,
}

impl Protocols {
    pub(super) fn new(Terms { settings, tls }: Terms) -> Self {
        Self { tls: tls.map(TlsAcceptor::from), http1: http1::protocol(&settings), settings }
    }
}

/// What a connection turned out to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

/// Why a connection never came to HTTP.
#[derive(Debug, thiserror::Error)]
enum NoHttp {
    #[error("{0} is no trusted proxy, and only those may connect here")]
    NotTrusted(SocketAddr),
    #[error(transparent)]
    Proxied(#[from] ProxiedError),
    #[error("TLS: {0}")]
    Tls(io::Error),
}

/// Serves one connection to its end, with what `service` makes for its peer.
pub(super) async fn serve<F, S, B>(
    transport: Transport,
    peer: Peer,
    protocols: &Protocols,
    mut drain: Drain,
    service: &F,
) where
    F: Fn(Peer, &ListenerSettings) -> S,
    S: Service<Request<ClientBody>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let address = peer.address;
    let timeouts = &protocols.settings.timeouts;
    let begun = timeout(timeouts.handshake, begin(Socket::new(transport), peer, protocols)).await;
    let (stream, peer) = match begun {
        Ok(Ok(begun)) => begun,
        Ok(Err(error)) => return debug!(%address, %error, "a connection is closed"),
        Err(_) => return debug!(%address, "a connection is closed: its handshake takes too long"),
    };
    let since = monotonic();
    let (stream, version) = version(stream, protocols, &mut drain).await;
    let settings = &protocols.settings;
    match (version, settings.http2) {
        (Version::Http2, Some(bounds)) => {
            let service = service(peer, settings);
            http2::serve(stream, bounds, settings, since, drain, service).await;
        }
        _ => http1::serve(stream, peer, protocols, since, drain, service).await,
    }
}

/// What comes before HTTP: the PROXY protocol, then TLS.
async fn begin(
    mut socket: Socket,
    mut peer: Peer,
    protocols: &Protocols,
) -> Result<(Stream, Peer), NoHttp> {
    if let Some(trusted) = &protocols.settings.proxy_protocol {
        let ip = peer.address.ip().to_canonical();
        if !trusted.iter().any(|block| block.contains(&ip)) {
            return Err(NoHttp::NotTrusted(peer.address));
        }
        match proxied::read(&mut socket).await? {
            Some(ends) => (peer.address, peer.local) = (ends.client, ends.local),
            None => peer.may_forward = false,
        }
    }
    let Some(tls) = &protocols.tls else {
        return Ok((Either::Left(socket), peer));
    };
    let stream = tls.accept(socket).await.map_err(NoHttp::Tls)?;
    let (_, session) = stream.get_ref();
    peer.is_encrypted = true;
    peer.identity = session
        .peer_certificates()
        .and_then(|chain| chain.first())
        .and_then(|certificate| identity(certificate));
    Ok((Either::Right(stream), peer))
}

/// Which HTTP a client speaks: under TLS what was agreed on, else what its first
/// bytes say (RFC 9113, section 3.3). A client that says nothing in time, or
/// not until a drain ends it, is left to HTTP/1, which knows how to tell it.
async fn version(stream: Stream, protocols: &Protocols, drain: &mut Drain) -> (Stream, Version) {
    if protocols.settings.http2.is_none() {
        return (stream, Version::Http1);
    }
    match stream {
        Either::Right(tls) => {
            let is_http2 = tls.get_ref().1.alpn_protocol() == Some(tls::ALPN_HTTP2);
            let version = if is_http2 { Version::Http2 } else { Version::Http1 };
            (Either::Right(tls), version)
        }
        Either::Left(mut socket) => {
            let first = async {
                loop {
                    let known = socket.ahead();
                    // What came with a header of the PROXY protocol may be more than it.
                    if known.starts_with(PREFACE) {
                        return Version::Http2;
                    }
                    if !PREFACE.starts_with(known) {
                        return Version::Http1;
                    }
                    let rest = PREFACE.len() - known.len();
                    if !socket.read_ahead(rest).await.unwrap_or(false) {
                        return Version::Http1;
                    }
                }
            };
            let in_time = timeout(protocols.settings.timeouts.request_head, first);
            let version = tokio::select! {
                version = in_time => version.unwrap_or(Version::Http1),
                () = farewell(drain) => Version::Http1,
            };
            (Either::Left(socket), version)
        }
    }
}

/// How a connection ended.
enum End {
    /// By itself, or by an error of the client that the library has answered.
    Closed,
    /// In the middle of a response.
    Broken,
    /// The client took longer than it may, and there is nothing to be said to that.
    Overdue,
}

impl End {
    /// The service's body is the only thing of ours that can fail.
    fn of(ended: hyper::Result<()>) -> Self {
        if ended.is_err_and(|error| error.is_user()) { Self::Broken } else { Self::Closed }
    }
}

/// Returns when a drain ends what is idle.
///
/// To close an idle connection at once would cost a client that is just sending
/// its next request an error. It gets an answer instead, and is told that it is
/// the last one.
async fn farewell(drain: &mut Drain) {
    drain.requested().await;
    sleep(FAREWELL).await;
}

/// Polls the connection for what is there now.
fn poll_once<C>(mut connection: Pin<&mut C>, activity: &Activity, cx: &mut Context<'_>) -> Poll<End>
where
    C: GracefulConnection<Error = hyper::Error>,
{
    loop {
        let ended = ready!(connection.as_mut().poll(cx));
        if ended.is_err() || !activity.goes_on() {
            return Poll::Ready(End::of(ended));
        }
    }
}

/// Polls the connection until it ends, is overdue, or has been drained, which is
/// begun when `drained` returns and has no more time when `over` does.
async fn drive<C>(
    mut connection: Pin<&mut C>,
    activity: &Activity,
    timeouts: &ListenerTimeouts,
    drained: impl Future<Output = ()>,
    over: impl Future<Output = ()>,
) -> End
where
    C: GracefulConnection<Error = hyper::Error>,
{
    let mut ticks = interval(Activity::interval(timeouts));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut drained, mut over) = (pin!(drained), pin!(over));
    let mut stopping = false;
    let mut draining = false;
    poll_fn(|cx| {
        if let Poll::Ready(end) = poll_once(connection.as_mut(), activity, cx) {
            return Poll::Ready(end);
        }
        stopping = stopping || drained.as_mut().poll(cx).is_ready();
        if stopping && over.as_mut().poll(cx).is_ready() {
            return Poll::Ready(End::Overdue);
        }
        // Whoever is in the middle of a head is told with the answer to it.
        if stopping && !draining && !activity.is_amid_head() {
            draining = true;
            connection.as_mut().graceful_shutdown();
            if let Poll::Ready(end) = poll_once(connection.as_mut(), activity, cx) {
                return Poll::Ready(end);
            }
        }
        while ticks.poll_tick(cx).is_ready() {
            activity.give_up_responses();
            if !activity.is_overdue(timeouts) {
                continue;
            }
            if !activity.give_up_head() {
                return Poll::Ready(End::Overdue);
            }
            // Now the guard lets the library read something that can be answered.
            if let Poll::Ready(end) = poll_once(connection.as_mut(), activity, cx) {
                return Poll::Ready(end);
            }
        }
        Poll::Pending
    })
    .await
}

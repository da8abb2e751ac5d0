//! Listening: one socket for each worker on the same address, so that workers
//! share nothing and the kernel spreads connections among them (SO_REUSEPORT).
//! A Unix socket has no such thing: there all workers share one.

use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use rustls::ServerConfig;
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::sleep;
use tower::Service;
use tracing::warn;

use super::connection::{self, Protocols};
use super::socket::{Acceptor, BoundSocket};
use super::stream::Transport;
use super::{ListenAddress, ListenerSettings, Peer, TlsError};
use crate::drain::Drain;

/// How long accepting rests when the process or the system is out of something.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The system does not give it to us.
    #[error("cannot listen on {address}: {source}{}", advice(source))]
    Socket {
        /// Which one.
        address: ListenAddress,
        /// What the system says.
        source: io::Error,
    },
    /// Its TLS cannot be set up.
    #[error("cannot listen on {address} with TLS: {source}")]
    Tls {
        /// Which one.
        address: ListenAddress,
        /// Why.
        source: TlsError,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program has this port: stop it, or choose another address"
        }
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need the capability CAP_NET_BIND_SERVICE, and sockets a \
             directory that can be written to"
        }
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        io::ErrorKind::NotFound => "; make its directory first",
        _ => "",
    }
}

/// One worker's socket, and what it shares with those of the other workers.
#[derive(Debug)]
pub struct Listener {
    socket: BoundSocket,
    address: ListenAddress,
    settings: Arc<ListenerSettings>,
    tls: Option<Arc<ServerConfig>>,
    /// A permit for each connection that may be open, over all workers.
    vacancies: Arc<Semaphore>,
}

impl Listener {
    /// Listens on the address of `settings`, once for each of `workers`.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub fn bind(settings: ListenerSettings, workers: usize) -> Result<Vec<Self>, BindError> {
        let tls = settings.tls.as_ref().map(|tls| tls.server(settings.http2.is_some()));
        let tls = tls.transpose().map_err(|source| {
            let address = settings.address.clone();
            BindError::Tls { address, source }
        })?;
        let vacancies = settings.max_connections.min(Semaphore::MAX_PERMITS);
        let vacancies = Arc::new(Semaphore::new(vacancies));
        let (sockets, address) = BoundSocket::bind(&settings.address, workers)
            .map_err(|source| BindError::Socket { address: settings.address.clone(), source })?;
        let settings = Arc::new(settings);
        let listener = |socket| Self {
            socket,
            address: address.clone(),
            settings: Arc::clone(&settings),
            tls: tls.clone(),
            vacancies: Arc::clone(&vacancies),
        };
        Ok(sockets.into_iter().map(listener).collect())
    }

    /// The address, with the port that it really has.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// What it was told.
    pub fn settings(&self) -> &ListenerSettings {
        &self.settings
    }
}

/// Accepts connections until the drain, and serves each with what `service`
/// makes for its peer. Must run on a worker's local runtime.
///
/// A request whose extensions hold a [`Malformed`](crate::request::Malformed) stands
/// for bytes of a client that are no request: the service has only to say so.
/// Those of HTTP/1.1 hold an [`Interim`](super::Interim).
///
/// At most `max_connections` are served at once, over all workers; each worker
/// may hold one more that waits, and all others wait in the kernel.
///
/// # Errors
/// If the socket cannot be registered with the runtime.
pub async fn serve<F, S, B>(listener: Listener, mut drain: Drain, service: F) -> io::Result<()>
where
    F: Fn(Peer) -> S + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Listener { socket, settings, tls, vacancies, .. } = listener;
    let acceptor = socket.into_acceptor()?;
    let shared = Rc::new((Protocols::new(settings, tls), service));
    loop {
        let (transport, peer) = tokio::select! {
            biased;
            () = drain.requested() => return Ok(()),
            accepted = accept(&acceptor) => accepted,
        };
        let vacancy = tokio::select! {
            biased;
            () = drain.requested() => return Ok(()),
            vacancy = Arc::clone(&vacancies).acquire_owned() => vacancy,
        };
        let (shared, drain) = (Rc::clone(&shared), drain.clone());
        spawn_local(async move {
            let (protocols, service) = &*shared;
            connection::serve(transport, peer, protocols, drain, service).await;
            drop(vacancy);
        });
    }
}

/// The next connection. Errors never end the accepting: they belong to one
/// client, or the process is out of file descriptors and must wait for some.
async fn accept(acceptor: &Acceptor) -> (Transport, Peer) {
    loop {
        match acceptor.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if is_clients(&error) => {}
            Err(error) => {
                warn!(%error, "cannot accept connections for a moment");
                sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

fn is_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NotConnected
    )
}

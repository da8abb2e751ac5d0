//! Listening: one socket for each worker on the same address, so that workers
//! share nothing and the kernel spreads connections among them (SO_REUSEPORT).

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::sleep;
use tower::Service;
use tracing::warn;

use super::{ListenerSettings, Peer, connection};
use crate::drain::Drain;

/// Connections that the kernel completes before we accept them.
const BACKLOG: i32 = 4096;
/// How long accepting rests when the process or the system is out of something.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}{}", advice(source))]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program has this port: stop it, or choose another address"
        }
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need the capability CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    }
}

/// One worker's socket, and what it shares with those of the other workers.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    settings: Arc<ListenerSettings>,
    /// A permit for each connection that may be open, over all workers.
    vacancies: Arc<Semaphore>,
}

impl Listener {
    /// Listens on the address of `settings`, once for each of `workers`.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub fn bind(settings: ListenerSettings, workers: usize) -> Result<Vec<Self>, BindError> {
        let mut address = settings.address;
        let vacancies = settings.max_connections.min(Semaphore::MAX_PERMITS);
        let vacancies = Arc::new(Semaphore::new(vacancies));
        let settings = Arc::new(settings);
        let mut listeners = Vec::with_capacity(workers);
        for _ in 0..workers {
            let socket = bind(address).map_err(|source| BindError { address, source })?;
            // Port 0 is whatever the first worker got.
            address = socket.local_addr().map_err(|source| BindError { address, source })?;
            listeners.push(Self {
                socket,
                address,
                settings: Arc::clone(&settings),
                vacancies: Arc::clone(&vacancies),
            });
        }
        Ok(listeners)
    }

    /// The address, with the port that it really has.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it was told.
    pub fn settings(&self) -> &ListenerSettings {
        &self.settings
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts connections until the drain, and serves each with what `service`
/// makes for its peer. Must run on a worker's local runtime.
///
/// At most `max_connections` are served at once, over all workers; each worker
/// may hold one more that waits, and all others wait in the kernel.
///
/// # Errors
/// If the socket cannot be registered with the runtime.
pub async fn serve<F, S, B>(listener: Listener, mut drain: Drain, service: F) -> io::Result<()>
where
    F: Fn(Peer) -> S,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Listener { socket, settings, vacancies, .. } = listener;
    let socket = tokio::net::TcpListener::from_std(socket)?;
    let protocol = Rc::new(connection::protocol(&settings));
    loop {
        let (stream, peer) = tokio::select! {
            biased;
            () = drain.requested() => return Ok(()),
            accepted = accept(&socket) => accepted,
        };
        let vacancy = tokio::select! {
            biased;
            () = drain.requested() => return Ok(()),
            vacancy = Arc::clone(&vacancies).acquire_owned() => vacancy,
        };
        let service = service(peer);
        let (protocol, settings) = (Rc::clone(&protocol), Arc::clone(&settings));
        let drain = drain.clone();
        spawn_local(async move {
            connection::serve(stream, &protocol, &settings, drain, service).await;
            drop(vacancy);
        });
    }
}

/// The next connection. Errors never end the accepting: they belong to one
/// client, or the process is out of file descriptors and must wait for some.
async fn accept(socket: &tokio::net::TcpListener) -> (TcpStream, Peer) {
    loop {
        match socket.accept().await {
            Ok((stream, address)) => {
                // Without it a response could wait for an acknowledgement.
                let _ = stream.set_nodelay(true);
                if let Ok(local) = stream.local_addr() {
                    return (stream, Peer { address, local });
                }
            }
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
    )
}

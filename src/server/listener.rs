//! Listening: one socket for each worker on the same address, so that workers
//! share nothing and the kernel spreads connections among them (SO_REUSEPORT).

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_local;
use tokio::time::sleep;
use tower::Service;
use tracing::warn;

use super::{ListenerSettings, Peer, connection};
use crate::drain::Drain;

/// Connections that the kernel completes before we accept them.
const BACKLOG: i32 = 4096;
/// How long a client that has been answered may take to complete its connection:
/// the time of a round trip, but less than the second after which a client that
/// was not answered tries again.
const HANDSHAKE: Duration = Duration::from_millis(300);
/// A filter for packets (classic BPF) that takes all but those that ask for a
/// connection: SYN is bit 1 of the 13th byte of TCP's head (RFC 9293, section 3.1).
const NO_SYN: [SockFilter; 4] = [
    SockFilter::new(0x30, 0, 0, 13),       // load the byte
    SockFilter::new(0x45, 0, 1, 2),        // is the bit set?
    SockFilter::new(0x06, 0, 0, 0),        // then take nothing of the packet,
    SockFilter::new(0x06, 0, 0, u32::MAX), // else all of it
];
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
    /// Whether others accept from the same socket.
    is_shared: bool,
    address: SocketAddr,
    settings: watch::Receiver<Arc<ListenerSettings>>,
    /// A permit for each connection that may be open, over all workers.
    vacancies: Arc<Semaphore>,
}

/// What the sockets of one listener are ruled by, on all workers.
#[derive(Debug)]
pub struct ListenerTerms {
    settings: watch::Sender<Arc<ListenerSettings>>,
    vacancies: Arc<Semaphore>,
}

impl ListenerTerms {
    /// What the listener was told last.
    pub fn settings(&self) -> Arc<ListenerSettings> {
        Arc::clone(&self.settings.borrow())
    }

    /// Later connections have these bounds. The address stays what it is. If
    /// fewer connections may be open than are, no other is served until enough
    /// of them have ended.
    ///
    /// Must run on a local runtime.
    pub fn change(&self, settings: ListenerSettings) {
        let (old, new) = (vacancies(&self.settings()), vacancies(&settings));
        if new >= old {
            self.vacancies.add_permits(new - old);
        } else {
            let (taken, vacancies) = (old - new, Arc::clone(&self.vacancies));
            let taken = u32::try_from(taken).unwrap_or(u32::MAX);
            spawn_local(async move {
                // The queue of a semaphore is fair: whoever accepts waits behind.
                if let Ok(permits) = vacancies.acquire_many(taken).await {
                    permits.forget();
                }
            });
        }
        self.settings.send_replace(Arc::new(settings));
    }
}

fn vacancies(settings: &ListenerSettings) -> usize {
    settings.max_connections.min(Semaphore::MAX_PERMITS)
}

impl Listener {
    /// Listens on the address of `settings`, once for each of `workers`.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub fn bind(
        settings: ListenerSettings,
        workers: usize,
    ) -> Result<(Vec<Self>, ListenerTerms), BindError> {
        let (mut address, mut sockets) = (settings.address, Vec::with_capacity(workers));
        for _ in 0..workers {
            let socket = bind(address).map_err(|source| BindError { address, source })?;
            // Port 0 is whatever the first worker got.
            address = socket.local_addr().map_err(|source| BindError { address, source })?;
            sockets.push(socket);
        }
        Ok(Self::on(sockets, false, address, settings))
    }

    /// Accepts from a socket that somebody else has opened at the address of
    /// `settings` and keeps open, for each of `workers`.
    ///
    /// # Errors
    /// If the process is out of something.
    pub fn adopt(
        settings: ListenerSettings,
        socket: &TcpListener,
        workers: usize,
    ) -> Result<(Vec<Self>, ListenerTerms), BindError> {
        let address = settings.address;
        let adopt = |_| socket.set_nonblocking(true).and_then(|()| socket.try_clone());
        let sockets = (0..workers).map(adopt).collect::<io::Result<_>>();
        let sockets = sockets.map_err(|source| BindError { address, source })?;
        Ok(Self::on(sockets, true, address, settings))
    }

    fn on(
        sockets: Vec<TcpListener>,
        is_shared: bool,
        address: SocketAddr,
        settings: ListenerSettings,
    ) -> (Vec<Self>, ListenerTerms) {
        let vacancies = Arc::new(Semaphore::new(vacancies(&settings)));
        let terms = ListenerTerms { settings: watch::Sender::new(Arc::new(settings)), vacancies };
        let listeners = sockets.into_iter().map(|socket| Self {
            socket,
            is_shared,
            address,
            settings: terms.settings.subscribe(),
            vacancies: Arc::clone(&terms.vacancies),
        });
        (listeners.collect(), terms)
    }

    /// The address, with the port that it really has.
    pub fn address(&self) -> SocketAddr {
        self.address
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
/// may hold one more that waits, and all others wait in the kernel. Whoever
/// could connect before the drain is served, too.
///
/// # Errors
/// If the socket cannot be registered with the runtime.
pub async fn serve<F, S, B>(listener: Listener, drain: Drain, service: F) -> io::Result<()>
where
    F: Fn(Peer, &ListenerSettings) -> S,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Listener { socket, is_shared, mut settings, vacancies, .. } = listener;
    let socket = tokio::net::TcpListener::from_std(socket)?;
    let mut now = Arc::clone(&settings.borrow_and_update());
    let mut protocol = Rc::new(connection::protocol(&now));
    let mut closed = pin!(close(&socket, is_shared, drain.clone()));
    loop {
        let (stream, peer) = tokio::select! {
            biased;
            accepted = accept(&socket) => accepted,
            () = &mut closed => return Ok(()),
        };
        if settings.has_changed().unwrap_or(false) {
            now = Arc::clone(&settings.borrow_and_update());
            protocol = Rc::new(connection::protocol(&now));
        }
        let Ok(vacancy) = Arc::clone(&vacancies).acquire_owned().await else {
            return Ok(());
        };
        let service = service(peer, &now);
        let (protocol, settings) = (Rc::clone(&protocol), Arc::clone(&now));
        let drain = drain.clone();
        spawn_local(async move {
            connection::serve(stream, &protocol, &settings, drain, service).await;
            drop(vacancy);
        });
    }
}

/// Has the kernel open no more connections after the drain, and waits for those
/// that it has begun to open.
///
/// To close the socket at once would reset what waits in its queue, and every
/// client whose handshake is under way. Without new ones nothing is lost: whoever
/// begins in the meantime is not answered, tries again after a second, and then
/// finds the socket of the process that takes over, or none.
///
/// What waits in the queue of a shared socket is for whoever else accepts from it.
async fn close(socket: &tokio::net::TcpListener, is_shared: bool, mut drain: Drain) {
    drain.requested().await;
    if is_shared {
        return;
    }
    // Where this does not work, a client that comes in the last moment is reset.
    let _ = SockRef::from(socket).attach_filter(&NO_SYN);
    sleep(HANDSHAKE).await;
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

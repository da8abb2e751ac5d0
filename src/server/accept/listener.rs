//! Listening, and serving what is accepted.
//!
//! Each worker has its own socket on the same address, so that workers share nothing and
//! the kernel distributes connections among them. Unix sockets do not support this: all
//! workers share one. The same holds for TCP on systems other than Linux. A
//! [`Balancer`] evens out what the kernel distributes unevenly.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio::sync::{Notify, watch};
use tokio::task::{spawn_local, unconstrained};
use tokio::time::sleep;
use tollgate_core::drain::Drain;
use tollgate_core::time::monotonic;
use tracing::warn;

use super::balance::{self, Accepted, Balancer, Handoff};
use super::config::{ListenerConfig, ListenerHandle, WorkerView};
use super::error::BindError;
use super::permits::{Capacity, Permit, Permits, STRANGERS};
use super::socket::{Acceptor, OpenSocket, WorkerSocket};
use crate::boxed::boxed;
use crate::platform::OwnSockets;
use crate::server::connection::{self, Protocols};
use crate::server::service::RequestService;
use crate::server::settings::{ListenAddress, ListenerSettings};
use crate::server::state::{ClientLink, Peer};
use crate::server::transport::Transport;
use crate::telemetry::{ConnectionMetrics, WorkerMetrics};

/// How long a client may take to complete a handshake that has begun. It is longer than
/// a round trip and shorter than the second after which a client tries again.
const HANDSHAKE: Duration = Duration::from_millis(300);
/// The pause in accepting when the process or the system has no resources left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);
/// The shortest time between two warnings of one worker about that.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// The socket of one worker, and its link to the other workers of the listener.
#[derive(Debug)]
pub struct Listener {
    socket: WorkerSocket,
    address: ListenAddress,
    view: WorkerView,
    balancer: Balancer,
    handoff: Handoff,
}

impl Listener {
    /// Listens on the address of `config`, for each of `workers`. Clients find a Unix socket when it
    /// is [published](Self::publish).
    ///
    /// # Errors
    /// If the system refuses the address.
    pub fn bind(
        config: ListenerConfig,
        workers: usize,
        capacity: &Capacity,
    ) -> Result<(Vec<Self>, ListenerHandle), BindError> {
        let bound =
            WorkerSocket::bind(&config.settings.address, workers, config.settings.socket_mode);
        Self::on(bound, config, capacity)
    }

    /// Accepts from a socket at the address of `config` that the service manager has
    /// opened and keeps open, for each of `workers`.
    ///
    /// # Errors
    /// If the process has no resources left.
    pub fn adopt(
        config: ListenerConfig,
        socket: &OpenSocket,
        workers: usize,
        capacity: &Capacity,
    ) -> Result<(Vec<Self>, ListenerHandle), BindError> {
        let adopted = WorkerSocket::adopt(socket, workers);
        let bound = adopted.map(|sockets| (sockets, config.settings.address.clone()));
        Self::on(bound, config, capacity)
    }

    pub fn on(
        bound: io::Result<(Vec<WorkerSocket>, ListenAddress)>,
        config: ListenerConfig,
        capacity: &Capacity,
    ) -> Result<(Vec<Self>, ListenerHandle), BindError> {
        let (sockets, address) = bound.map_err(|source| {
            let address = config.settings.address.clone();
            BindError::Socket { address, source }
        })?;
        let (links, open) = balance::among(sockets.len());
        let own = address.tcp().map(|address| OwnSockets {
            address,
            inodes: sockets.iter().filter_map(WorkerSocket::inode).collect(),
        });
        let handle = ListenerHandle::new(config, capacity.clone(), open, own);
        let listener = |(socket, (balancer, handoff))| {
            let address = address.clone();
            let view = handle.view();
            Self { socket, address, view, balancer, handoff }
        };
        Ok((sockets.into_iter().zip(links).map(listener).collect(), handle))
    }

    /// Lets clients find the socket, if it is a Unix socket that [`Self::bind`] has opened. It replaces
    /// that of another process. To be called once, for one of the workers.
    ///
    /// # Errors
    /// If the system refuses the name.
    pub fn publish(&self) -> Result<(), BindError> {
        let published = self.socket.publish();
        published.map_err(|source| BindError::Socket { address: self.address.clone(), source })
    }

    /// The address, with its actual port.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }
}

/// Accepts connections until the drain, and serves each with the service that `service`
/// makes for its peer. Must run on a worker's local runtime.
///
/// If the extensions of a request hold a [`Malformed`](tollgate_core::request::Malformed), the
/// request stands for bytes that are not a request, and the service only has to answer
/// it with that error.
///
/// At most `max_connections` are served at once, over all workers, and no more than the
/// [`Capacity`] that all listeners share. Each worker may hold one more connection that
/// waits for a permit; all others wait in the kernel. Clients that connect before the
/// drain are served. In the drain, all of them wait here, and the socket is closed.
///
/// `metrics`: where the connections are counted, if they are.
///
/// # Errors
/// If the socket cannot be registered with the runtime.
pub async fn serve<F, S>(
    listener: Listener,
    drain: Drain,
    metrics: Option<&Rc<WorkerMetrics>>,
    service: F,
) -> io::Result<()>
where
    F: Fn(Peer, Option<ClientLink>, &ListenerSettings) -> S + 'static,
    S: RequestService,
{
    let Listener { socket, view: WorkerView { config, permits }, balancer, mut handoff, .. } =
        listener;
    let acceptor = socket.into_acceptor()?;
    let address = config.borrow().settings.address.to_string();
    let metrics = metrics.map(|worker| ConnectionMetrics::new(worker, &address));
    let server = ConnectionServer::new(config, drain.clone(), metrics, service);
    // It ends the accepting also while an accepted connection waits for its permit.
    let over = Notify::new();
    let closing = async {
        close(&acceptor, drain).await;
        over.notify_one();
        pending().await
    };
    let accepting = async {
        let mut warned = None;
        let last = loop {
            let (transport, peer) = tokio::select! {
                biased;
                accepted = accept(&acceptor, &mut warned) => accepted,
                () = over.notified() => break None,
            };
            let permit = tokio::select! {
                biased;
                permit = server.permit(&permits, &peer) => permit,
                () = over.notified() => break Some((transport, peer)),
            };
            server.serve(transport, peer, permit, &balancer);
        };
        last.into_iter().chain(arrived(&acceptor)).collect::<Vec<_>>()
    };
    // This runs concurrently with accepting: a connection that was handed off has a
    // permit and must not wait behind an accepted one that has none yet.
    let waiting = tokio::select! {
        waiting = accepting => waiting,
        () = server.receive(&mut handoff) => Vec::new(),
        waiting = closing => waiting,
    };
    // The socket is closed before the last connections have their permits. Otherwise the kernel would
    // go on to choose it for new ones.
    drop(acceptor);
    let serving = async {
        for (transport, peer) in waiting {
            let permit = server.permit(&permits, &peer).await;
            server.serve(transport, peer, permit, &balancer);
        }
    };
    tokio::select! { () = serving => {}, () = server.receive(&mut handoff) => {} }
    handoff.close();
    server.receive(&mut handoff).await;
    Ok(())
}

/// The connections that have arrived and were not accepted. Those that cannot be accepted are reset.
fn arrived(acceptor: &Acceptor) -> impl Iterator<Item = (Transport, Peer)> {
    // The runtime would interrupt many in a row.
    let next = || unconstrained(acceptor.accept()).now_or_never();
    std::iter::from_fn(move || next()?.ok())
}

/// Serves the connections of a listener on one worker.
struct ConnectionServer<F> {
    current: RefCell<(watch::Receiver<ListenerConfig>, Rc<Protocols>)>,
    drain: Drain,
    metrics: Option<Rc<ConnectionMetrics>>,
    service: Rc<F>,
    /// When the log has last warned of a client that was turned away.
    turned_away: Cell<Option<Instant>>,
}

impl<F> ConnectionServer<F> {
    fn new(
        mut config: watch::Receiver<ListenerConfig>,
        drain: Drain,
        metrics: Option<Rc<ConnectionMetrics>>,
        service: F,
    ) -> Self {
        let current = RefCell::new({
            let protocols = protocols(&mut config, metrics.clone(), drain.clone());
            (config, protocols)
        });
        Self { current, drain, metrics, service: Rc::new(service), turned_away: Cell::default() }
    }

    /// Waits for a permit for a connection of this client. None: it is turned away, because the listener
    /// is not for it and too many like it are open.
    async fn permit(&self, permits: &Permits, peer: &Peer) -> Option<Permit> {
        if self.protocols().are_for(peer) {
            return permits.acquire().await;
        }
        let permit = permits.for_stranger();
        if permit.is_none() {
            turn_away(peer, &self.turned_away);
        }
        permit
    }

    /// Serves a connection that has a permit, on this worker or on another one.
    fn serve<S>(
        &self,
        transport: Transport,
        peer: Peer,
        permit: Option<Permit>,
        balancer: &Balancer,
    ) where
        F: Fn(Peer, Option<ClientLink>, &ListenerSettings) -> S + 'static,
        S: RequestService,
    {
        if let Some(permit) = permit
            && let Some(accepted) = balancer.assign(transport, peer, permit)
        {
            self.spawn(accepted);
        }
    }

    /// Serves the connections that other workers hand off, until no more can come.
    async fn receive<S>(&self, handoff: &mut Handoff)
    where
        F: Fn(Peer, Option<ClientLink>, &ListenerSettings) -> S + 'static,
        S: RequestService,
    {
        while let Some(accepted) = handoff.next().await {
            self.spawn(accepted);
        }
    }

    /// Serves a connection under the current configuration, in a task of its own.
    fn spawn<S>(&self, accepted: io::Result<Accepted>)
    where
        F: Fn(Peer, Option<ClientLink>, &ListenerSettings) -> S + 'static,
        S: RequestService,
    {
        let Accepted { transport, peer, assignment } = match accepted {
            Ok(accepted) => accepted,
            Err(error) => return warn!(%error, "cannot hand off a connection; it is closed"),
        };
        let protocols = self.protocols();
        let service = Rc::clone(&self.service);
        let drain = self.drain.clone();
        let place = assignment.place();
        // Boxed, because the runtime moves a task several times.
        spawn_local(boxed(|| async move {
            connection::serve(transport, peer, place, protocols, drain, &*service).await;
            drop(assignment);
        }));
    }

    fn protocols(&self) -> Rc<Protocols> {
        let (config, current) = &mut *self.current.borrow_mut();
        if config.has_changed().unwrap_or(false) {
            *current = protocols(config, self.metrics.clone(), self.drain.clone());
        }
        Rc::clone(current)
    }
}

fn protocols(
    config: &mut watch::Receiver<ListenerConfig>,
    metrics: Option<Rc<ConnectionMetrics>>,
    drain: Drain,
) -> Rc<Protocols> {
    let ListenerConfig { settings, tls } = config.borrow_and_update().clone();
    Rc::new(Protocols::new(settings, tls, metrics, drain))
}

/// After the drain, lets the kernel open no new connections, and waits for those whose
/// handshake has begun.
///
/// Closing the socket at once would reset the connections in its queue and every client
/// whose handshake is in progress. This way nothing is lost: a client that begins in the
/// meantime gets no answer, tries again after a second, and then finds the socket of the
/// process that takes over, or none.
async fn close(acceptor: &Acceptor, mut drain: Drain) {
    drain.requested().await;
    if acceptor.refuse_new_connections() {
        sleep(HANDSHAKE).await;
    }
}

/// Accepts the next connection. Errors never end the accepting: either one client caused
/// them, or the process has no file descriptors left and must wait. The second case is
/// logged from time to time; `warned` is the time of the last warning.
async fn accept(acceptor: &Acceptor, warned: &mut Option<Instant>) -> (Transport, Peer) {
    loop {
        match acceptor.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if is_caused_by_client(&error) => {}
            Err(error) => {
                let now = monotonic();
                if warned.is_none_or(|warned| now >= warned + WARNING_INTERVAL) {
                    *warned = Some(now);
                    warn!(%error, "cannot accept connections for a moment");
                }
                sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// A client that the listener is not for gets no answer, because too many like it have not ended.
/// That is logged from time to time; `warned` is the time of the last warning.
fn turn_away(peer: &Peer, warned: &Cell<Option<Instant>>) {
    let now = monotonic();
    if warned.get().is_none_or(|warned| now >= warned + WARNING_INTERVAL) {
        warned.set(Some(now));
        let client = peer.uid.map_or_else(|| peer.address.to_string(), |uid| format!("uid {uid}"));
        warn!(
            client,
            "a client that may not use this listener is closed without an answer: {STRANGERS} \
             such connections are open"
        );
    }
}

fn is_caused_by_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NotConnected
    )
}

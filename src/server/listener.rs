//! Listening: one socket for each worker on the same address, so that workers
//! share nothing and the kernel spreads connections among them (SO_REUSEPORT).
//! A Unix socket has no such thing: there all workers share one. What the kernel
//! spreads unevenly is passed on (`spread`).

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::{Request, Response};
use http_body::Body;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::sleep;
use tower::Service;
use tracing::warn;

use super::client_body::ClientBody;
use super::connection::{self, Protocols};
use super::socket::{Acceptor, BoundSocket};
use super::spread::{self, Door, Guest, Usher};
use super::stream::Transport;
use super::terms::TermsView;
use super::{
    Capacity, ListenAddress, ListenerSettings, ListenerTerms, OpenSocket, Peer, Terms, TlsError,
};
use crate::drain::Drain;
use crate::time::monotonic;

/// How long a client that has been answered may take to complete its connection:
/// the time of a round trip, but less than the second after which a client that
/// was not answered tries again.
const HANDSHAKE: Duration = Duration::from_millis(300);
/// How long accepting rests when the process or the system is out of something.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);
/// How often the log is told of that, by each worker.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

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
    terms: TermsView,
    usher: Usher,
    door: Door,
}

impl Listener {
    /// Listens on the address of `terms`, once for each of `workers`.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub fn bind(
        terms: Terms,
        workers: usize,
        capacity: &Capacity,
    ) -> Result<(Vec<Self>, ListenerTerms), BindError> {
        let bound = BoundSocket::bind(&terms.settings.address, workers);
        Self::on(bound, terms, capacity)
    }

    /// Accepts from a socket that somebody else has opened at the address of
    /// `terms` and keeps open, for each of `workers`.
    ///
    /// # Errors
    /// If the process is out of something.
    pub fn adopt(
        terms: Terms,
        socket: &OpenSocket,
        workers: usize,
        capacity: &Capacity,
    ) -> Result<(Vec<Self>, ListenerTerms), BindError> {
        let adopted = BoundSocket::adopt(socket, workers);
        let bound = adopted.map(|sockets| (sockets, terms.settings.address.clone()));
        Self::on(bound, terms, capacity)
    }

    fn on(
        bound: io::Result<(Vec<BoundSocket>, ListenAddress)>,
        terms: Terms,
        capacity: &Capacity,
    ) -> Result<(Vec<Self>, ListenerTerms), BindError> {
        let (sockets, address) = bound.map_err(|source| {
            let address = terms.settings.address.clone();
            BindError::Socket { address, source }
        })?;
        let terms = ListenerTerms::new(terms, capacity.clone());
        let parts = spread::over(sockets.len());
        let listener = |(socket, (usher, door))| {
            let (address, terms) = (address.clone(), terms.view());
            Self { socket, address, terms, usher, door }
        };
        Ok((sockets.into_iter().zip(parts).map(listener).collect(), terms))
    }

    /// The address, with the port that it really has.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }
}

/// Accepts connections until the drain, and serves each with what `service`
/// makes for its peer. Must run on a worker's local runtime.
///
/// A request whose extensions hold a [`Malformed`](crate::request::Malformed) stands
/// for bytes of a client that are no request: the service has only to say so.
///
/// At most `max_connections` are served at once, over all workers, and no more
/// than the [`Capacity`] that all listeners share; each worker
/// may hold one more that waits, and all others wait in the kernel. Whoever
/// could connect before the drain is served, too.
///
/// # Errors
/// If the socket cannot be registered with the runtime.
pub async fn serve<F, S, B>(listener: Listener, drain: Drain, service: F) -> io::Result<()>
where
    F: Fn(Peer, &ListenerSettings) -> S + 'static,
    S: Service<Request<ClientBody>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Listener { socket, terms: TermsView { terms, vacancies }, usher, mut door, .. } = listener;
    let acceptor = socket.into_acceptor()?;
    let hall = Hall::new(terms, drain.clone(), service);
    let accepting = async {
        let mut closed = pin!(close(&acceptor, drain.clone()));
        let mut told = None;
        loop {
            let accepted = tokio::select! {
                biased;
                accepted = accept(&acceptor, &mut told) => accepted,
                () = &mut closed => return,
            };
            let Some(vacancy) = vacancies.take().await else { return };
            if let Some(guest) = usher.seat(accepted, vacancy) {
                hall.welcome(guest);
            }
        }
    };
    // Beside the accepting, not in turn with it: who is passed on has a place
    // already, for which who was accepted may have to wait.
    let receiving = async {
        while let Some(guest) = door.next().await {
            hall.welcome(guest);
        }
    };
    tokio::select! { () = accepting => {}, () = receiving => {} }
    door.close();
    while let Some(guest) = door.next().await {
        hall.welcome(guest);
    }
    Ok(())
}

/// Where connections of a listener are served on one worker.
struct Hall<F> {
    terms: RefCell<(watch::Receiver<Terms>, Rc<Protocols>)>,
    drain: Drain,
    service: Rc<F>,
}

impl<F> Hall<F> {
    fn new(mut terms: watch::Receiver<Terms>, drain: Drain, service: F) -> Self {
        let protocols = Rc::new(Protocols::new(terms.borrow_and_update().clone()));
        Self { terms: RefCell::new((terms, protocols)), drain, service: Rc::new(service) }
    }

    /// Serves a connection by the terms that hold now.
    fn welcome<S, B>(&self, guest: io::Result<Guest>)
    where
        F: Fn(Peer, &ListenerSettings) -> S + 'static,
        S: Service<Request<ClientBody>, Response = Response<B>, Error = Infallible>
            + Clone
            + 'static,
        B: Body + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Guest { transport, peer, place } = match guest {
            Ok(guest) => guest,
            Err(error) => return warn!(%error, "a connection cannot be passed on"),
        };
        let (protocols, service) = (self.protocols(), Rc::clone(&self.service));
        let drain = self.drain.clone();
        spawn_local(async move {
            connection::serve(transport, peer, &protocols, drain, &*service).await;
            drop(place);
        });
    }

    fn protocols(&self) -> Rc<Protocols> {
        let (terms, protocols) = &mut *self.terms.borrow_mut();
        if terms.has_changed().unwrap_or(false) {
            *protocols = Rc::new(Protocols::new(terms.borrow_and_update().clone()));
        }
        Rc::clone(protocols)
    }
}

/// Has the kernel open no more connections after the drain, and waits for those
/// that it has begun to open.
///
/// To close the socket at once would reset what waits in its queue, and every
/// client whose handshake is under way. Without new ones nothing is lost: whoever
/// begins in the meantime is not answered, tries again after a second, and then
/// finds the socket of the process that takes over, or none.
async fn close(acceptor: &Acceptor, mut drain: Drain) {
    drain.requested().await;
    if acceptor.open_no_more() {
        sleep(HANDSHAKE).await;
    }
}

/// The next connection. Errors never end the accepting: they belong to one
/// client, or the process is out of file descriptors and must wait for some. Of
/// that the log is told now and then; `told` is when it was last.
async fn accept(acceptor: &Acceptor, told: &mut Option<Instant>) -> (Transport, Peer) {
    loop {
        match acceptor.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if is_clients(&error) => {}
            Err(error) => {
                let now = monotonic();
                if told.is_none_or(|told| now >= told + TELL_INTERVAL) {
                    *told = Some(now);
                    warn!(%error, "cannot accept connections for a moment");
                }
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

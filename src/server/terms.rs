//! What rules the connections of a listener on all workers, and can be changed
//! while it listens.

use std::sync::Arc;

use rustls::ServerConfig;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_local;

use super::{BindError, ListenerSettings};

/// Settings of a listener of which it is known that they can be kept.
#[derive(Clone, Debug)]
pub struct Terms {
    pub(super) settings: Arc<ListenerSettings>,
    pub(super) tls: Option<Arc<ServerConfig>>,
}

impl Terms {
    /// Sets up what the settings ask for.
    ///
    /// # Errors
    /// If their TLS cannot be set up.
    pub fn new(settings: ListenerSettings) -> Result<Self, BindError> {
        let tls = settings.tls.as_ref().map(|tls| tls.server(settings.http2.is_some()));
        let tls = tls.transpose().map_err(|source| {
            let address = settings.address.clone();
            BindError::Tls { address, source }
        })?;
        Ok(Self { settings: Arc::new(settings), tls })
    }

    fn vacancies(&self) -> usize {
        self.settings.max_connections.min(Semaphore::MAX_PERMITS)
    }
}

/// How many connections all listeners together may serve at once, whatever each
/// of them may.
#[derive(Clone, Debug)]
pub struct Capacity(Arc<Semaphore>);

impl Capacity {
    /// So many.
    pub fn new(connections: usize) -> Self {
        Self(Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS))))
    }
}

/// The terms of a listener's sockets, on all workers.
#[derive(Debug)]
pub struct ListenerTerms {
    terms: watch::Sender<Terms>,
    vacancies: Vacancies,
}

/// A permit for each connection that may be open, over all workers.
#[derive(Clone, Debug)]
pub(super) struct Vacancies {
    listener: Arc<Semaphore>,
    capacity: Capacity,
}

/// Leave to serve a connection. Held as long as it is open.
#[derive(Debug)]
pub(super) struct Vacancy {
    _listener: OwnedSemaphorePermit,
    _capacity: OwnedSemaphorePermit,
}

impl Vacancies {
    /// Waits until there is one.
    pub(super) async fn take(&self) -> Option<Vacancy> {
        Some(Vacancy {
            _listener: Arc::clone(&self.listener).acquire_owned().await.ok()?,
            _capacity: Arc::clone(&self.capacity.0).acquire_owned().await.ok()?,
        })
    }
}

/// The same, as a worker sees it.
#[derive(Debug)]
pub(super) struct TermsView {
    pub(super) terms: watch::Receiver<Terms>,
    pub(super) vacancies: Vacancies,
}

impl ListenerTerms {
    pub(super) fn new(terms: Terms, capacity: Capacity) -> Self {
        let listener = Arc::new(Semaphore::new(terms.vacancies()));
        let vacancies = Vacancies { listener, capacity };
        Self { terms: watch::Sender::new(terms), vacancies }
    }

    pub(super) fn view(&self) -> TermsView {
        TermsView { terms: self.terms.subscribe(), vacancies: self.vacancies.clone() }
    }

    /// What the listener was told last.
    pub fn settings(&self) -> Arc<ListenerSettings> {
        Arc::clone(&self.terms.borrow().settings)
    }

    /// Later connections have these terms; the address stays what it is. If
    /// fewer connections may be open than are, no other is served until enough
    /// of them have ended.
    ///
    /// Must run on a local runtime.
    pub fn change(&self, terms: Terms) {
        let (old, new) = (self.terms.borrow().vacancies(), terms.vacancies());
        if new >= old {
            self.vacancies.listener.add_permits(new - old);
        } else {
            let vacancies = Arc::clone(&self.vacancies.listener);
            let taken = u32::try_from(old - new).unwrap_or(u32::MAX);
            spawn_local(async move {
                // The queue of a semaphore is fair: whoever accepts waits behind.
                if let Ok(permits) = vacancies.acquire_many(taken).await {
                    permits.forget();
                }
            });
        }
        self.terms.send_replace(terms);
    }
}

//! What rules the connections of a listener on all workers, and can be changed
//! while it listens.

use std::sync::Arc;

use rustls::ServerConfig;
use tokio::sync::{Semaphore, watch};
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

/// The terms of a listener's sockets, on all workers.
#[derive(Debug)]
pub struct ListenerTerms {
    terms: watch::Sender<Terms>,
    vacancies: Arc<Semaphore>,
}

/// The same, as a worker sees it.
#[derive(Debug)]
pub(super) struct TermsView {
    pub(super) terms: watch::Receiver<Terms>,
    /// A permit for each connection that may be open, over all workers.
    pub(super) vacancies: Arc<Semaphore>,
}

impl ListenerTerms {
    pub(super) fn new(terms: Terms) -> Self {
        let vacancies = Arc::new(Semaphore::new(terms.vacancies()));
        Self { terms: watch::Sender::new(terms), vacancies }
    }

    pub(super) fn view(&self) -> TermsView {
        TermsView { terms: self.terms.subscribe(), vacancies: Arc::clone(&self.vacancies) }
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
            self.vacancies.add_permits(new - old);
        } else {
            let vacancies = Arc::clone(&self.vacancies);
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

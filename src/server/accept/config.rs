//! The checked configuration of a listener, which can change while it listens.

use std::sync::Arc;

use rustls::ServerConfig;
use tokio::sync::watch;

use super::balance::OpenConnections;
use super::error::BindError;
use super::permits::{Capacity, Permits};
use crate::platform::OwnSockets;
use crate::server::settings::ListenerSettings;

/// The settings of a listener, with their TLS set up.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    pub settings: Arc<ListenerSettings>,
    pub tls: Option<Arc<ServerConfig>>,
}

impl ListenerConfig {
    /// Sets up the TLS that the settings describe.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn new(settings: ListenerSettings) -> Result<Self, BindError> {
        let tls = settings.tls.as_ref().map(|tls| tls.server(settings.http2.is_some()));
        let tls = tls.transpose().map_err(|source| {
            let address = settings.address.clone();
            BindError::Tls { address, source }
        })?;
        Ok(Self { settings: Arc::new(settings), tls })
    }
}

/// Controls the sockets of one listener on all workers.
#[derive(Debug)]
pub struct ListenerHandle {
    config: watch::Sender<ListenerConfig>,
    permits: Permits,
    open: OpenConnections,
    sockets: Option<OwnSockets>,
}

/// One worker's view of the configuration and the permits of a listener.
#[derive(Debug)]
pub struct WorkerView {
    pub config: watch::Receiver<ListenerConfig>,
    pub permits: Permits,
}

impl ListenerHandle {
    pub fn new(
        config: ListenerConfig,
        capacity: Capacity,
        open: OpenConnections,
        sockets: Option<OwnSockets>,
    ) -> Self {
        let ListenerSettings { max_connections, when_full, .. } = *config.settings;
        let permits = Permits::new(max_connections, when_full, capacity);
        Self { config: watch::Sender::new(config), permits, open, sockets }
    }

    pub fn view(&self) -> WorkerView {
        WorkerView { config: self.config.subscribe(), permits: self.permits.clone() }
    }

    /// Its open connections, which are counted as long as it is in use.
    pub fn open_connections(&self) -> OpenConnections {
        self.open.clone()
    }

    /// Its sockets, if they are of TCP.
    pub fn sockets(&self) -> Option<&OwnSockets> {
        self.sockets.as_ref()
    }

    /// The current settings.
    pub fn settings(&self) -> Arc<ListenerSettings> {
        Arc::clone(&self.config.borrow().settings)
    }

    /// Applies `config` to later connections. The address does not change. If more
    /// connections are open than `config` allows, no other is served until enough of
    /// them have closed.
    ///
    /// Must run on a local runtime.
    pub fn change(&self, config: ListenerConfig) {
        let old = self.config.borrow().settings.max_connections;
        self.permits.resize(old, config.settings.max_connections);
        self.config.send_replace(config);
    }
}

//! The settings of a store while they may change: the credentials, the files for TLS, and the
//! number of connections.

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::watch;

use super::settings::RedisSettings;

impl RedisSettings {
    /// These settings, with the credentials, the TLS settings and the number of connections of
    /// `other`. A running store can adopt these; other settings need another store.
    #[must_use]
    pub fn with_connections_of(&self, other: &Self) -> Self {
        Self {
            credentials: other.credentials.clone(),
            sentinel_credentials: other.sentinel_credentials.clone(),
            tls: other.tls.clone(),
            connections: other.connections,
            ..self.clone()
        }
    }

    /// Whether a connection that was opened with these settings is as good as one with `other`.
    pub(super) fn opens_like(&self, other: &Self) -> bool {
        self.credentials == other.credentials && self.tls == other.tls
    }

    /// Whether a connection that was opened with these settings needs only `AUTH` to be as good
    /// as one with `other`.
    pub(super) fn differs_in_password(&self, other: &Self) -> bool {
        let (own, others) = (&self.credentials, &other.credentials);
        self.tls == other.tls
            && own.username == others.username
            && own.password != others.password
            && others.password.is_some()
    }
}

/// The settings that the connections of one store use, and their changes.
#[derive(Clone, Debug)]
pub(super) struct LiveSettings {
    latest: watch::Receiver<Arc<RedisSettings>>,
    /// What this use of the settings needs otherwise.
    adapt: fn(RedisSettings) -> RedisSettings,
}

impl LiveSettings {
    /// Follows `latest`. `adapt` makes the settings of this use from them.
    pub(super) fn new(
        latest: watch::Receiver<Arc<RedisSettings>>,
        adapt: fn(RedisSettings) -> RedisSettings,
    ) -> Self {
        Self { latest, adapt }
    }

    /// The settings now. [`Self::changed`] reports later ones.
    pub(super) fn current(&mut self) -> RedisSettings {
        let latest = Arc::clone(&self.latest.borrow_and_update());
        (self.adapt)(RedisSettings::clone(&latest))
    }

    /// The settings now, for a use that does not follow them.
    pub(super) fn peek(&self) -> RedisSettings {
        self.clone().current()
    }

    /// Returns when the settings are others than those of the last [`Self::current`].
    pub(super) async fn changed(&mut self) {
        if self.latest.changed().await.is_err() {
            // The node that could change them has ended.
            std::future::pending::<()>().await;
        }
    }
}

/// Settings that never change.
impl From<RedisSettings> for LiveSettings {
    fn from(settings: RedisSettings) -> Self {
        Self::new(watch::channel(Arc::new(settings)).1, |settings| settings)
    }
}

impl From<Rc<RedisSettings>> for LiveSettings {
    fn from(settings: Rc<RedisSettings>) -> Self {
        RedisSettings::clone(&settings).into()
    }
}

//! The settings of a store while they may change: the credentials, the files for TLS, and the
//! number of connections.

use std::rc::Rc;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

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
        let own = &self.credentials;
        let others = &other.credentials;
        self.tls == other.tls
            && own.username == others.username
            && own.password != others.password
            && others.password.is_some()
    }
}

/// The latest settings of a node.
///
/// The tasks that follow them resume in the order in which they began to wait. A `watch` of tokio
/// wakes tasks in a random order, so a seed of the checker would not reproduce its run.
#[derive(Debug)]
pub(super) struct Latest {
    settings: Mutex<Arc<RedisSettings>>,
    changed: Notify,
}

impl Latest {
    /// Begins with these settings.
    pub(super) fn new(settings: RedisSettings) -> Arc<Self> {
        Arc::new(Self { settings: Mutex::new(Arc::new(settings)), changed: Notify::new() })
    }

    /// The settings now.
    pub(super) fn get(&self) -> Arc<RedisSettings> {
        Arc::clone(&self.settings.lock())
    }

    /// Replaces the settings, if these differ.
    pub(super) fn set(&self, settings: RedisSettings) {
        if *self.get() != settings {
            *self.settings.lock() = Arc::new(settings);
            self.changed.notify_waiters();
        }
    }
}

/// The settings that the connections of one store use, and their changes.
#[derive(Clone, Debug)]
pub(super) struct LiveSettings {
    latest: Arc<Latest>,
    /// Those of the last [`Self::current`].
    seen: Option<Arc<RedisSettings>>,
    /// What this use of the settings needs otherwise.
    adapt: fn(RedisSettings) -> RedisSettings,
}

impl LiveSettings {
    /// Follows `latest`. `adapt` makes the settings of this use from them.
    pub(super) fn new(latest: &Arc<Latest>, adapt: fn(RedisSettings) -> RedisSettings) -> Self {
        Self { latest: Arc::clone(latest), seen: None, adapt }
    }

    /// The settings now. [`Self::changed`] reports later ones.
    pub(super) fn current(&mut self) -> RedisSettings {
        let latest = self.latest.get();
        let settings = RedisSettings::clone(&latest);
        self.seen = Some(latest);
        (self.adapt)(settings)
    }

    /// The settings now, for a use that does not follow them.
    pub(super) fn peek(&self) -> RedisSettings {
        (self.adapt)(RedisSettings::clone(&self.latest.get()))
    }

    /// Returns when the settings are others than those of the last [`Self::current`].
    pub(super) async fn changed(&mut self) {
        loop {
            let changed = self.latest.changed.notified();
            let latest = self.latest.get();
            if self.seen.as_ref().is_none_or(|seen| !Arc::ptr_eq(seen, &latest)) {
                return;
            }
            changed.await;
        }
    }
}

/// Settings that never change.
impl From<RedisSettings> for LiveSettings {
    fn from(settings: RedisSettings) -> Self {
        Self::new(&Latest::new(settings), |settings| settings)
    }
}

impl From<Rc<RedisSettings>> for LiveSettings {
    fn from(settings: Rc<RedisSettings>) -> Self {
        RedisSettings::clone(&settings).into()
    }
}

//! Where API keys are looked up that the settings of a limiter do not contain.

#[cfg(feature = "keys")]
use std::sync::{Arc, PoisonError, RwLock};

#[cfg(feature = "keys")]
use tollgate_core::api_keys::{Found, KeyTable, Sought};
#[cfg(all(feature = "keys", feature = "redis"))]
use tollgate_core::store::keys::SharedKeys;

/// Where the keys of a limiter are looked up. Not part of the stable interface.
#[derive(Clone, Debug, Default)]
pub enum KeySource {
    /// All keys are in the settings.
    #[default]
    Settings,
    /// Keys that the application replaces.
    #[cfg(feature = "keys")]
    Held(HeldKeys),
    /// Keys in Redis, which the threads of the store know.
    #[cfg(all(feature = "keys", feature = "redis"))]
    Redis(SharedKeys),
}

#[cfg(all(feature = "keys", feature = "redis"))]
impl KeySource {
    /// The keys in the store.
    pub(super) fn stored(&self) -> Option<SharedKeys> {
        match self {
            Self::Redis(keys) => Some(keys.clone()),
            _ => None,
        }
    }
}

/// A table of keys that can be exchanged. Not part of the stable interface.
#[cfg(feature = "keys")]
#[derive(Clone, Debug)]
pub struct HeldKeys(Arc<RwLock<Arc<KeyTable>>>);

#[cfg(feature = "keys")]
impl HeldKeys {
    pub(super) fn new(table: Arc<KeyTable>) -> Self {
        Self(Arc::new(RwLock::new(table)))
    }

    pub(super) fn table(&self) -> Arc<KeyTable> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn replace(&self, table: Arc<KeyTable>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    /// Looks up a key.
    pub(super) fn find(&self, sought: &Sought) -> Found {
        match self.table().find(sought) {
            Some(entry) => Found::Known(Arc::clone(entry)),
            None => Found::Unknown,
        }
    }
}

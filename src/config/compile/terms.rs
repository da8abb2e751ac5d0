//! `store_mode` and `on_store_failure`: how a shared store keeps a policy's counters.

use super::Compiler;
use crate::config::field::{Field, Spanned};
use crate::config::raw::{RawAlgorithm, RawConfig, RawOnFailure, RawPolicy, RawStoreMode};
use crate::terms::{OnFailure, StoreMode, Terms};

impl Compiler<'_> {
    /// `usual` is the mode of policies that do not say.
    pub(super) fn terms(&self, raw: &RawPolicy, config: &RawConfig, usual: StoreMode) -> Terms {
        if !shares_store(config) {
            self.warn_not_shared(&raw.store_mode, "store_mode");
            self.warn_not_shared(&raw.on_store_failure, "on_store_failure");
        }
        let wanted = raw.store_mode.value().map_or(usual, |mode| mode.meant());
        let on_failure = raw.on_store_failure.value().map_or(OnFailure::Local, on_failure);
        let Some(algorithm) = always_exact(raw) else { return Terms { mode: wanted, on_failure } };
        if let Some(mode) = raw.store_mode.given().filter(|_| wanted != StoreMode::Exact) {
            let message = format!("this has no effect: the algorithm {algorithm} is always exact");
            self.problems.warning(mode.span, &message, "leave it out, or choose another algorithm");
        }
        Terms { mode: StoreMode::Exact, on_failure }
    }

    fn warn_not_shared<T>(&self, field: &Field<T>, name: &str) {
        if let Some(Spanned { span, .. }) = field.given() {
            let message = format!("\"{name}\" has no effect: the counters are in memory alone");
            self.problems.warning(*span, &message, "name a server: store: { redis: { url: ... } }");
        }
    }
}

impl RawStoreMode {
    pub(super) fn meant(self) -> StoreMode {
        match self {
            Self::Exact => StoreMode::Exact,
            Self::Leased => StoreMode::Leased,
            Self::WriteBack => StoreMode::WriteBack,
        }
    }
}

fn on_failure(raw: &RawOnFailure) -> OnFailure {
    match raw {
        RawOnFailure::Local => OnFailure::Local,
        RawOnFailure::Allow => OnFailure::Allow,
        RawOnFailure::Deny => OnFailure::Deny,
    }
}

/// Whether the store is one that nodes share, or was meant to be one.
pub(super) fn shares_store(config: &RawConfig) -> bool {
    config.store.is_broken() || config.store.value().is_some_and(|store| !store.redis.is_absent())
}

/// The name of an algorithm of which nothing can be taken in advance or told later.
fn always_exact(raw: &RawPolicy) -> Option<&'static str> {
    match raw.algorithm_kind()? {
        RawAlgorithm::SlidingLog => Some("sliding_log"),
        RawAlgorithm::LeakyBucket => Some("leaky_bucket"),
        RawAlgorithm::Concurrency => Some("concurrency"),
        RawAlgorithm::SlidingWindow | RawAlgorithm::FixedWindow | RawAlgorithm::TokenBucket => None,
    }
}

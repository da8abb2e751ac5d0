//! The state that lasts as long as the process, and the snapshots made with it.

use std::net::SocketAddr;
use std::sync::Arc;

use tollgate_core::decision::HeaderWriter;
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::refusal::Offer;
use tollgate_core::routes::Rules;
use tollgate_core::store::keys::{KeysFile, OnFailure, SharedKeys};
use tollgate_core::store::overrides::{OverridesFile, SharedOverrides};
use tollgate_core::store::{MemoryStore, SharedStore};
use tollgate_redis::NodeState;

use crate::config::{Config, StoreSettings};
use crate::engine::SharedAuth;
use crate::proxy::{UpstreamSettings, UpstreamShared};
use crate::server::BodyMemory;
use crate::snapshot::{Handling, Snapshot};
use crate::telemetry::{
    BudgetWarnings, Forwarders, RefusalRings, TelemetrySettings, TopHistory, UnsettledWarnings,
};

use super::error::RunError;

/// The state that lasts as long as the process: the store of all workers, the secret of
/// the keys, and the settings that apply until a restart.
pub struct ProcessState {
    pub store: SharedStore,
    /// This node's part of the store in Redis, if the counters are there.
    pub redis: Option<Arc<NodeState>>,
    pub overrides: Option<SharedOverrides>,
    /// The file of the overrides, if they are in one.
    pub overrides_file: Option<OverridesFile>,
    /// The file of the API keys, if they are in one.
    pub keys_file: Option<KeysFile>,
    /// The API keys in the store, if requests have keys of it.
    pub keys: Option<SharedKeys>,
    /// The heaviest clients of the last minutes.
    pub top: Arc<TopHistory>,
    /// The last refusals of all workers.
    pub refusals: Arc<RefusalRings>,
    /// Peers that name clients and are not trusted.
    pub forwarders: Arc<Forwarders>,
    /// What all workers check credentials with.
    pub auth: SharedAuth,
    /// When the log has warned of requests whose cost is not known.
    pub unsettled: UnsettledWarnings,
    /// Shares of limits that clients have passed.
    pub budgets: Arc<BudgetWarnings>,
    /// The memory of the bodies that are read before they are forwarded.
    pub body_memory: Arc<BodyMemory>,
    secret: Arc<SharedSecret>,
    /// The address of `builtin:echo`.
    echo: SocketAddr,
    settings: RestartSettings,
}

/// Settings that apply until a restart.
struct RestartSettings {
    store: StoreSettings,
    workers: Option<usize>,
    telemetry: TelemetrySettings,
}

impl ProcessState {
    /// The state for the first configuration, with a store that begins with these settings.
    ///
    /// # Errors
    /// If the file of overrides or of keys cannot be used.
    pub fn new(config: &Config, store: &StoreSettings, echo: SocketAddr) -> Result<Self, RunError> {
        let overrides_file = overrides_file(config)?;
        let (overrides, secret) = overrides(config, overrides_file.clone())?;
        let keys_file = config.store.keys.as_deref().map(KeysFile::open).transpose()?;
        let keys = keys(config, keys_file.clone())?;
        let secret = Arc::new(SharedSecret::new(secret));
        let settings = RestartSettings {
            store: config.store.clone(),
            workers: config.runtime.workers,
            telemetry: config.telemetry.clone(),
        };
        let (store, redis) = shared_store(store, &secret);
        let top = Arc::default();
        let refusals = Arc::default();
        let forwarders = Arc::default();
        let body_memory = Arc::<BodyMemory>::default();
        body_memory.set_max(config.runtime.body_memory);
        Ok(Self {
            store,
            redis,
            overrides,
            overrides_file,
            keys_file,
            keys,
            top,
            refusals,
            forwarders,
            auth: SharedAuth::default(),
            unsettled: UnsettledWarnings::default(),
            budgets: Arc::default(),
            body_memory,
            secret,
            echo,
            settings,
        })
    }

    /// The snapshot of a configuration, which all workers share. An upstream that is in
    /// `before` with the same settings is kept, with its state. Nothing that is in use changes.
    pub fn snapshot(&self, config: Config, before: &[Arc<UpstreamShared>]) -> Snapshot {
        let (rules, routes): (Vec<_>, Vec<Handling>) =
            config.routes.into_iter().map(|route| (route.rule, route.handling)).unzip();
        let edited = routes.iter().filter_map(|route| route.changes.as_ref());
        let edited = edited.flat_map(|changes| changes.request.names().cloned());
        let taken = config.authorizers.iter().flat_map(|it| it.guarded_names());
        let rules = Rules::new(rules, config.client, Arc::clone(&self.secret));
        let rules = rules.guarding(edited).guarding(taken);
        let upstreams =
            config.upstreams.into_iter().map(|settings| self.upstream(settings, before));
        Snapshot {
            rules,
            routes,
            policies: config.policies,
            access: config.access,
            definitions: config.definitions,
            patches: Arc::default(),
            authorizers: config.authorizers,
            upstreams: upstreams.collect(),
            headers: HeaderWriter::new(&config.headers),
            offer: if config.problem_json { Offer::ProblemAndPage } else { Offer::Text },
        }
    }

    fn upstream(
        &self,
        settings: UpstreamSettings,
        before: &[Arc<UpstreamShared>],
    ) -> Arc<UpstreamShared> {
        match before.iter().find(|it| it.settings().name == settings.name) {
            Some(same) if *same.settings() == settings => Arc::clone(same),
            Some(other) => Arc::new(other.changed(settings, self.echo)),
            None => Arc::new(UpstreamShared::new(settings, self.echo)),
        }
    }

    /// Changes what nodes do while the API keys cannot be read.
    pub fn set_keys_on_failure(&self, on_failure: OnFailure) {
        if let Some(keys) = &self.keys {
            keys.set_on_failure(on_failure);
        }
    }

    /// The most keys that the memory of this node keeps.
    pub fn max_keys(&self) -> usize {
        self.settings.store.max_keys
    }

    /// The names of the changes in `config` that need a restart.
    pub fn needs_restart(&self, config: &Config) -> Vec<&'static str> {
        let RestartSettings { store, workers, telemetry } = &self.settings;
        let differ = [
            ("store", !store.can_become(&config.store)),
            (
                "the first policy with overrides",
                may_have_overrides(config) && self.overrides.is_none(),
            ),
            ("the first client.keys with a store", config.looks_keys_up() && self.keys.is_none()),
            (
                "client.keys.store",
                config.client.keys.is_some() && !config.looks_keys_up() && self.keys.is_some(),
            ),
            ("runtime.workers", config.runtime.workers != *workers),
            ("telemetry", config.telemetry != *telemetry),
        ];
        differ.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

/// Whether a policy has overrides enabled.
fn may_have_overrides(config: &Config) -> bool {
    config.policies.iter().any(|policy| policy.overrides.is_some())
}

/// The file of the overrides, if a policy has them enabled and they are in a file.
fn overrides_file(config: &Config) -> Result<Option<OverridesFile>, RunError> {
    let path = config.store.overrides.as_ref().filter(|_| may_have_overrides(config));
    Ok(path.map(|path| OverridesFile::open(path)).transpose()?)
}

/// The API keys in the store or in a file, if requests have keys of it.
fn keys(config: &Config, file: Option<KeysFile>) -> Result<Option<SharedKeys>, RunError> {
    if !config.looks_keys_up() {
        return Ok(None);
    }
    Ok(match file {
        Some(file) => Some(SharedKeys::in_file(file, config.keys_on_failure)?),
        None => config.store.redis.as_ref().map(|_| SharedKeys::in_store(config.keys_on_failure)),
    })
}

/// The overrides, if a policy has them enabled, and the secret with which keys are
/// digested.
fn overrides(
    config: &Config,
    file: Option<OverridesFile>,
) -> Result<(Option<SharedOverrides>, Secret), RunError> {
    match file {
        Some(file) => {
            let secret = file.secret();
            Ok((Some(SharedOverrides::in_file(file)?), secret))
        }
        None => Ok((may_have_overrides(config).then(SharedOverrides::in_store), Secret::random())),
    }
}

/// The store of all workers. If several nodes share it, the secret is read from it later.
fn shared_store(
    settings: &StoreSettings,
    secret: &Arc<SharedSecret>,
) -> (SharedStore, Option<Arc<NodeState>>) {
    let memory = Arc::new(MemoryStore::new(settings.max_keys));
    let Some(redis) = settings.redis.clone() else { return (SharedStore::Memory(memory), None) };
    let node = Arc::new(NodeState::new(redis, memory, Arc::clone(secret)));
    (SharedStore::Remote(Arc::<NodeState>::clone(&node)), Some(node))
}

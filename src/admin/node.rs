//! What the admin listener knows of the gateway: a view that every reload replaces, and the ways
//! to the store and to the reader of configurations.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tollgate_core::policy::Policy;
use tollgate_core::store::overrides::{Override, OverridesFile};
use tollgate_core::time::Timestamp;
use tollgate_redis::ControlStore;

use super::AdminSettings;
use super::cluster::{Cluster, ClusterFigures, Own};
use super::config_call::ConfigCall;
use super::masked_config::MaskedConfig;
use super::problem::{ConfigProblem, Problem};
use crate::api_keys::Keys;
use crate::engine::StoreCall;
use crate::patches::{PatchCall, Resolved};
use crate::platform::OtherListener;
use crate::snapshot::Snapshot;
use crate::telemetry::{BudgetWarnings, Forwarders, History, Metrics, RefusalRings, TopHistory};

/// What the gateway does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It serves requests.
    Serving,
    /// It finishes the requests in progress, and then ends.
    Draining,
}

/// The state of the gateway.
#[derive(Clone, Debug)]
pub struct View {
    /// What the gateway does.
    pub phase: Phase,
    /// The configuration in use.
    pub snapshot: Arc<Snapshot>,
    /// Which callers are admitted, and how.
    pub settings: Arc<AdminSettings>,
    /// The text in use. None: the gateway runs without one.
    pub document: Option<ShownConfig>,
    /// The call that gave the configuration in use. None: it is that of the file.
    pub origin: Option<PutBy>,
    /// The names of settings that are not in force before a restart.
    pub needs_restart: Vec<&'static str>,
    /// How many configurations have been in use.
    pub generation: u64,
    /// The time since which this one is.
    pub loaded: Timestamp,
    /// Why the last reload failed, and when.
    pub failure: Option<(Timestamp, String)>,
}

/// A configuration as it is shown.
#[derive(Clone)]
pub struct ShownConfig {
    /// The configuration without its secrets.
    pub masked: MaskedConfig,
    /// What is true of it with these patches.
    pub effective: Arc<dyn Fn(&Resolved) -> EffectiveConfig + Send + Sync>,
    /// Identifies the text: the contents of an entity tag.
    pub tag: String,
}

/// What is true of a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EffectiveConfig {
    /// The file with its defaults and the patches in force, without secrets.
    pub effective: Value,
    pub origins: Origins,
}

/// Where the values come from that are not written in the file, as JSON Pointers (RFC 6901).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Origins {
    /// Fields that the file leaves out.
    pub default: Vec<String>,
    /// Fields that patches have changed.
    pub patch: Vec<String>,
    /// Fields whose value comes from `${...}`, and is shown.
    pub reference: Vec<String>,
    /// Fields whose value is not shown.
    pub secret: Vec<String>,
}

impl fmt::Debug for ShownConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShownConfig").field("tag", &self.tag).finish_non_exhaustive()
    }
}

/// A call that has replaced the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutBy {
    /// The name of its credential.
    pub actor: String,
    /// When it was made.
    pub at: Timestamp,
}

/// What the check of a configuration has found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The configuration without secrets, if it can be used.
    pub document: Option<MaskedConfig>,
    /// Its mistakes and warnings.
    pub problems: Vec<ConfigProblem>,
}

/// Reads what is written as in a configuration.
#[derive(Clone)]
pub struct Readers {
    /// Checks the text of a configuration, for a bounded time. The error says which file does not
    /// answer.
    pub check: Rc<dyn Fn(String) -> LocalBoxFuture<'static, Result<Checked, String>>>,
    /// The limit of a single key.
    pub limit: fn(&str, &Policy) -> Result<Override, String>,
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readers(..)")
    }
}

/// The ways to the gateway.
pub struct Node {
    /// The state of the gateway.
    pub view: watch::Receiver<View>,
    /// Questions to the store.
    pub store: mpsc::Sender<StoreCall>,
    /// Changes of policies.
    pub patches: mpsc::Sender<PatchCall>,
    /// Changes of the configuration.
    pub configs: mpsc::Sender<ConfigCall>,
    /// What all nodes share besides counters. None: there is one node.
    pub control: Option<Rc<ControlStore>>,
    /// What this node says of itself to the others.
    pub own_record: Rc<dyn Fn() -> Value>,
    /// The file of overrides, if there is one.
    pub overrides: Option<OverridesFile>,
    /// The API keys in the store. None: there is no store for them.
    pub keys: Option<Keys>,
    /// All metrics.
    pub metrics: Arc<Metrics>,
    /// The heaviest clients of each policy.
    pub top: Arc<TopHistory>,
    /// The figures of the last minutes.
    pub history: Rc<History>,
    /// The figures of all nodes, if they were asked for.
    pub cluster: ClusterFigures,
    /// The last refusals of all workers.
    pub refusals: Arc<RefusalRings>,
    /// Shares of limits that clients have passed.
    pub budgets: Arc<BudgetWarnings>,
    /// Peers that name clients and are not trusted.
    pub forwarders: Arc<Forwarders>,
    /// The other processes that listen on an address of this one.
    pub other_listeners: Rc<dyn Fn() -> Arc<[OtherListener]>>,
    /// Reads configurations.
    pub readers: Readers,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("view", &self.view).finish_non_exhaustive()
    }
}

impl Node {
    /// The state of the gateway now.
    pub fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// The figures of all nodes.
    pub async fn cluster(&self, now: Timestamp) -> Rc<Cluster> {
        let own = Own { history: &self.history, top: &self.top };
        self.cluster.collect(self.control.as_deref(), own, now).await
    }

    /// Asks a worker.
    ///
    /// # Errors
    /// 503, if too many questions wait, or no worker answers.
    pub async fn ask<T>(
        &self,
        call: impl FnOnce(oneshot::Sender<T>) -> StoreCall,
    ) -> Result<T, Problem> {
        let (reply, answer) = oneshot::channel();
        let away = || Problem::unavailable("no worker answers now; try again");
        if self.view.borrow().phase == Phase::Draining {
            return Err(Problem::unavailable("this node finishes its last requests; ask another"));
        }
        self.store.try_send(call(reply)).map_err(|_| away())?;
        answer.await.map_err(|_| away())
    }
}

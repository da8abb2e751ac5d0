//! What others ask of the supervisor.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tollgate_core::store::keys::KeyStorage;
use tollgate_core::store::overrides::OverridesFile;

use super::super::key_set::Fetched;
use super::super::key_store;
use super::super::node_record::NodeReporter;
use super::super::observed::Observed;
use super::super::patches::PatchKeeper;
use super::super::sockets::Purpose;
use super::super::worker::Command;
use super::Supervisor;
use crate::api_keys::Keys;
use crate::config::{self, HeldFiles};
use crate::server::ListenAddress;
use crate::snapshot::Snapshot;
use crate::telemetry::{BudgetWarnings, Forwarders, Metrics, RefusalRings, TopHistory};

impl Supervisor {
    /// The configuration in use.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }

    /// The actual addresses of the listeners that were opened at the start.
    pub fn addresses(&self) -> &[(Purpose, ListenAddress)] {
        &self.opened
    }

    /// The way to each worker.
    pub fn workers(&self) -> Vec<mpsc::UnboundedSender<Command>> {
        self.workers.iter().map(|(worker, _)| worker.clone()).collect()
    }

    /// The file of the overrides, if they are in one.
    pub fn overrides_file(&self) -> Option<OverridesFile> {
        self.state.overrides_file.clone()
    }

    /// Asks the server of the rate limit service as the configuration says.
    pub fn renew_xds(&mut self) {
        let condition = self.xds.renew(&self.check, self.workers());
        self.observed.set_xds(condition);
    }

    /// The API keys in the store, if there is a store for them.
    pub fn keys_for_operators(&self) -> Option<Keys> {
        Some(Keys::new(self.key_storage()?, config::key_readers()))
    }

    /// Tells what is wrong with the store of the API keys, if requests have keys of it.
    pub fn watch_keys(&self) {
        if let (Some(keys), Some(storage)) = (self.state.keys.clone(), self.key_storage()) {
            key_store::watch(keys, storage, self.observed());
        }
    }

    fn key_storage(&self) -> Option<Rc<dyn KeyStorage>> {
        match (self.patches.control(), &self.state.keys_file) {
            (Some(control), _) => Some(Rc::new(control.keys())),
            (None, Some(file)) => Some(Rc::new(file.clone())),
            (None, None) => None,
        }
    }

    /// Shows in the metrics how a reload has ended.
    pub fn reloaded(&self, is_successful: bool) {
        self.observed.reloaded(is_successful);
    }

    /// Shows whether the configuration in use is that of the file.
    pub fn set_from_file(&self, is_from_file: bool) {
        self.observed.set_from_file(is_from_file);
    }

    /// The heaviest clients of the last minutes.
    pub fn top(&self) -> Arc<TopHistory> {
        Arc::clone(&self.state.top)
    }

    /// Peers that name clients and are not trusted.
    pub fn forwarders(&self) -> Arc<Forwarders> {
        Arc::clone(&self.state.forwarders)
    }

    /// The state of the process, as metrics show it.
    pub fn observed(&self) -> Arc<Observed> {
        Arc::clone(&self.observed)
    }

    /// The last refusals of all workers.
    pub fn refusals(&self) -> Arc<RefusalRings> {
        Arc::clone(&self.state.refusals)
    }

    /// Shares of limits that clients have passed.
    pub fn budgets(&self) -> Arc<BudgetWarnings> {
        Arc::clone(&self.state.budgets)
    }

    /// The metrics of the process.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Whether a rule verifies tokens.
    pub fn verifies_tokens(&self) -> bool {
        self.snapshot.rules.clients().verifies_tokens()
    }

    /// The large files in use.
    pub fn held_files(&self) -> HeldFiles {
        self.held_files.clone()
    }

    /// The key set that is fetched, if there is one.
    pub fn keys(&self) -> Option<&Fetched> {
        self.keys.as_ref()
    }

    /// How long requests in progress may take when the process stops.
    pub fn drain_limit(&self) -> Duration {
        self.drain_limit
    }

    /// Describes this node, whose admin listener has this address.
    pub fn reporter(&self, admin: Option<String>) -> Rc<NodeReporter> {
        let observed = Arc::clone(&self.observed);
        NodeReporter::new(self.patches(), self.metrics(), observed, admin)
    }

    /// The changes of policies at run time.
    pub fn patches(&self) -> Rc<PatchKeeper> {
        Rc::clone(&self.patches)
    }
}

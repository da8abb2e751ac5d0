//! Another configuration for all workers, in two steps. The first one does all that can fail, and
//! changes nothing that is in use. The second one cannot fail, except that the system may refuse a
//! Unix socket its name at the last moment: then an error is logged.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::keys::OnFailure;
use tracing::{error, info, warn};

use super::super::key_set::{self, Condition, Fetched};
use super::super::sockets::{ListenerId, Purpose, Sockets, matching, wanted};
use super::{BoundListener, Supervisor, begin_upstreams};
use crate::check::CheckSettings;
use crate::config::{Config, HeldFiles, StoreSettings};
use crate::proxy::{self, UpstreamShared};
use crate::server::{BindError, CertificateDates, ListenerConfig, ListenerSettings};
use crate::snapshot::Snapshot;

/// A configuration that can run. If it is dropped, nothing has changed.
pub struct Prepared {
    snapshot: Snapshot,
    /// The upstreams that are not in use yet.
    upstreams: Vec<Arc<UpstreamShared>>,
    listeners: Listeners,
    check: Arc<CheckSettings>,
    store: StoreSettings,
    keys_on_failure: OnFailure,
    drain_limit: Duration,
    body_memory: u64,
    held_files: HeldFiles,
    certificates: Arc<[CertificateDates]>,
    keys: Option<Fetched>,
    agents: Vec<Fetched>,
    key_sets: Vec<Arc<Condition>>,
    needs_restart: Vec<&'static str>,
}

/// The listeners that a configuration wants.
struct Listeners {
    /// For each of them, the index of the running one, if there is one.
    matches: Vec<Option<usize>>,
    /// The running ones that change, by their index.
    changed: Vec<(usize, ListenerConfig)>,
    new: Vec<BoundListener>,
}

impl Supervisor {
    /// Does all that can fail before the configuration runs: opens its listeners, sets up their TLS,
    /// and looks up the names of its upstreams. `keys`: the keys that verify its tokens, if they are
    /// fetched.
    ///
    /// # Errors
    /// If a listener cannot be opened.
    pub async fn prepare(
        &self,
        mut config: Config,
        keys: Option<Fetched>,
    ) -> Result<Prepared, BindError> {
        let needs_restart = self.state.needs_restart(&config);
        let store = config.store.clone();
        let wanted = wanted(&config);
        let keys_on_failure = config.keys_on_failure;
        let drain_limit = config.runtime.drain;
        let body_memory = config.runtime.body_memory;
        let check = Arc::new(mem::take(&mut config.check));
        let held_files = mem::take(&mut config.files);
        let certificates = Arc::clone(&config.certificates);
        let agents = key_set::begin_agents(&mut config, &self.agents);
        let key_sets = key_set::conditions(&config, keys.as_ref(), &agents);
        let before = &self.snapshot.upstreams;
        let mut snapshot = self.state.snapshot(config, before);
        snapshot.continue_mirrors(&self.snapshot);
        let is_new = |it: &&Arc<UpstreamShared>| !before.iter().any(|old| Arc::ptr_eq(old, it));
        let upstreams: Vec<_> = snapshot.upstreams.iter().filter(is_new).cloned().collect();
        proxy::resolve(&upstreams).await;
        let listeners = self.prepare_listeners(&wanted)?;
        Ok(Prepared {
            snapshot,
            upstreams,
            listeners,
            check,
            store,
            keys_on_failure,
            drain_limit,
            body_memory,
            held_files,
            certificates,
            keys,
            agents,
            key_sets,
            needs_restart,
        })
    }

    /// Runs the configuration on all workers, and returns when all of them have it. Changes that
    /// need a restart are logged and not applied. Returns their names.
    ///
    /// The future may be dropped: listeners, routes and all else have changed before it waits for
    /// the workers.
    pub async fn reload(&mut self, prepared: Prepared) -> Vec<&'static str> {
        let Prepared { needs_restart, .. } = &prepared;
        for name in needs_restart {
            warn!("{name}: changed in the file, but the change needs a restart");
        }
        self.store_access.change(&prepared.store);
        let (opened, closed) = self.renew_listeners(prepared.listeners);
        begin_upstreams(&prepared.upstreams);
        self.drain_limit = prepared.drain_limit;
        self.check = prepared.check;
        self.state.set_keys_on_failure(prepared.keys_on_failure);
        self.state.body_memory.set_max(prepared.body_memory);
        self.base = Arc::new(prepared.snapshot);
        self.snapshot = Arc::new(self.patches.patched(&self.base));
        self.warn_of_files();
        let policies = &self.snapshot.policies;
        self.state.refusals.retain(|name| policies.iter().any(|it| *it.name == *name));
        self.observed.renew(Arc::clone(&self.snapshot));
        self.observed.set_certificates(prepared.certificates);
        self.observed.set_key_sets(prepared.key_sets);
        self.observed.set_files(&prepared.held_files);
        self.observe_listeners();
        self.held_files = prepared.held_files;
        self.keys = prepared.keys;
        self.agents = prepared.agents;
        self.reload_workers(opened, &closed).await;
        self.renew_xds();
        self.state.forwarders.clear();
        prepared.needs_restart
    }

    /// Opens the listeners that do not run yet, and sets up the TLS of all that change.
    fn prepare_listeners(
        &self,
        wanted: &[(Purpose, ListenerSettings)],
    ) -> Result<Listeners, BindError> {
        let running = self.listeners.iter().map(|(_, purpose, it)| (*purpose, it.settings()));
        let running: Vec<(Purpose, Arc<ListenerSettings>)> = running.collect();
        let matches = matching(&running, wanted);
        let wanted = wanted.iter().zip(&matches);
        let new = wanted.clone().filter(|(_, index)| index.is_none()).map(|(new, _)| new);
        let mut changed = Vec::new();
        for ((_, settings), index) in wanted {
            if let Some(index) = index.filter(|index| *running[*index].1 != *settings) {
                changed.push((index, ListenerConfig::new(settings.clone())?));
            }
        }
        let new = self.bind(new, self.workers.len())?;
        Ok(Listeners { matches, changed, new })
    }

    /// Adds, changes and removes listeners. Returns the sockets that were opened, and the listeners
    /// that the workers are to close.
    fn renew_listeners(&mut self, renewed: Listeners) -> (Vec<Sockets>, Vec<ListenerId>) {
        let Listeners { matches, changed, new } = renewed;
        for (index, config) in changed {
            self.listeners[index].2.change(config);
        }
        let running = self.listeners.len();
        for listener in &new {
            // Nothing is known that makes this fail after the socket could be opened.
            if let Err(error) = listener.publish() {
                error!("clients cannot connect: {error}");
            }
        }
        let opened = self.add(new);
        let closed = self.remove_all_but(&matches, running);
        (opened, closed)
    }

    /// Removes those of the first `running` listeners that are not among `kept`.
    fn remove_all_but(&mut self, kept: &[Option<usize>], running: usize) -> Vec<ListenerId> {
        let mut index = 0;
        let mut closed = Vec::new();
        self.listeners.retain(|(id, _, handle)| {
            let stays = index >= running || kept.contains(&Some(index));
            index += 1;
            if !stays {
                info!(address = %handle.settings().address, "no longer listening");
                closed.push(*id);
            }
            stays
        });
        closed
    }
}

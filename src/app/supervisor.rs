//! All workers and all listeners: started together, changed by a reload, and stopped
//! together.

mod known;
mod reload;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::join;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tollgate_core::drain::{Drain, Stop};
use tollgate_core::time::Clock;
use tracing::{info, warn};

use super::certificates;
use super::error::RunError;
use super::forwarders;
use super::key_set::{self, Fetched, FirstAttempt};
use super::observed::Observed;
use super::open_files::{self, FileWarnings};
use super::patches::PatchKeeper;
use super::process_state::ProcessState;
use super::sockets::{ListenerId, Purpose, Sockets, by_worker, wanted};
use super::store_access::StoreAccess;
use super::systemd::InheritedSockets;
use super::worker::{Command, Reload, Worker};
use super::xds::Xds;
use crate::check::{CheckSettings, SharedState};
use crate::config::{Config, HeldFiles};
use crate::proxy::{self, UpstreamShared};
use crate::server::{
    BindError, Capacity, ListenAddress, Listener, ListenerConfig, ListenerHandle, ListenerSettings,
};
use crate::snapshot::Snapshot;
use crate::telemetry::{AccessLog, Metrics, Tracer};
pub use reload::Prepared;

/// How much longer than the drain the workers may take to end.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// All workers and all listeners.
pub struct Supervisor {
    state: ProcessState,
    inherited: InheritedSockets,
    /// What the file says.
    base: Arc<Snapshot>,
    /// The same with the changes at run time, which the workers have.
    snapshot: Arc<Snapshot>,
    patches: Rc<PatchKeeper>,
    check: Arc<CheckSettings>,
    check_state: Arc<SharedState>,
    xds: Xds,
    held_files: HeldFiles,
    keys: Option<Fetched>,
    /// The key sets of agents, which are fetched.
    agents: Vec<Fetched>,
    store_access: StoreAccess,
    listeners: Vec<(ListenerId, Purpose, ListenerHandle)>,
    next_listener: u64,
    /// The actual addresses of the listeners that were opened.
    opened: Vec<(Purpose, ListenAddress)>,
    /// Idle connections of each worker to upstreams; see [`open_files::for_idle`].
    max_idle: usize,
    file_warnings: FileWarnings,
    capacity: Capacity,
    workers: Vec<(mpsc::UnboundedSender<Command>, JoinHandle<()>)>,
    drain_limit: Duration,
    metrics: Arc<Metrics>,
    observed: Arc<Observed>,
}

/// A listener that is open, and not in use yet.
struct BoundListener {
    purpose: Purpose,
    /// One for each worker.
    sockets: Vec<Listener>,
    handle: ListenerHandle,
}

impl BoundListener {
    /// Lets clients find it.
    fn publish(&self) -> Result<(), BindError> {
        self.sockets.first().map_or(Ok(()), Listener::publish)
    }
}

/// Where records of requests go.
#[derive(Clone, Copy, Default)]
pub struct Outputs<'a> {
    pub log: Option<&'a AccessLog>,
    pub tracer: Option<&'a Tracer>,
}

/// How the workers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// All workers have ended.
    Complete,
    /// Some workers still run and end with the process.
    Forced,
}

impl Supervisor {
    /// Opens all listeners first, so that the start fails if a port is in use, and then
    /// starts one thread for each worker.
    ///
    /// # Errors
    /// If an address, a file or a thread is not available.
    pub async fn start(
        mut config: Config,
        inherited: InheritedSockets,
        echo: SocketAddr,
        outputs: Outputs<'_>,
        drain: &Drain,
    ) -> Result<Self, RunError> {
        let workers = config.runtime.workers.unwrap_or_else(cores);
        let (store, password) = StoreAccess::begin(&config.store).await;
        let state = ProcessState::new(&config, &store, echo)?;
        let store_access = StoreAccess::keep(state.redis.as_ref(), &config.store, password);
        let metrics = Metrics::new(config.telemetry.max_series);
        let (keys, first_keys) = key_set::begin(&mut config, None);
        let agents = key_set::begin_agents(&mut config, &[]);
        let listeners = wanted(&config);
        let check = Arc::new(std::mem::take(&mut config.check));
        let files = open_files::raise();
        let max_clients = open_files::for_clients(files, workers);
        let drain_limit = config.runtime.drain;
        let held_files = std::mem::take(&mut config.files);
        let certificates = Arc::clone(&config.certificates);
        let key_sets = key_set::conditions(&config, keys.as_ref(), &agents);
        let snapshot = Arc::new(state.snapshot(config, &[]));
        let log_lost = outputs.log.map(AccessLog::lost_lines);
        let observed = Observed::new(&state, &snapshot, log_lost);
        observed.set_certificates(certificates);
        observed.set_key_sets(key_sets);
        observed.set_files(&held_files);
        let mut supervisor = Self {
            listeners: Vec::new(),
            next_listener: 0,
            opened: Vec::new(),
            max_idle: open_files::for_idle(files, workers),
            file_warnings: FileWarnings::new(files, workers),
            capacity: Capacity::new(max_clients),
            workers: Vec::with_capacity(workers),
            drain_limit,
            held_files,
            keys,
            agents,
            store_access,
            base: Arc::clone(&snapshot),
            snapshot,
            patches: PatchKeeper::new(state.redis.as_ref(), Clock::System),
            check,
            check_state: Arc::default(),
            xds: Xds::default(),
            metrics: Arc::new(metrics),
            observed: Arc::new(observed),
            inherited,
            state,
        };
        for address in supervisor.inherited.addresses() {
            if !listeners.iter().any(|(_, settings)| settings.address == *address) {
                warn!(%address, "the service manager opened a socket, but no listener has its address");
            }
        }
        let opened = supervisor.bind(listeners.iter(), workers)?;
        supervisor.add_sources(outputs.tracer);
        supervisor.complete(first_keys).await;
        // A start that fails or is stopped before leaves the sockets of another process.
        opened.iter().try_for_each(BoundListener::publish)?;
        let opened = supervisor.add(opened);
        supervisor.observe_listeners();
        supervisor.warn_of_files();
        spawn_local(supervisor.patches().keep());
        spawn_local(Arc::clone(&supervisor.observed).count_keys());
        spawn_local(forwarders::watch(Arc::clone(&supervisor.state.forwarders)));
        spawn_local(certificates::watch(Arc::clone(&supervisor.observed)));
        supervisor.watch_keys();
        supervisor.start_workers(opened, workers, outputs, drain)?;
        supervisor.renew_xds();
        Ok(supervisor)
    }

    /// Shows the state of the process in the metrics.
    fn add_sources(&self, tracer: Option<&Tracer>) {
        self.metrics.add_source(Arc::clone(&self.observed) as _);
        self.metrics.add_source(Arc::clone(&self.state.forwarders) as _);
        self.metrics.add_source(Arc::clone(&self.state.body_memory) as _);
        if let Some(tracer) = tracer {
            self.metrics.add_source(Arc::clone(tracer.counts()) as _);
        }
    }

    /// Waits for what the first configuration needs from others: addresses, keys and changes at run
    /// time. It waits for a bounded time.
    async fn complete(&mut self, first_keys: FirstAttempt) {
        let upstreams = async {
            proxy::resolve(&self.base.upstreams).await;
            begin_upstreams(&self.base.upstreams);
        };
        join!(upstreams, first_keys.ended(), self.patches.begin());
        self.snapshot = Arc::new(self.patches.patched(&self.base));
        self.observed.patched(Arc::clone(&self.snapshot));
    }

    /// Starts one thread for each worker.
    fn start_workers(
        &mut self,
        opened: Vec<Sockets>,
        workers: usize,
        outputs: Outputs<'_>,
        drain: &Drain,
    ) -> io::Result<()> {
        for (index, listeners) in by_worker(opened, workers).into_iter().enumerate() {
            let (sender, commands) = mpsc::unbounded_channel();
            let worker = Worker {
                listeners,
                commands,
                snapshot: Arc::clone(&self.snapshot),
                max_idle: self.max_idle,
                check: Arc::clone(&self.check),
                check_state: Arc::clone(&self.check_state),
                store: self.state.store.clone(),
                overrides: self.state.overrides.clone(),
                keys: self.state.keys.clone(),
                log: outputs.log.map(AccessLog::worker),
                tracer: outputs.tracer.cloned(),
                index,
                metrics: self.metrics.worker(),
                top: Arc::clone(&self.state.top),
                refusals: Arc::clone(&self.state.refusals),
                forwarders: Arc::clone(&self.state.forwarders),
                auth: self.state.auth.clone(),
                unsettled: self.state.unsettled.clone(),
                budgets: Arc::clone(&self.state.budgets),
                body_memory: Arc::clone(&self.state.body_memory),
                drain: drain.clone(),
                drain_limit: self.drain_limit,
            };
            let name = format!("worker-{index}");
            let thread = thread::Builder::new().name(name).spawn(move || worker.run())?;
            self.workers.push((sender, thread));
        }
        Ok(())
    }

    /// Gives the workers the changes of policies that are to be in force now.
    pub async fn apply_patches(&mut self) {
        self.snapshot = Arc::new(self.patches.patched(&self.base));
        self.observed.patched(Arc::clone(&self.snapshot));
        self.reload_workers(Vec::new(), &[]).await;
    }

    /// Sends the current configuration to all workers, and returns when all have replied.
    async fn reload_workers(&self, opened: Vec<Sockets>, closed: &[ListenerId]) {
        let mut opened = by_worker(opened, self.workers.len()).into_iter();
        let mut replies = Vec::with_capacity(self.workers.len());
        for (worker, _) in &self.workers {
            let (reply, replied) = oneshot::channel();
            let reload = Reload {
                snapshot: Arc::clone(&self.snapshot),
                check: Arc::clone(&self.check),
                open: opened.next().unwrap_or_default(),
                close: closed.to_vec(),
                drain_limit: self.drain_limit,
            };
            // A worker that has panicked receives nothing.
            let _ = worker.send(Command::Reload(reload, reply));
            replies.push(replied);
        }
        for replied in replies {
            // A worker that stops or panics does not reply.
            let _ = replied.await;
        }
    }

    /// Opens all of these listeners, or none of them. They are not in use yet, and replace no socket of
    /// another process.
    fn bind<'s>(
        &self,
        wanted: impl Iterator<Item = &'s (Purpose, ListenerSettings)>,
        workers: usize,
    ) -> Result<Vec<BoundListener>, BindError> {
        let configs: Vec<_> = wanted
            .map(|(purpose, settings)| Ok((*purpose, ListenerConfig::new(settings.clone())?)))
            .collect::<Result<_, BindError>>()?;
        let mut bound = Vec::with_capacity(configs.len());
        for (purpose, config) in configs {
            let (sockets, handle) = match self.inherited.at(&config.settings.address) {
                Some(socket) => Listener::adopt(config, socket, workers, &self.capacity)?,
                None => Listener::bind(config, workers, &self.capacity)?,
            };
            bound.push(BoundListener { purpose, sockets, handle });
        }
        Ok(bound)
    }

    /// Uses listeners from now on.
    fn add(&mut self, bound: Vec<BoundListener>) -> Vec<Sockets> {
        let mut opened = Vec::with_capacity(bound.len());
        for BoundListener { purpose, sockets, handle } in bound {
            let address = sockets[0].address();
            let workers = sockets.len();
            info!(%address, purpose = purpose.as_str(), workers, "listening");
            self.opened.push((purpose, address.clone()));
            let id = ListenerId(self.next_listener);
            self.next_listener += 1;
            self.listeners.push((id, purpose, handle));
            opened.push((id, purpose, sockets));
        }
        opened
    }

    /// Warns if the listeners or the upstreams may have more connections than the limit on open
    /// files allows.
    fn warn_of_files(&mut self) {
        let clients = self.listeners.iter().map(|(.., it)| it.settings().max_connections);
        self.file_warnings.warn_of_clients(clients.fold(0, usize::saturating_add));
        let upstreams = self.snapshot.upstreams.iter().filter_map(|upstream| {
            let max = upstream.settings().connections?.max;
            Some(max.saturating_mul(upstream.settings().endpoints.len()))
        });
        self.file_warnings.warn_of_upstreams(upstreams.fold(0, usize::saturating_add));
    }

    /// Shows the present listeners in the metrics.
    fn observe_listeners(&self) {
        let listeners = self.listeners.iter().map(|(.., it)| it);
        self.observed.set_listeners(listeners, self.check.serves_rate_limits());
    }

    /// Stops all workers.
    pub async fn stop(self, stop: Stop) -> Shutdown {
        if !stop.finish(self.drain_limit + DRAIN_GRACE).await {
            return Shutdown::Forced;
        }
        for (_, thread) in self.workers {
            if thread.join().is_err() {
                warn!("a worker had panicked");
            }
        }
        Shutdown::Complete
    }
}

/// Uses upstreams from now on: their names are looked up again, and their health is checked, as long
/// as they are used.
fn begin_upstreams(upstreams: &[Arc<UpstreamShared>]) {
    for upstream in upstreams {
        upstream.begin();
        spawn_local(proxy::maintain(upstream));
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

//! A worker: a thread with its own runtime, sockets, connection pools and gateway.

use std::hint::black_box;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval};
use tollgate_core::api_keys::KeyDirectory;
use tollgate_core::decision::RateLimiter;
use tollgate_core::drain::{self, Drain, Stop};
use tollgate_core::store::SharedStore;
use tollgate_core::store::keys::SharedKeys;
use tollgate_core::store::overrides::SharedOverrides;
use tollgate_core::time::Clock;
use tracing::{error, warn};

use super::runtime::local_runtime;
use super::sockets::{ListenerId, Purpose, Share};
use crate::check::rls::Domains;
use crate::check::{CheckSettings, Services, SharedState};
use crate::engine::{Authentication, Engine, Seen, SharedAuth, StoreCall};
use crate::gateway::{BodyRoom, CurrentGateway, Gateway};
use crate::proxy::Proxy;
use crate::server::{
    self, BodyMemory, ClientLink, Listener, ListenerSettings, Peer, RequestService,
};
use crate::snapshot::Snapshot;
use crate::telemetry::{
    AuthMetrics, BudgetWarnings, Forwarders, RefusalRings, Sinks, TopHistory, Tracer,
    UnsettledWarnings, WorkerForwarders, WorkerLog, WorkerMetrics, WorkerRefusals, WorkerTop,
};

use super::worker_load::WorkerLoad;

/// The longest time for which a line of the access log is buffered, and the longest delay
/// in closing an idle connection to an upstream.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_millis(100);
/// After this many intervals memory is returned to the system.
const RELEASE_TICKS: usize = 10;

/// One worker, before it runs.
pub struct Worker {
    pub listeners: Share,
    pub commands: mpsc::UnboundedReceiver<Command>,
    pub snapshot: Arc<Snapshot>,
    /// See [`Proxy::new`].
    pub max_idle: usize,
    pub check: Arc<CheckSettings>,
    pub check_state: Arc<SharedState>,
    pub store: SharedStore,
    pub overrides: Option<SharedOverrides>,
    pub keys: Option<SharedKeys>,
    pub log: Option<WorkerLog>,
    pub tracer: Option<Tracer>,
    /// Its number, beginning with 0.
    pub index: usize,
    pub metrics: WorkerMetrics,
    pub top: Arc<TopHistory>,
    pub refusals: Arc<RefusalRings>,
    pub forwarders: Arc<Forwarders>,
    pub auth: SharedAuth,
    pub unsettled: UnsettledWarnings,
    pub budgets: Arc<BudgetWarnings>,
    pub body_memory: Arc<BodyMemory>,
    pub drain: Drain,
    pub drain_limit: Duration,
}

/// What the supervisor asks of a worker.
pub enum Command {
    /// Apply another configuration, and then reply.
    Reload(Reload, oneshot::Sender<()>),
    /// Answer a question to the store, while requests go on.
    Store(StoreCall),
    /// Use these domains of another server from now on, and then reply.
    Domains(Option<Arc<Domains>>, oneshot::Sender<()>),
}

/// Another configuration for a worker.
pub struct Reload {
    pub snapshot: Arc<Snapshot>,
    pub check: Arc<CheckSettings>,
    pub open: Share,
    pub close: Vec<ListenerId>,
    pub drain_limit: Duration,
}

impl Worker {
    /// Runs on this thread until it has been drained.
    pub fn run(self) {
        let result = local_runtime().and_then(|runtime| runtime.block_on(self.serve()));
        if let Err(error) = result {
            error!(%error, "a worker cannot run");
        }
    }

    async fn serve(mut self) -> io::Result<()> {
        let metrics = Rc::new(self.metrics);
        let proxy = Proxy::new(&self.snapshot.upstreams, &metrics, self.max_idle);
        let store = self.store.open(Clock::System);
        // Clients wait until the store is ready, so that it counts the first requests too.
        store.ready().await;
        let overrides = self.overrides.as_ref().and_then(|overrides| overrides.open(&store));
        let directory = self.keys.as_ref().and_then(|keys| keys.open(&store));
        let limiter = RateLimiter::new(store).with_overrides(overrides);
        let sinks = Sinks { access_log: self.log, tracer: self.tracer };
        let seen = Seen {
            top: WorkerTop::new(&self.top),
            refusals: WorkerRefusals::new(&self.refusals),
            forwarders: WorkerForwarders::new(&self.forwarders, &metrics),
            unsettled: self.unsettled,
            budgets: self.budgets,
        };
        let directory = directory.map(|keys| Box::new(keys) as Box<dyn KeyDirectory>);
        let auth = Authentication::new(self.auth, directory, AuthMetrics::new(&metrics));
        let engine = Engine::new(limiter, auth, Clock::System, &metrics, seen);
        let bodies = BodyRoom::new(self.body_memory);
        let drain = self.drain.clone();
        let gateway = Gateway::new(self.snapshot, engine, proxy, sinks, bodies, drain, &metrics);
        let gateway = Rc::new(CurrentGateway::new(gateway));
        let drain = self.drain.clone();
        let check = Rc::new(Services::new(&gateway, self.check, &self.check_state, drain));
        let mut listeners = Listeners::new(&gateway, &check, &metrics);
        listeners.open(self.listeners);
        spawn_local(housekeep(Rc::clone(&gateway), WorkerLoad::new(&metrics, self.index)));
        loop {
            tokio::select! {
                biased;
                () = self.drain.requested() => break,
                Some(command) = self.commands.recv() => match command {
                    Command::Reload(reload, reply) => {
                        self.drain_limit = reload.drain_limit;
                        gateway.reload(reload.snapshot);
                        check.reload(reload.check);
                        listeners.open(reload.open);
                        listeners.close(|id| reload.close.contains(&id), self.drain_limit);
                        // The supervisor may have stopped waiting.
                        let _ = reply.send(());
                    }
                    Command::Domains(told, reply) => {
                        check.set_told(told);
                        // The control thread may have stopped waiting.
                        let _ = reply.send(());
                    }
                    Command::Store(call) => {
                        let gateway = Rc::clone(&gateway);
                        spawn_local(async move { gateway.answer(call).await });
                    }
                },
            }
        }
        listeners.close(|_| true, self.drain_limit);
        if !listeners.closed().await {
            warn!("the time for the drain is over: open connections are closed");
        }
        gateway.close().await;
        Ok(())
    }
}

/// The listeners of a worker, and their connections.
struct Listeners {
    gateway: Rc<CurrentGateway>,
    check: Rc<Services>,
    metrics: Rc<WorkerMetrics>,
    open: Vec<(ListenerId, Stop)>,
    /// One task for each closing listener. It ends when the last connection has ended, or
    /// the time is over.
    closing: JoinSet<bool>,
}

impl Listeners {
    fn new(
        gateway: &Rc<CurrentGateway>,
        check: &Rc<Services>,
        metrics: &Rc<WorkerMetrics>,
    ) -> Self {
        Self {
            gateway: Rc::clone(gateway),
            check: Rc::clone(check),
            metrics: Rc::clone(metrics),
            open: Vec::new(),
            closing: JoinSet::new(),
        }
    }

    /// Serves the connections of `listeners`. They watch a signal of this worker alone, so
    /// that they share no cache line with another core.
    fn open(&mut self, listeners: Share) {
        for (id, purpose, listener) in listeners {
            let (stop, drain) = drain::channel();
            self.open.push((id, stop));
            match purpose {
                Purpose::Gateway => {
                    let gateway = Rc::clone(&self.gateway);
                    let service = move |peer, link, settings: &ListenerSettings| {
                        gateway.service(peer, link, settings.demand())
                    };
                    self.serve(listener, drain, service);
                }
                Purpose::CheckHttp => {
                    let check = Rc::clone(&self.check);
                    let service = move |peer, _, _: &ListenerSettings| check.http(peer);
                    self.serve(listener, drain, service);
                }
                Purpose::CheckGrpc => {
                    let check = Rc::clone(&self.check);
                    let service = move |peer, _, _: &ListenerSettings| check.grpc(peer);
                    self.serve(listener, drain, service);
                }
            }
        }
    }

    /// Serves the connections of one listener with the service that `service` makes for each.
    fn serve<S: RequestService>(
        &self,
        listener: Listener,
        drain: Drain,
        service: impl Fn(Peer, Option<ClientLink>, &ListenerSettings) -> S + 'static,
    ) {
        let metrics = Rc::clone(&self.metrics);
        spawn_local(async move {
            if let Err(error) = server::serve(listener, drain, Some(&metrics), service).await {
                error!(%error, "a worker cannot accept connections");
            }
        });
    }

    /// Begins to close the listeners that are meant. Requests in progress have until `limit`.
    fn close(&mut self, is_meant: impl Fn(ListenerId) -> bool, limit: Duration) {
        // Closed listeners are removed.
        while self.closing.try_join_next().is_some() {}
        for (_, stop) in self.open.extract_if(.., |(id, _)| is_meant(*id)) {
            self.closing.spawn_local(stop.finish(limit));
        }
    }

    /// Waits until all closing listeners have closed. Returns whether all did in time.
    async fn closed(&mut self) -> bool {
        let mut in_time = true;
        while let Some(closed) = self.closing.join_next().await {
            in_time &= closed.unwrap_or(false);
        }
        in_time
    }
}

async fn housekeep(gateway: Rc<CurrentGateway>, load: WorkerLoad) {
    let mut ticks = interval(HOUSEKEEPING_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        for _ in 0..RELEASE_TICKS {
            load.measure(ticks.tick().await.into_std());
            gateway.housekeep();
        }
        release_memory();
    }
}

/// Lets the allocator return memory to the system. It does so a second after memory was freed,
/// but only when it is used: a worker without requests would keep what its connections have
/// freed. Freeing a block of this size makes it look.
fn release_memory() {
    drop(black_box(Vec::<u8>::with_capacity(1024 * 1024)));
}

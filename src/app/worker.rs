//! One worker: a thread with its own runtime, sockets, pools and gateway.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, warn};

use super::fleet::ListenerId;
use super::local_runtime;
use crate::decision::RateLimiter;
use crate::drain::{self, Drain, Stop};
use crate::gateway::{CurrentGateway, Gateway};
use crate::proxy::Proxy;
use crate::server::{self, Listener};
use crate::snapshot::Snapshot;
use crate::store::SharedStore;
use crate::store::overrides::SharedOverrides;
use crate::telemetry::WorkerLog;
use crate::time::Clock;

/// How long a line of the access log may wait for others, and how much later
/// than it might an idle connection to an upstream is closed.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_millis(100);

/// What one worker is given.
pub(super) struct Worker {
    pub(super) listeners: Vec<(ListenerId, Listener)>,
    pub(super) changes: mpsc::UnboundedReceiver<Change>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) store: SharedStore,
    pub(super) overrides: Option<SharedOverrides>,
    pub(super) log: Option<WorkerLog>,
    pub(super) drain: Drain,
    pub(super) drain_limit: Duration,
}

/// What a reload changes.
pub(super) struct Change {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) open: Vec<(ListenerId, Listener)>,
    pub(super) close: Vec<ListenerId>,
    pub(super) drain_limit: Duration,
    /// Dropped when the change is made.
    pub(super) _done: mpsc::Sender<()>,
}

impl Worker {
    /// Runs on this thread until it has been drained.
    pub(super) fn run(self) {
        let result = local_runtime().and_then(|runtime| runtime.block_on(self.serve()));
        if let Err(error) = result {
            error!(%error, "a worker cannot run");
        }
    }

    async fn serve(mut self) -> io::Result<()> {
        let proxy = Proxy::new(&self.snapshot.upstreams);
        let store = self.store.open(Clock::System);
        // Clients wait meanwhile, so that the first of them are judged by it.
        store.ready().await;
        let overrides = self.overrides.as_ref().and_then(|overrides| overrides.open(&store));
        let limiter = RateLimiter::new(store).with_overrides(overrides);
        let gateway = Gateway::new(self.snapshot, limiter, proxy, Clock::System, self.log);
        let gateway = Rc::new(CurrentGateway::new(gateway));
        let mut doors =
            Doors { gateway: Rc::clone(&gateway), open: vec![], closing: JoinSet::new() };
        doors.open(self.listeners);
        spawn_local(housekeep(Rc::clone(&gateway)));
        loop {
            tokio::select! {
                biased;
                () = self.drain.requested() => break,
                Some(change) = self.changes.recv() => {
                    self.drain_limit = change.drain_limit;
                    gateway.reload(change.snapshot);
                    doors.open(change.open);
                    doors.close(|id| change.close.contains(&id), self.drain_limit);
                }
            }
        }
        doors.close(|_| true, self.drain_limit);
        if !doors.are_closed().await {
            warn!("the drain's time is over: connections are cut");
        }
        gateway.close().await;
        Ok(())
    }
}

/// The listeners of a worker, and their connections.
struct Doors {
    gateway: Rc<CurrentGateway>,
    open: Vec<(ListenerId, Stop)>,
    /// Each ends when the last connection has, or its time is over.
    closing: JoinSet<bool>,
}

impl Doors {
    /// Serves what comes in at these. Connections look at a signal of this
    /// worker's own: no cache line of theirs is shared with another core.
    fn open(&mut self, listeners: Vec<(ListenerId, Listener)>) {
        for (id, listener) in listeners {
            let (stop, drain) = drain::channel();
            self.open.push((id, stop));
            let gateway = Rc::clone(&self.gateway);
            spawn_local(async move {
                let service = move |peer, settings: &server::ListenerSettings| {
                    gateway.service(peer, settings.demand())
                };
                if let Err(error) = server::serve(listener, drain, service).await {
                    error!(%error, "a worker cannot listen");
                }
            });
        }
    }

    /// Begins to close some of them. What is under way has this long to end.
    fn close(&mut self, is_meant: impl Fn(ListenerId) -> bool, limit: Duration) {
        // What has been closed needs no memory any more.
        while self.closing.try_join_next().is_some() {}
        for (_, stop) in self.open.extract_if(.., |(id, _)| is_meant(*id)) {
            self.closing.spawn_local(stop.finish(limit));
        }
    }

    /// Waits until all that are closing are closed. Whether they all did in time.
    async fn are_closed(&mut self) -> bool {
        let mut in_time = true;
        while let Some(closed) = self.closing.join_next().await {
            in_time &= closed.unwrap_or(false);
        }
        in_time
    }
}

async fn housekeep(gateway: Rc<CurrentGateway>) {
    let mut ticks = interval(HOUSEKEEPING_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        gateway.housekeep();
    }
}

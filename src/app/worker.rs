//! One worker: a thread with its own runtime, sockets, pools and gateway.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, warn};

use super::local_runtime;
use crate::drain::{self, Drain};
use crate::gateway::Gateway;
use crate::limiter::RateLimiter;
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
    pub(super) listeners: Vec<Listener>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) store: SharedStore,
    pub(super) overrides: Option<SharedOverrides>,
    pub(super) log: Option<WorkerLog>,
    pub(super) drain: Drain,
    pub(super) drain_limit: Duration,
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
        let gateway = Rc::new(gateway);
        // Connections look at a signal of this worker's own: no cache line of
        // theirs is shared with another core.
        let (stop, drain) = drain::channel();
        for listener in self.listeners {
            let (gateway, drain) = (Rc::clone(&gateway), drain.clone());
            let body_patience = listener.settings().timeouts.request_body;
            spawn_local(async move {
                let service = move |peer| gateway.service(peer, body_patience);
                if let Err(error) = server::serve(listener, drain, service).await {
                    error!(%error, "a worker cannot listen");
                }
            });
        }
        drop(drain);
        spawn_local(housekeep(Rc::clone(&gateway)));
        self.drain.requested().await;
        if !stop.finish(self.drain_limit).await {
            warn!("the drain's time is over: connections are cut");
        }
        gateway.close().await;
        Ok(())
    }
}

async fn housekeep(gateway: Rc<Gateway>) {
    let mut ticks = interval(HOUSEKEEPING_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        gateway.housekeep();
    }
}

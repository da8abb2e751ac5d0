//! The process: build everything from a configuration, run it on one thread a
//! core, stop without losing a request.

mod echo;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, LocalRuntime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_local;
use tracing::{info, warn};

use crate::config::{Config, StoreSettings};
use crate::digest::{Secret, SharedSecret};
use crate::drain::{self, Drain, Stop};
use crate::limiter::HeaderWriter;
use crate::proxy::{self, UpstreamShared};
use crate::rules::Rules;
use crate::server::{self, BindError, ListenAddress, Listener, ListenerSettings};
use crate::snapshot::Snapshot;
use crate::store::overrides::{FileError, OverridesFile, SharedOverrides};
use crate::store::redis::Shared;
use crate::store::{MemoryStore, SharedStore};
use crate::telemetry::{self, AccessLog, AccessLogSettings, Output};
use worker::Worker;

/// How much longer than a drain the workers may take to end.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// Why the process cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The access log cannot be written to.
    #[error("cannot open the access log {output}: {source}; choose a file that can be written")]
    AccessLog {
        /// Where it should go.
        output: Output,
        /// What the system says.
        source: io::Error,
    },
    /// The file of overrides cannot be used.
    #[error(transparent)]
    Overrides(#[from] FileError),
    /// The system refuses a thread, a runtime or a signal handler.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

/// Runs a gateway until SIGTERM or SIGINT, and then until the requests under
/// way have been answered.
///
/// # Errors
/// If it cannot start. What goes wrong later is logged and survived.
pub fn run(config: Config) -> Result<(), RunError> {
    telemetry::init(config.telemetry.level, config.telemetry.format);
    let log = config.telemetry.access_log.as_ref().map(open_log).transpose()?;
    let control = local_runtime()?;
    let ended = control.block_on(supervise(config, log.as_ref()));
    // The lookup of a name may take longer than anybody wants to wait now.
    control.shutdown_background();
    let ended = ended?;
    if let (Some(log), Ended::Whole) = (log, ended) {
        log.close();
    }
    Ok(())
}

fn open_log(settings: &AccessLogSettings) -> Result<AccessLog, RunError> {
    let output = settings.output.clone();
    AccessLog::open(settings).map_err(|source| RunError::AccessLog { output, source })
}

/// How the workers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// All of them, by themselves.
    Whole,
    /// Some still run and will be cut off with the process.
    Cut,
}

/// Starts the workers, waits for the signal to stop, and stops them.
async fn supervise(config: Config, log: Option<&AccessLog>) -> Result<Ended, RunError> {
    let drain_limit = config.runtime.drain;
    let workers = config.runtime.workers.unwrap_or_else(cores);
    let (stop, drain) = drain::channel();
    let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    let (echo_stop, echo) = start_echo()?;
    let threads = start_workers(config, workers, echo, log, &drain).await?;
    drop(drain);
    let [terminate, interrupt] = &mut signals;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    info!(limit = ?drain_limit, "stopping: requests under way are finished");
    let ended = tokio::select! {
        ended = stop_workers(stop, threads, drain_limit) => ended,
        _ = terminate.recv() => Ended::Cut,
        _ = interrupt.recv() => Ended::Cut,
    };
    if ended == Ended::Cut {
        warn!("not waiting any longer: requests under way are cut off");
    }
    drop(echo_stop);
    Ok(ended)
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn local_runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(Default::default())
}

/// Starts the backend inside the process on a free port of the loopback.
fn start_echo() -> Result<(Stop, SocketAddr), RunError> {
    let settings = ListenerSettings::new(ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))));
    let mut listeners = Listener::bind(settings, 1)?;
    let listener = listeners.swap_remove(0);
    let address = listener.address().tcp().expect("it was bound to a port");
    let (stop, drain) = drain::channel();
    spawn_local(server::serve(listener, drain, |_| echo::service()));
    Ok((stop, address))
}

/// Binds all listeners first, so that a port in use stops the start, finds the
/// upstreams, and then starts one thread for each worker.
async fn start_workers(
    config: Config,
    workers: usize,
    echo: SocketAddr,
    log: Option<&AccessLog>,
    drain: &Drain,
) -> Result<Vec<JoinHandle<()>>, RunError> {
    let mut sockets: Vec<Vec<Listener>> = (0..workers).map(|_| Vec::new()).collect();
    for settings in &config.listeners {
        let listeners = Listener::bind(settings.clone(), workers)?;
        info!(address = %listeners[0].address(), workers, "listening");
        for (sockets, listener) in sockets.iter_mut().zip(listeners) {
            sockets.push(listener);
        }
    }
    let drain_limit = config.runtime.drain;
    let (overrides, secret) = overrides(&config)?;
    let secret = Arc::new(SharedSecret::new(secret));
    let store = shared_store(&config.store, &secret);
    let snapshot = Arc::new(snapshot(config, secret, echo));
    proxy::resolve(&snapshot.upstreams).await;
    snapshot.upstreams.iter().for_each(|upstream| drop(spawn_local(proxy::look_after(upstream))));
    let mut threads = Vec::with_capacity(workers);
    for (index, listeners) in sockets.into_iter().enumerate() {
        let worker = Worker {
            listeners,
            snapshot: Arc::clone(&snapshot),
            store: store.clone(),
            overrides: overrides.clone(),
            log: log.map(AccessLog::worker),
            drain: drain.clone(),
            drain_limit,
        };
        let name = format!("worker-{index}");
        threads.push(thread::Builder::new().name(name).spawn(move || worker.run())?);
    }
    Ok(threads)
}

/// Where limits of single keys are, if a policy may have any, and under which
/// secret keys are digested.
fn overrides(config: &Config) -> Result<(Option<SharedOverrides>, Secret), RunError> {
    let may_have = config.policies.iter().any(|policy| policy.overrides.is_some());
    match &config.store.overrides {
        Some(path) if may_have => {
            let file = OverridesFile::open(path)?;
            let secret = file.secret();
            Ok((Some(SharedOverrides::in_file(file)?), secret))
        }
        _ => Ok((may_have.then(SharedOverrides::in_redis), Secret::random())),
    }
}

/// Where all workers count. Of a store of several nodes the secret is learned.
fn shared_store(settings: &StoreSettings, secret: &Arc<SharedSecret>) -> SharedStore {
    let memory = Arc::new(MemoryStore::new(settings.max_keys));
    match settings.redis.clone() {
        None => SharedStore::Memory(memory),
        Some(redis) => SharedStore::Redis(Arc::new(Shared::new(redis, memory, Arc::clone(secret)))),
    }
}

/// What all workers share, from a configuration.
fn snapshot(config: Config, secret: Arc<SharedSecret>, echo: SocketAddr) -> Snapshot {
    let (rules, routes) =
        config.routes.into_iter().map(|route| (route.rule, route.handling)).unzip();
    let shared = |settings| Arc::new(UpstreamShared::new(settings, echo));
    let upstreams = config.upstreams.into_iter().map(shared);
    Snapshot {
        rules: Rules::new(rules, config.client, secret),
        routes,
        upstreams: upstreams.collect(),
        headers: HeaderWriter::new(&config.headers),
        problem_json: config.problem_json,
    }
}

async fn stop_workers(stop: Stop, threads: Vec<JoinHandle<()>>, drain_limit: Duration) -> Ended {
    if !stop.finish(drain_limit + DRAIN_GRACE).await {
        return Ended::Cut;
    }
    for thread in threads {
        if thread.join().is_err() {
            warn!("a worker had panicked");
        }
    }
    Ended::Whole
}

//! The process: builds everything from a configuration, runs one worker thread for each
//! core, applies another configuration when the file changes, and stops without losing a
//! request.

mod admin;
mod certificates;
mod config_file;
mod echo;
mod error;
mod file_work;
mod forwarders;
mod key_set;
mod key_store;
#[cfg(test)]
mod metrics_test;
mod node_record;
mod observed;
mod open_files;
mod other_processes;
mod patches;
mod process_state;
mod put;
mod reload;
#[cfg(test)]
mod replay_test;
mod runtime;
mod shown_config;
mod sockets;
mod store_access;
mod supervisor;
mod systemd;
mod traces;
mod watch;
mod worker;
mod worker_load;
mod xds;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tollgate_core::drain::{self, Stop};
use tollgate_core::time::monotonic;
use tracing::{info, warn};

use crate::admin::{ConfigCall, Refused};
use crate::config::{Config, Document, NamedFile, Variables};
use crate::platform::ServiceState;
use crate::server::{self, Capacity, ListenAddress, Listener, ListenerConfig, ListenerSettings};
use crate::telemetry::{AccessLog, AccessLogSettings, ProcessLog, Reopener};
use admin::{AdminListener, BoundAdmin};
use reload::{Demand, Loaded, Source};
use sockets::Purpose;
use supervisor::{Outputs, Shutdown, Supervisor};
use systemd::InheritedSockets;
use traces::Traces;

pub use error::RunError;
pub use key_set::{KeyCount, count_keys};
pub use runtime::local_runtime;
pub use store_access::{CommandError, settings_with_password};

/// The longest time for which outputs that accept nothing delay the end of the process.
const LOGS_LIMIT: Duration = Duration::from_secs(1);
/// The part of it that the access log may use. The rest is for the process log, which says
/// that lines of the access log are lost.
const ACCESS_LOG_LIMIT: Duration = Duration::from_millis(800);

/// Changes of the configuration that wait while another one is applied.
const MAX_CONFIG_CALLS: usize = 4;

/// The files of a configuration.
#[derive(Debug)]
pub struct ConfigFiles {
    /// The file that was loaded, as it was before it was read.
    pub file: NamedFile,
    /// The files that it names and whose contents are part of the configuration.
    pub others: Vec<NamedFile>,
    /// What the file contains.
    pub document: Document,
    /// The variables of a configuration that is in no file. `file` is then only its name.
    pub given: Option<Arc<Variables>>,
}

/// Where a gateway serves.
#[derive(Debug)]
pub struct Started {
    /// The first listener for requests.
    pub gateway: Option<ListenAddress>,
    /// The admin listener.
    pub admin: Option<ListenAddress>,
}

impl Started {
    fn of(supervisor: &Supervisor, admin: Option<&AdminListener>) -> Self {
        let gateway = supervisor.addresses().iter().find(|(it, _)| *it == Purpose::Gateway);
        Self {
            gateway: gateway.map(|(_, address)| address.clone()),
            admin: admin.map(|it| it.address().clone()),
        }
    }
}

/// Runs a gateway until SIGTERM or SIGINT, and then until the requests in progress have
/// their responses. `config` was read from `source`. It is read again when one of these
/// files changes, and on SIGHUP. `started` is called once, when it serves.
///
/// # Errors
/// If it cannot start. Later errors are logged, and the gateway continues.
pub fn run(
    config: Config,
    source: Option<ConfigFiles>,
    started: impl FnOnce(&Started),
) -> Result<(), RunError> {
    let process_log = ProcessLog::start(config.telemetry.level, config.telemetry.format)?;
    let ended = run_logged(config, source, started);
    // The caller prints an error to standard error, after these lines.
    process_log.close_by(*ended.as_ref().unwrap_or(&(monotonic() + LOGS_LIMIT)));
    ended.map(drop)
}

/// Runs a gateway whose process log is open. Returns when the logs must have been written.
fn run_logged(
    config: Config,
    source: Option<ConfigFiles>,
    started: impl FnOnce(&Started),
) -> Result<Instant, RunError> {
    let log = config.telemetry.access_log.as_ref().map(open_log).transpose()?;
    let control = local_runtime()?;
    let ended = control.block_on(supervise(config, source, log.as_ref(), started));
    // The lookup of a name in progress could take long.
    control.shutdown_background();
    ended?;
    let now = monotonic();
    if let Some(log) = log {
        log.close_by(now + ACCESS_LOG_LIMIT);
    }
    Ok(now + LOGS_LIMIT)
}

fn open_log(settings: &AccessLogSettings) -> Result<AccessLog, RunError> {
    let output = settings.output.clone();
    AccessLog::open(settings).map_err(|source| RunError::AccessLog { output, source })
}

/// Starts the workers, reloads them when the configuration changes, waits for the signal to
/// stop, and stops them.
async fn supervise(
    config: Config,
    source: Option<ConfigFiles>,
    log: Option<&AccessLog>,
    started: impl FnOnce(&Started),
) -> Result<(), RunError> {
    let (stop, drain) = drain::channel();
    let mut signals = Signals::new()?;
    let file = source.as_ref().map(|source| source.file.path.clone());
    let document = source.as_ref().map(|source| source.document.clone());
    let mut loaded = source.map(|it| Loaded::new(it.file, it.others, it.document.text, it.given));
    let (configs, mut config_calls) = mpsc::channel(MAX_CONFIG_CALLS);
    let (echo_stop, echo) = start_echo()?;
    let admin = config.admin.clone().map(BoundAdmin::bind).transpose()?;
    spawn_local(reopen_on_signal(
        signal(SignalKind::user_defined1())?,
        log.map(AccessLog::reopener),
    ));
    let traces = config.telemetry.traces.clone().and_then(Traces::start);
    let outputs = Outputs { log, tracer: traces.as_ref().map(|traces| &traces.tracer) };
    let inherited = InheritedSockets::take();
    let mut supervisor = tokio::select! {
        supervisor = Supervisor::start(config, inherited, echo, outputs, &drain) => supervisor?,
        () = stop_requested(&mut signals.terminate, &mut signals.interrupt) => {
            return Ok(());
        }
    };
    drop(drain);
    let mut admin = serve_admin(admin, &supervisor, file.as_deref(), document, configs)?;
    started(&Started::of(&supervisor, admin.as_ref()));
    reload_until_stopped(&mut supervisor, &mut admin, &mut loaded, &mut config_calls, &mut signals)
        .await;
    systemd::report(ServiceState::Stopping);
    if let Some(admin) = &admin {
        admin.draining();
    }
    info!(limit = ?supervisor.drain_limit(), "stopping: requests in progress are finished");
    let shutdown = tokio::select! {
        shutdown = supervisor.stop(stop) => shutdown,
        () = stop_requested(&mut signals.terminate, &mut signals.interrupt) => Shutdown::Forced,
    };
    if shutdown == Shutdown::Forced {
        warn!(
            "requests in progress are aborted: the time for the drain is over, or a second signal came"
        );
    }
    if let Some(traces) = traces {
        traces.finish().await;
    }
    drop((echo_stop, admin));
    Ok(())
}

/// Applies every change of the configuration, until a signal asks for the stop.
async fn reload_until_stopped(
    supervisor: &mut Supervisor,
    admin: &mut Option<AdminListener>,
    loaded: &mut Option<Loaded>,
    configs: &mut mpsc::Receiver<ConfigCall>,
    signals: &mut Signals,
) {
    let patches = supervisor.patches();
    loop {
        systemd::report(ServiceState::Ready);
        let wanted = tokio::select! {
            () = stop_requested(&mut signals.terminate, &mut signals.interrupt) => return,
            // The file again, also if a call has put another configuration in its place.
            _ = signals.hangup.recv() => Wanted::Reload(Source::File),
            demand = changed(loaded) => match demand {
                Demand::Apply(source) => Wanted::Reload(source),
                Demand::Report(why) => {
                    reload::failed(supervisor, admin.as_ref(), why);
                    continue;
                }
            },
            Some(call) = configs.recv() => Wanted::Call(Box::new(call)),
            number = patches.changed() => {
                apply_patches(supervisor, admin.as_ref(), number).await;
                continue;
            }
        };
        systemd::report(ServiceState::Reloading);
        let Some(loaded) = loaded else {
            let why = "there is no file to reload: this gateway was started without one";
            match wanted {
                Wanted::Reload(_) => warn!("{why}"),
                // The caller may have stopped waiting.
                Wanted::Call(call) => drop(call.reply.send(Err(Refused::conflict(why)))),
            }
            continue;
        };
        let apply = async {
            match (wanted, &mut *admin) {
                (Wanted::Reload(source), admin) => {
                    // The log has the result.
                    drop(reload::reload(supervisor, loaded, admin.as_ref(), source).await);
                }
                (Wanted::Call(call), Some(admin)) => {
                    put::answer(supervisor, loaded, admin, *call).await;
                }
                // Only the admin listener has calls.
                (Wanted::Call(_), None) => {}
            }
        };
        tokio::select! {
            () = apply => {}
            () = stop_requested(&mut signals.terminate, &mut signals.interrupt) => return,
        }
    }
}

/// What is to be applied.
enum Wanted {
    Reload(Source),
    Call(Box<ConfigCall>),
}

/// Begins to describe this node, and to serve the admin listener if there is one.
fn serve_admin(
    admin: Option<BoundAdmin>,
    supervisor: &Supervisor,
    file: Option<&Path>,
    document: Option<Document>,
    configs: mpsc::Sender<ConfigCall>,
) -> Result<Option<AdminListener>, RunError> {
    let reporter = supervisor.reporter(admin.as_ref().map(|admin| admin.address().to_string()));
    spawn_local(Rc::clone(&reporter).keep());
    let serve = |bound: BoundAdmin| bound.serve(supervisor, &reporter, file, document, configs);
    let admin = admin.map(serve).transpose()?;
    if admin.is_none() {
        admin::publish_figures(supervisor, None);
    }
    announce(supervisor, admin.as_ref());
    // All listeners are known now.
    spawn_local(other_processes::watch(supervisor.observed()));
    Ok(admin)
}

/// Applies the changes of policies that are to be in force now, which have this number.
async fn apply_patches(supervisor: &mut Supervisor, admin: Option<&AdminListener>, number: u64) {
    supervisor.apply_patches().await;
    if let Some(admin) = admin {
        admin.patched(supervisor.snapshot());
    }
    supervisor.patches().applied(number);
}

/// One line that says what listens where, and how to ask the admin listener.
fn announce(supervisor: &Supervisor, admin: Option<&AdminListener>) {
    let shown = |(purpose, address): &(Purpose, ListenAddress)| match purpose {
        Purpose::Gateway => address.to_string(),
        other => format!("{address} ({})", other.as_str()),
    };
    let addresses: Vec<String> = supervisor.addresses().iter().map(shown).collect();
    let admin = admin.map(|admin| format!("; admin at {}", admin.how_to_ask()));
    info!(
        "tollgate {} serves {}{}",
        env!("CARGO_PKG_VERSION"),
        addresses.join(", "),
        admin.unwrap_or_default()
    );
}

/// The signals that the process handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

async fn stop_requested(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Has the file of the access log opened again at each signal: the last one was renamed.
/// Without an access log the signal does nothing.
async fn reopen_on_signal(mut signal: Signal, log: Option<Reopener>) {
    while signal.recv().await.is_some() {
        if let Some(log) = &log {
            info!("the file of the access log is opened again");
            log.reopen();
        }
    }
}

/// Returns when a file has changed or does not answer, if there is one.
async fn changed(loaded: &mut Option<Loaded>) -> Demand {
    match loaded {
        Some(loaded) => loaded.changed().await,
        None => std::future::pending().await,
    }
}

/// Starts `builtin:echo` on a free port of the loopback address.
fn start_echo() -> Result<(Stop, SocketAddr), RunError> {
    let address = ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    // The gateway itself bounds the number of connections.
    let config = ListenerConfig::new(ListenerSettings::new(address))?;
    let (mut listeners, _) = Listener::bind(config, 1, &Capacity::new(usize::MAX))?;
    let listener = listeners.swap_remove(0);
    let address = listener.address().tcp().expect("it was bound to a TCP address");
    let (stop, drain) = drain::channel();
    spawn_local(server::serve(listener, drain, None, |_, _, _| echo::service()));
    Ok((stop, address))
}

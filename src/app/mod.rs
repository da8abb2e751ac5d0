//! The process: build everything from a configuration, run it on one thread a
//! core, take another configuration when the file changes, stop without losing a
//! request.

mod echo;
mod files;
mod fleet;
mod foundation;
mod key_set;
mod reload;
mod systemd;
mod watch;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::runtime::{Builder, LocalRuntime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_local;
use tracing::{info, warn};

use crate::config::Config;
use crate::drain::{self, Stop};
use crate::server::{self, BindError, Capacity, ListenAddress, Listener, ListenerSettings, Terms};
use crate::store::overrides::FileError;
use crate::telemetry::{self, AccessLog, AccessLogSettings, Output};
use fleet::{Ended, Fleet};
use systemd::{Inherited, State};
use watch::FileWatch;

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

/// What a configuration was read from.
#[derive(Debug)]
pub struct Source {
    /// The file.
    pub file: PathBuf,
    /// Those that it names, and of which the contents are part of it.
    pub others: Vec<PathBuf>,
}

/// Runs a gateway until SIGTERM or SIGINT, and then until the requests under
/// way have been answered. `config` was read from `source`: when any file of it
/// changes, and on SIGHUP, it is read again.
///
/// # Errors
/// If it cannot start. What goes wrong later is logged and survived.
pub fn run(config: Config, source: Option<Source>) -> Result<(), RunError> {
    telemetry::init(config.telemetry.level, config.telemetry.format);
    let log = config.telemetry.access_log.as_ref().map(open_log).transpose()?;
    let control = local_runtime()?;
    let ended = control.block_on(supervise(config, source, log.as_ref()));
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

/// Starts the workers, reloads them when they are to have another configuration,
/// waits for the signal to stop, and stops them.
async fn supervise(
    config: Config,
    source: Option<Source>,
    log: Option<&AccessLog>,
) -> Result<Ended, RunError> {
    let (stop, drain) = drain::channel();
    let mut signals = Signals::new()?;
    let mut watch = source.map(|Source { file, others }| FileWatch::new(&file, others));
    let (echo_stop, echo) = start_echo()?;
    let mut fleet = tokio::select! {
        started = Fleet::start(config, Inherited::take(), echo, log, &drain) => started?,
        () = stop_asked(&mut signals.terminate, &mut signals.interrupt) => {
            return Ok(Ended::Whole);
        }
    };
    drop(drain);
    loop {
        systemd::tell(State::Ready);
        tokio::select! {
            () = stop_asked(&mut signals.terminate, &mut signals.interrupt) => break,
            _ = signals.hangup.recv() => {}
            () = changed(&mut watch) => {}
        }
        systemd::tell(State::Reloading);
        match &mut watch {
            Some(watch) => tokio::select! {
                () = reload::reload(&mut fleet, watch) => {}
                () = stop_asked(&mut signals.terminate, &mut signals.interrupt) => break,
            },
            None => {
                warn!("there is no file to be read again: this gateway was started without one")
            }
        }
    }
    systemd::tell(State::Stopping);
    info!(limit = ?fleet.drain_limit(), "stopping: requests under way are finished");
    let ended = tokio::select! {
        ended = fleet.stop(stop) => ended,
        () = stop_asked(&mut signals.terminate, &mut signals.interrupt) => Ended::Cut,
    };
    if ended == Ended::Cut {
        warn!("not waiting any longer: requests under way are cut off");
    }
    drop(echo_stop);
    Ok(ended)
}

/// What the process is told by others.
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

async fn stop_asked(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Returns when the file has changed, if there is one.
async fn changed(watch: &mut Option<FileWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

fn local_runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(Default::default())
}

/// Starts the backend inside the process on a free port of the loopback.
fn start_echo() -> Result<(Stop, SocketAddr), RunError> {
    let address = ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    // As many as the gateway itself opens.
    let (terms, capacity) =
        (Terms::new(ListenerSettings::new(address))?, Capacity::new(usize::MAX));
    let (mut listeners, _) = Listener::bind(terms, 1, &capacity)?;
    let listener = listeners.swap_remove(0);
    let address = listener.address().tcp().expect("it was bound to a port");
    let (stop, drain) = drain::channel();
    spawn_local(server::serve(listener, drain, |_, _| echo::service()));
    Ok((stop, address))
}

//! The admin listener on the control thread: bound before the workers start, kept up to date by
//! reloads, and open until the last request has ended.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::FutureExt as _;
use rustix::process::geteuid;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;
use tollgate_core::drain::{self, Stop};
use tollgate_core::policy::Policy;
use tollgate_core::store::overrides::Override;
use tollgate_core::time::Clock;
use tracing::{info, warn};

use super::error::RunError;
use super::file_work::{CALL_LIMIT, FileWork};
use super::node_record::NodeReporter;
use super::shown_config::{Tags, problems};
use super::supervisor::Supervisor;
use super::worker::Command;
use crate::admin::{
    Access, Admin, AdminSettings, Checked, ClusterFigures, ConfigCall, MaskedConfig, Node, Phase,
    ProbeSettings, Publisher, PutBy, Readers, View,
};
use crate::config::{self, Document, KeyLimit, NO_FILES, Progress};
use crate::engine::StoreCall;
use crate::server::{
    self, BindError, Callers, Capacity, ListenAddress, Listener, ListenerConfig, ListenerHandle,
    ListenerSettings,
};
use crate::snapshot::Snapshot;
use crate::telemetry::{History, RefusalRings, TopHistory};

/// Questions to the store that wait for the task that passes them on.
const MAX_STORE_CALLS: usize = 64;

/// The sockets of the admin listener, before it serves.
pub struct BoundAdmin {
    settings: AdminSettings,
    /// None: there is only the probe.
    listener: Option<(Listener, ListenerHandle)>,
    probe: Option<(Listener, ListenerHandle)>,
}

/// The admin listener while it serves.
pub struct AdminListener {
    view: watch::Sender<View>,
    tags: Tags,
    /// None: there is only the probe.
    handle: Option<ListenerHandle>,
    address: ListenAddress,
    top: Arc<TopHistory>,
    refusals: Arc<RefusalRings>,
    /// The tasks end when these are dropped.
    _stops: [Stop; 2],
    _probe: Option<ListenerHandle>,
}

impl BoundAdmin {
    /// Opens the sockets, so that the start fails if an address is in use. Clients find a Unix socket
    /// when it serves: until then, it does not replace that of another process.
    ///
    /// # Errors
    /// If an address or TLS cannot be used.
    pub fn bind(settings: AdminSettings) -> Result<Self, RunError> {
        let full = Some(&settings.listener).filter(|_| !settings.is_probe_alone);
        let listener = full.map(|it| bind(it.clone())).transpose()?;
        let probe = settings.probe.as_ref().map(|probe| {
            let bounds = settings.listener.clone();
            bind(ListenerSettings {
                address: probe.address.clone(),
                tls: None,
                socket_mode: None,
                callers: Callers::All,
                ..bounds
            })
        });
        Ok(Self { listener, probe: probe.transpose()?, settings })
    }

    /// Its address.
    pub fn address(&self) -> &ListenAddress {
        let listeners = self.listener.iter().chain(&self.probe);
        let address = listeners.map(|(listener, _)| listener.address()).next();
        address.unwrap_or(&self.settings.listener.address)
    }

    /// Lets clients find its Unix sockets.
    fn publish(&self) -> Result<(), BindError> {
        let mut listeners = self.listener.iter().chain(&self.probe);
        listeners.try_for_each(|(listener, _)| listener.publish())
    }

    /// Begins to serve. `file` is the file of the configuration, and `document` what it
    /// contains. Changes of the configuration go to `configs`.
    ///
    /// # Errors
    /// If the system refuses a task.
    pub fn serve(
        self,
        supervisor: &Supervisor,
        reporter: &Rc<NodeReporter>,
        file: Option<&Path>,
        document: Option<Document>,
        configs: mpsc::Sender<ConfigCall>,
    ) -> Result<AdminListener, RunError> {
        self.publish()?;
        let tags = Tags::random();
        let address = self.address().clone();
        let reveal_keys = self.settings.reveal_keys;
        let metrics_for_all = self.settings.probe.as_ref().is_some_and(|probe| probe.metrics);
        let (sender, view) = watch::channel(View {
            phase: Phase::Serving,
            snapshot: supervisor.snapshot(),
            settings: Arc::new(self.settings),
            document: document.map(|document| tags.shown(document)),
            origin: None,
            needs_restart: Vec::new(),
            generation: 1,
            loaded: Clock::System.wall(),
            failure: None,
        });
        let (store, calls) = mpsc::channel(MAX_STORE_CALLS);
        spawn_local(pass_on(calls, supervisor.workers()));
        let (patches, patch_calls) = mpsc::channel(MAX_STORE_CALLS);
        spawn_local(supervisor.patches().serve(patch_calls));
        let reporter = Rc::clone(reporter);
        let totals = supervisor.metrics().totals();
        let history = Rc::new(History::new(Clock::System.now(), totals));
        publish_figures(supervisor, Some(Rc::clone(&history)));
        let handles = self.listener.iter().chain(&self.probe).map(|(_, handle)| handle);
        let sockets = handles.filter_map(ListenerHandle::sockets);
        let observed = supervisor.observed();
        observed.set_admin_sockets(sockets.cloned().collect());
        let node = Node {
            view,
            store,
            patches,
            configs,
            control: supervisor.patches().control().cloned(),
            own_record: Rc::new(move || reporter.record()),
            overrides: supervisor.overrides_file(),
            keys: supervisor.keys_for_operators(),
            metrics: supervisor.metrics(),
            top: supervisor.top(),
            history: Rc::clone(&history),
            cluster: ClusterFigures::default(),
            refusals: supervisor.refusals(),
            budgets: supervisor.budgets(),
            forwarders: supervisor.forwarders(),
            other_listeners: Rc::new(move || observed.other_listeners()),
            readers: readers(file.unwrap_or(Path::new("gateway.yaml"))),
        };
        let admin = Rc::new(Admin::new(node, Clock::System, geteuid().as_raw()));
        spawn_local(Rc::clone(&admin).watch());
        spawn_local(Rc::clone(&admin).observe());
        let (stop, handle) = match self.listener {
            Some((listener, handle)) => {
                info!(%address, "listening for the admin API");
                (spawn(listener, &admin, Access::Full), Some(handle))
            }
            None => (drain::channel().0, None),
        };
        let (probe_stop, probe) = spawn_probe(self.probe, &admin, metrics_for_all);
        let listener = AdminListener {
            view: sender,
            tags,
            handle,
            address,
            top: supervisor.top(),
            refusals: supervisor.refusals(),
            _stops: [stop, probe_stop],
            _probe: probe,
        };
        listener.keep_whole_keys(reveal_keys);
        Ok(listener)
    }
}

/// Serves health checks, if there is a listener for them.
fn spawn_probe(
    probe: Option<(Listener, ListenerHandle)>,
    admin: &Rc<Admin>,
    with_metrics: bool,
) -> (Stop, Option<ListenerHandle>) {
    let Some((listener, handle)) = probe else { return (drain::channel().0, None) };
    info!(address = %listener.address(), "listening for health checks");
    (spawn(listener, admin, Access::Probe(with_metrics)), Some(handle))
}

impl AdminListener {
    /// The configuration has been replaced, by a call if `origin` is one. What the listener itself
    /// needs a restart for, is logged and stays. Returns the names of all such changes.
    pub fn reloaded(
        &self,
        settings: Option<AdminSettings>,
        snapshot: Arc<Snapshot>,
        document: Document,
        origin: Option<PutBy>,
        mut needs_restart: Vec<&'static str>,
    ) -> Vec<&'static str> {
        let settings = self.renewed(settings, origin.is_none(), &mut needs_restart);
        self.keep_whole_keys(settings.reveal_keys);
        self.view.send_modify(|view| {
            view.settings = settings;
            view.snapshot = snapshot;
            view.document = Some(self.tags.shown(document));
            view.origin = origin;
            view.needs_restart.clone_from(&needs_restart);
            view.generation += 1;
            view.loaded = Clock::System.wall();
            view.failure = None;
        });
        needs_restart
    }

    /// The new settings. What needs a restart is as in the old ones, so that the next reload tells it
    /// again.
    fn renewed(
        &self,
        settings: Option<AdminSettings>,
        is_from_file: bool,
        needs_restart: &mut Vec<&'static str>,
    ) -> Arc<AdminSettings> {
        let old = Arc::clone(&self.view.borrow().settings);
        if settings.is_none() && old.is_temporary {
            return old;
        }
        let Some(mut new) = settings else {
            warn!("admin: removed from the file, but the change needs a restart");
            needs_restart.push("admin");
            return old;
        };
        if !is_from_file {
            // Otherwise every operator could give more rights to all operators.
            new.write_config &= old.write_config;
            new.reveal_keys &= old.reveal_keys;
        }
        let address_of = |it: &AdminSettings| it.listener.address.clone();
        let probe = |it: &AdminSettings| {
            it.probe.clone().map(|ProbeSettings { address, metrics }| (address, metrics))
        };
        let is_fixed = [
            ("admin.address", address_of(&new) == address_of(&old)),
            ("admin.probe", probe(&new) == probe(&old)),
            ("admin.address", new.is_probe_alone == old.is_probe_alone),
            ("admin.uids", new.listener.socket_mode == old.listener.socket_mode),
        ];
        for (name, _) in is_fixed.iter().filter(|(_, is_same)| !is_same) {
            warn!("{name}: changed in the file, but the change needs a restart");
            needs_restart.push(name);
        }
        new.listener.address = address_of(&old);
        new.listener.socket_mode = old.listener.socket_mode;
        new.probe.clone_from(&old.probe);
        new.is_probe_alone = old.is_probe_alone;
        if let Some(handle) = &self.handle {
            match ListenerConfig::new(new.listener.clone()) {
                Ok(config) => handle.change(config),
                Err(error) => warn!("admin.tls: not changed: {error}"),
            }
        }
        Arc::new(new)
    }

    /// Whether the lists of clients and refusals keep whole keys from now on.
    fn keep_whole_keys(&self, is_kept: bool) {
        self.top.keep_whole(is_kept);
        self.refusals.keep_whole(is_kept);
    }

    /// Policies were changed at run time.
    pub fn patched(&self, snapshot: Arc<Snapshot>) {
        self.view.send_modify(|view| view.snapshot = snapshot);
    }

    /// The entity tag of the configuration in use.
    pub fn tag(&self) -> String {
        self.view.borrow().document.as_ref().map_or_else(String::new, |it| it.tag.clone())
    }

    /// The configuration in use, without secrets.
    pub fn masked(&self) -> MaskedConfig {
        let view = self.view.borrow();
        view.document.as_ref().map(|it| it.masked.clone()).unwrap_or_default()
    }

    /// A reload has failed.
    pub fn reload_failed(&self, why: String) {
        let failure = (Clock::System.wall(), why);
        self.view.send_modify(|view| view.failure = Some(failure));
    }

    /// The gateway is about to end.
    pub fn draining(&self) {
        self.view.send_modify(|view| view.phase = Phase::Draining);
    }

    /// Its address.
    pub const fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// The address of the page, and a command to try.
    pub fn how_to_ask(&self) -> String {
        // The terminal shows the link with the token.
        let Some(handle) = &self.handle else { return self.address.to_string() };
        if self.view.borrow().settings.is_temporary {
            return self.address.to_string();
        }
        match &self.address {
            ListenAddress::Unix(path) => {
                let path = path.display();
                format!(
                    "{0}, try: curl --unix-socket {path} http://localhost/v1/status",
                    self.address
                )
            }
            ListenAddress::Tcp(_) => {
                let scheme = if handle.settings().tls.is_some() { "https" } else { "http" };
                let page = format!("{scheme}://{}/", self.address.reachable());
                format!(
                    "{}, page {page}, try: curl -H \"Authorization: Bearer \
                     $TOLLGATE_ADMIN_TOKEN\" {page}v1/status",
                    self.address
                )
            }
        }
    }
}

/// Has the figures of this node published while another node asks for them.
pub fn publish_figures(supervisor: &Supervisor, history: Option<Rc<History>>) {
    if let Some(control) = supervisor.patches().control().cloned() {
        let metrics = supervisor.metrics();
        let top = supervisor.top();
        spawn_local(Publisher { control, metrics, top, history }.publish());
    }
}

fn bind(settings: ListenerSettings) -> Result<(Listener, ListenerHandle), BindError> {
    // The bound of the listener itself is enough.
    let capacity = Capacity::new(usize::MAX);
    let (mut listeners, handle) = Listener::bind(ListenerConfig::new(settings)?, 1, &capacity)?;
    Ok((listeners.swap_remove(0), handle))
}

fn spawn(listener: Listener, admin: &Rc<Admin>, access: Access) -> Stop {
    let (stop, drain) = drain::channel();
    let admin = Rc::clone(admin);
    let service = move |peer, _, _: &ListenerSettings| admin.service(peer, access);
    spawn_local(server::serve(listener, drain, None, service));
    stop
}

/// Passes questions on to the first worker that runs.
async fn pass_on(
    mut calls: mpsc::Receiver<StoreCall>,
    workers: Vec<mpsc::UnboundedSender<Command>>,
) {
    while let Some(call) = calls.recv().await {
        let mut command = Command::Store(call);
        for worker in &workers {
            match worker.send(command) {
                Ok(()) => break,
                // This worker has panicked.
                Err(back) => command = back.0,
            }
        }
    }
}

/// Reads configurations as if they were in `file`.
fn readers(file: &Path) -> Readers {
    let file = file.to_owned();
    // Threads of its own: checks of files that do not answer keep no reload back.
    let work = Rc::new(FileWork::default());
    let check = move |text: String| {
        let file = file.clone();
        let work = Rc::clone(&work);
        async move {
            let checked = work.run(CALL_LIMIT, move |progress| checked(&text, &file, progress));
            checked.await.map_err(|unfinished| unfinished.to_string())
        }
        .boxed_local()
    };
    Readers { check: Rc::new(check), limit: read_limit }
}

fn checked(text: &str, file: &Path, progress: &Progress) -> Checked {
    match config::load_text(text, file, &NO_FILES, progress) {
        Ok(compiled) => {
            let Document { written, identity, .. } = compiled.document;
            // It is only compared.
            let keyed_digest = String::new();
            let document = Some(MaskedConfig { written, identity, keyed_digest });
            Checked { document, problems: problems(&compiled.warnings) }
        }
        Err(mistakes) => Checked { document: None, problems: problems(&mistakes.report) },
    }
}

fn read_limit(text: &str, policy: &Policy) -> Result<Override, String> {
    let limit = text.parse().and_then(|limit: KeyLimit| limit.under(policy));
    limit.map_err(|error| error.to_string())
}

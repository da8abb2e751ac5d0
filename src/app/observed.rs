//! The state of the process for metrics: configuration, store, upstreams and listeners.
//! It is read at each scrape, without the workers.

mod policy;
mod xds;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::sleep;
use tollgate_core::api_keys::KeyTable;
use tollgate_core::digest::Counter;
use tollgate_core::store::keys::{KeysAway, SharedKeys};
use tollgate_core::store::{KeyCount, PromiseCounts, SharedStore, Units};
use tollgate_core::time::{Clock, Span, monotonic};

use self::policy::KnownCounters;
use super::key_set::Condition;
use super::process_state::ProcessState;
use crate::check::XdsCondition;
use crate::config::HeldFiles;
use crate::engine::Passwords;
use crate::platform::{OtherListener, OwnSockets, process_usage};
use crate::proxy::{EndpointHealth, EndpointState, UpstreamShared};
use crate::server::{CertificateDates, ListenerHandle, ListenerSettings, OpenConnections};
use crate::snapshot::Snapshot;
use crate::telemetry::{LostLines, Samples, Source, families, lost_process_lines, model_families};

/// For how long units are remembered: summing them looks at each counter that has some.
const UNITS_REMEMBERED: Duration = Duration::from_secs(10);
/// The interval of the steps that count the keys.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// The state of the process, as metrics show it.
pub struct Observed {
    store: SharedStore,
    max_keys: usize,
    keys: Mutex<KeyCount>,
    units: Mutex<Option<(Instant, HashMap<Counter, Units>)>>,
    counters: Mutex<KnownCounters>,
    log: Option<LostLines>,
    passwords: Arc<Passwords>,
    /// The API keys in the store, if requests have keys of it.
    api_keys: Option<SharedKeys>,
    /// How many keys are both in the file and in the store.
    duplicate_keys: AtomicUsize,
    current: Mutex<Current>,
}

/// What a reload changes.
#[derive(Clone)]
struct Current {
    snapshot: Arc<Snapshot>,
    /// All listeners with their connections.
    listeners: Vec<(Arc<ListenerSettings>, OpenConnections)>,
    /// The sockets of these listeners, and those for operators.
    sockets: Vec<OwnSockets>,
    admin_sockets: Vec<OwnSockets>,
    /// The other processes that listen on an address of these.
    others: Arc<[OtherListener]>,
    /// The certificates that the gateway shows.
    certificates: Arc<[CertificateDates]>,
    /// How the stream to the server of the rate limit service is, if there is one.
    xds: xds::Streams,
    /// How the sets of keys for tokens and of agents are.
    key_sets: Vec<Arc<Condition>>,
    /// The file of the API keys, and whether it could be read at the last reload.
    key_file: Option<(String, bool)>,
    /// The same of the file of the classes.
    class_file: Option<(String, bool)>,
    price_file: Option<(String, bool)>,
    /// The file of the users and passwords, and whether it could be read at the last reload.
    password_file: Option<(String, bool)>,
    /// Whether Envoy's rate limit service is served, whose reloads have names of their own.
    serves_rate_limits: bool,
    generation: u64,
    is_reload_successful: bool,
    /// How many reloads were successful, and how many failed.
    reloads: [u64; 2],
    is_from_file: bool,
    /// The nodes with another configuration, as far as they are known.
    other_configs: Option<OtherConfigs>,
}

/// How many of the nodes that share the store have another configuration.
#[derive(Clone, Debug)]
pub struct OtherConfigs {
    /// By the section that differs. Sections that are equal everywhere are there, too.
    pub differ: BTreeMap<String, u64>,
    /// Nodes whose version does not say enough to be compared.
    pub unknown: u64,
}

impl Observed {
    /// The state at the start.
    pub fn new(state: &ProcessState, snapshot: &Arc<Snapshot>, log: Option<LostLines>) -> Self {
        let snapshot = Arc::clone(snapshot);
        let listeners = Vec::new();
        let current = Current {
            snapshot,
            listeners,
            sockets: Vec::new(),
            admin_sockets: Vec::new(),
            others: Arc::default(),
            certificates: Arc::default(),
            xds: xds::Streams::default(),
            key_sets: Vec::new(),
            key_file: None,
            class_file: None,
            price_file: None,
            password_file: None,
            serves_rate_limits: false,
            generation: 1,
            is_reload_successful: true,
            reloads: [0; 2],
            is_from_file: true,
            other_configs: None,
        };
        Self {
            store: state.store.clone(),
            max_keys: state.max_keys(),
            keys: Mutex::default(),
            units: Mutex::default(),
            counters: Mutex::default(),
            log,
            passwords: Arc::clone(&state.auth.passwords),
            api_keys: state.keys.clone(),
            duplicate_keys: AtomicUsize::new(0),
            current: Mutex::new(current),
        }
    }

    /// The listeners are these now, and one of them serves the rate limit service or not.
    pub fn set_listeners<'h>(
        &self,
        listeners: impl Iterator<Item = &'h ListenerHandle> + Clone,
        serves_rate_limits: bool,
    ) {
        let mut current = self.current.lock();
        current.serves_rate_limits = serves_rate_limits;
        current.sockets = listeners.clone().filter_map(ListenerHandle::sockets).cloned().collect();
        current.listeners = listeners.map(|it| (it.settings(), it.open_connections())).collect();
    }

    /// The listeners for operators have these sockets.
    pub fn set_admin_sockets(&self, sockets: Vec<OwnSockets>) {
        self.current.lock().admin_sockets = sockets;
    }

    /// The sockets of all listeners.
    pub fn own_sockets(&self) -> Vec<OwnSockets> {
        let current = self.current.lock();
        current.sockets.iter().chain(&current.admin_sockets).cloned().collect()
    }

    /// These processes listen on an address of this one now.
    pub fn set_other_listeners(&self, others: Arc<[OtherListener]>) {
        self.current.lock().others = others;
    }

    /// The other processes that listen on an address of this one.
    pub fn other_listeners(&self) -> Arc<[OtherListener]> {
        Arc::clone(&self.current.lock().others)
    }

    /// The gateway shows these certificates now.
    pub fn set_certificates(&self, certificates: Arc<[CertificateDates]>) {
        self.current.lock().certificates = certificates;
    }

    /// The certificates that the gateway shows.
    pub fn certificates(&self) -> Arc<[CertificateDates]> {
        Arc::clone(&self.current.lock().certificates)
    }

    /// The keys for tokens and of agents are those of these sets now.
    pub fn set_key_sets(&self, key_sets: Vec<Arc<Condition>>) {
        self.current.lock().key_sets = key_sets;
    }

    /// The stream of the rate limit service is this one now.
    pub fn set_xds(&self, xds: Option<Arc<XdsCondition>>) {
        self.current.lock().xds.set(xds);
    }

    /// The API keys, the users, the classes and the prices are those of these files now.
    pub fn set_files(&self, files: &HeldFiles) {
        let HeldFiles { api_keys, passwords, classes, prices, .. } = files;
        let mut current = self.current.lock();
        current.key_file = api_keys.as_ref().map(|file| (file.name.clone(), file.is_current));
        current.password_file = passwords.as_ref().map(|file| (file.name.clone(), file.is_current));
        current.class_file = classes.as_ref().map(|file| (file.name.clone(), file.is_current));
        current.price_file = prices.as_ref().map(|file| (file.name.clone(), file.is_current));
    }

    /// The name of the file of the API keys in use, and its keys.
    pub fn file_of_keys(&self) -> (Option<Arc<str>>, Arc<KeyTable>) {
        let snapshot = Arc::clone(&self.current.lock().snapshot);
        let keys = snapshot.rules.clients().settings().keys.as_ref();
        keys.map(|keys| (keys.file.clone(), Arc::clone(&keys.table))).unwrap_or_default()
    }

    /// So many keys are both in the file and in the store.
    pub fn set_duplicate_keys(&self, keys: usize) {
        self.duplicate_keys.store(keys, Ordering::Relaxed);
    }

    /// Another configuration is in use.
    pub fn renew(&self, snapshot: Arc<Snapshot>) {
        let mut current = self.current.lock();
        self.counters.lock().note(&current.snapshot);
        current.snapshot = snapshot;
        current.generation += 1;
    }

    /// Policies were changed at run time.
    pub fn patched(&self, snapshot: Arc<Snapshot>) {
        let mut current = self.current.lock();
        self.counters.lock().note(&current.snapshot);
        current.snapshot = snapshot;
    }

    /// These nodes have another configuration.
    pub fn set_other_configs(&self, nodes: OtherConfigs) {
        self.current.lock().other_configs = Some(nodes);
    }

    /// A reload has ended.
    pub fn reloaded(&self, is_successful: bool) {
        let mut current = self.current.lock();
        current.is_reload_successful = is_successful;
        current.reloads[usize::from(!is_successful)] += 1;
    }

    /// The configuration in use is that of the file, or is not.
    pub fn set_from_file(&self, is_from_file: bool) {
        self.current.lock().is_from_file = is_from_file;
    }

    /// Whether the configuration in use is that of the file.
    pub fn is_from_file(&self) -> bool {
        self.current.lock().is_from_file
    }

    /// Counts the keys of the store, a part at a time, until the task is dropped.
    pub async fn count_keys(self: Arc<Self>) {
        loop {
            self.store.memory().count_keys(&mut self.keys.lock(), Clock::System.now());
            sleep(COUNT_INTERVAL).await;
        }
    }

    fn units(&self) -> HashMap<Counter, Units> {
        let mut units = self.units.lock();
        let now = monotonic();
        match &*units {
            Some((at, known)) if now.saturating_duration_since(*at) < UNITS_REMEMBERED => {
                known.clone()
            }
            _ => units.insert((now, self.store.units())).1.clone(),
        }
    }

    /// What the store knows by counter. Counters of limits of single keys that have a window of
    /// their own belong to no policy here, and are left out.
    fn collect_counters(&self, snapshot: &Snapshot, samples: &mut Samples) {
        let promises = self.store.promises();
        let units = self.units();
        let mut counters = self.counters.lock();
        counters.note(snapshot);
        let names: BTreeSet<&str> = policy::of_routes(snapshot).map(|it| &*it.name).collect();
        for name in names {
            let mut kept = PromiseCounts::default();
            let mut sum = Units::default();
            for counter in counters.of(name) {
                let found = promises.get(counter).copied().unwrap_or_default();
                kept.kept += found.kept;
                kept.broken += found.broken;
                units.get(counter).iter().for_each(|found| sum.add(found));
            }
            // Shown from the beginning, so that an alert sees the first broken promise.
            if self.store.nodes().is_none() {
                samples.set_whole(&families::PROMISES, &[name, "true"], kept.kept);
                samples.set_whole(&families::PROMISES, &[name, "false"], kept.broken);
            } else {
                collect_units(name, &sum, samples);
            }
        }
    }

    fn collect_keys(&self, samples: &mut Samples) {
        let Some(keys) = &self.api_keys else { return };
        let away = keys.away(Clock::System.now());
        for cause in KeysAway::ALL {
            let is_away = u64::from(away == Some(cause));
            samples.set_whole(&families::KEY_STORE_AWAY, &[cause.code()], is_away);
        }
        let duplicates = self.duplicate_keys.load(Ordering::Relaxed);
        samples.set_whole(&families::KEYS_IN_FILE_AND_STORE, &[], whole(duplicates));
    }

    fn collect_store(&self, samples: &mut Samples) {
        let keys = self.store.memory().counted_keys(&self.keys.lock());
        samples.set_whole(&families::STORE_KEYS, &[], whole(keys));
        samples.set_whole(&families::STORE_KEYS_MAX, &[], whole(self.max_keys));
        for outage in self.store.outages() {
            let labels = [&*outage.server, outage.cause.code()];
            samples.set_whole(&families::STORE_AWAY, &labels, whole(outage.users));
        }
        for (server, how) in self.store.differences() {
            samples.set_whole(&families::STORE_DIFFERS, &[&server, how], 1);
        }
        for refused in self.store.renewals_refused() {
            let labels = [&*refused.server, refused.cause.code()];
            samples.set_whole(&families::STORE_RENEWALS_REFUSED, &labels, whole(refused.users));
        }
        let losses = self.store.losses();
        samples.set_whole(&families::STORE_EVICTIONS, &["true"], losses.forgiven.states);
        if let Some(nodes) = self.store.nodes() {
            samples.set_whole(&families::NODES, &[], nodes);
            samples.set_whole(&families::REPLICAS_AWAY, &[], whole(self.store.replicas_away()));
            samples.set_whole(&families::LOST_UNITS, &["unknown"], losses.lost_units);
            samples.set_whole(&families::LOST_UNITS, &["forgotten"], losses.forgotten_units);
            samples.set_whole(&families::UNRETURNED_UNITS, &["unknown"], losses.unknown_refunds);
            samples.set_whole(&families::UNRETURNED_UNITS, &["dropped"], losses.dropped_refunds);
        }
    }
}

impl Source for Observed {
    fn collect(&self, samples: &mut Samples) {
        let current = self.current.lock().clone();
        self.collect_store(samples);
        self.collect_keys(samples);
        self.collect_counters(&current.snapshot, samples);
        collect_process(samples);
        samples.set_whole(&families::CONFIG_GENERATION, &[], current.generation);
        if let Some(nodes) = &current.other_configs {
            for (section, nodes) in &nodes.differ {
                samples.set_whole(&families::NODES_WITH_OTHER_CONFIG, &[section], *nodes);
            }
            samples.set_whole(&families::NODES_NOT_COMPARED, &[], nodes.unknown);
        }
        let successful = u64::from(current.is_reload_successful);
        samples.set_whole(&families::CONFIG_LAST_RELOAD, &[], successful);
        if current.serves_rate_limits {
            current.xds.collect(current.reloads, samples);
        }
        // Several listeners may have port 0, which means any free port.
        let mut connections = BTreeMap::<String, usize>::new();
        for (settings, open) in &current.listeners {
            *connections.entry(settings.address.to_string()).or_default() += open.count();
        }
        for (address, open) in connections {
            samples.set_whole(&families::CONNECTIONS, &[&address], whole(open));
        }
        for own in current.sockets.iter().chain(&current.admin_sockets) {
            let others = current.others.iter().filter(|it| it.address == own.address).count();
            let labels = [&*own.address.to_string()];
            samples.set_whole(&families::OTHER_LISTENERS, &labels, whole(others));
        }
        collect_certificates(&current.certificates, samples);
        for key_set in &current.key_sets {
            collect_key_set(key_set, samples);
        }
        if let Some((file, is_current)) = &current.key_file {
            samples.set_whole(&families::KEY_FILE_LAST_LOAD, &[file], u64::from(*is_current));
        }
        if let Some((file, is_current)) = &current.class_file {
            samples.set_whole(&families::CLASS_FILE_LAST_LOAD, &[file], u64::from(*is_current));
        }
        if let Some((file, is_current)) = &current.price_file {
            samples.set_whole(
                &model_families::PRICE_FILE_LAST_LOAD,
                &[file],
                u64::from(*is_current),
            );
        }
        if let Some((file, is_current)) = &current.password_file {
            collect_passwords(&self.passwords, samples);
            let family = &families::PASSWORD_FILE_LAST_LOAD;
            samples.set_whole(family, &[file], u64::from(*is_current));
        }
        let lost = lost_process_lines().count();
        samples.set_whole(&families::LOG_LINES_DROPPED, &["process"], lost);
        if let Some(log) = &self.log {
            samples.set_whole(&families::LOG_LINES_DROPPED, &["access"], log.count());
        }
        policy::collect(&current.snapshot, self.store.nodes().is_some(), samples);
        current.snapshot.upstreams.iter().for_each(|upstream| collect_upstream(upstream, samples));
    }
}

fn collect_units(name: &str, units: &Units, samples: &mut Samples) {
    let Units { leases, debts, unsent } = units;
    samples.set_whole(&families::UNSENT_UNITS, &[name], *unsent);
    for (fate, units) in [
        ("taken", leases.taken),
        ("spent", leases.spent),
        ("returned", leases.returned),
        ("expired", leases.expired),
    ] {
        samples.set_whole(&families::LEASE_UNITS, &[name, fate], units);
    }
    for (fate, units) in [
        ("owed", debts.owed),
        ("reported", debts.reported),
        ("unknown", debts.unknown),
        ("dropped", debts.dropped),
    ] {
        samples.set_whole(&families::DEBT_UNITS, &[name, fate], units);
    }
}

/// If several certificates have one name, the first to expire and the last to become valid are
/// shown.
fn collect_certificates(certificates: &[CertificateDates], samples: &mut Samples) {
    let mut dates = BTreeMap::<&str, (u64, u64)>::new();
    for CertificateDates { name, from_s, until_s } in certificates {
        let (from, until) = dates.entry(name).or_insert((0, u64::MAX));
        (*from, *until) = ((*from).max(*from_s), (*until).min(*until_s));
    }
    for (name, (from_s, until_s)) in dates {
        samples.set_whole(&families::CERTIFICATE_START, &[name], from_s);
        samples.set_whole(&families::CERTIFICATE_EXPIRY, &[name], until_s);
    }
}

fn collect_key_set(key_set: &Condition, samples: &mut Samples) {
    let labels = [&*key_set.name];
    if let Some(is_fetched) = key_set.is_fetched() {
        samples.set_whole(&families::KEY_SET_LAST_FETCH, &labels, u64::from(is_fetched));
    }
    samples.set_whole(&families::KEYS_LEFT_OUT, &labels, whole(key_set.left_out()));
}

fn collect_passwords(passwords: &Passwords, samples: &mut Samples) {
    samples.set_whole(&families::PASSWORDS_WAITING, &[], whole(passwords.waiting()));
    let [wrong, right] = passwords.checks();
    samples.set_whole(&families::PASSWORD_CHECKS, &["wrong"], wrong);
    samples.set_whole(&families::PASSWORD_CHECKS, &["right"], right);
}

/// What is not known on this system is absent.
fn collect_process(samples: &mut Samples) {
    let usage = process_usage();
    let seconds =
        [(&families::PROCESS_CPU, usage.cpu_us), (&families::PROCESS_START_TIME, usage.started_us)];
    for (family, us) in seconds {
        if let Some(us) = us {
            samples.set_seconds(family, &[], Span::from_micros(us));
        }
    }
    for (family, number) in [
        (&families::PROCESS_THREADS, usage.threads),
        (&families::PROCESS_VIRTUAL_MEMORY, usage.virtual_bytes),
        (&families::PROCESS_RESIDENT_MEMORY, usage.resident_bytes),
        (&families::PROCESS_OPEN_FDS, usage.open_files),
        (&families::PROCESS_MAX_FDS, usage.max_files),
    ] {
        if let Some(number) = number {
            samples.set_whole(family, &[], number);
        }
    }
}

fn collect_upstream(upstream: &UpstreamShared, samples: &mut Samples) {
    let name = &*upstream.settings().name;
    let health = upstream.health();
    for state in ["up", "starting", "down", "ejected"] {
        let is_counted = |it: &&EndpointHealth| state_name(it.state) == state;
        let count = health.iter().filter(is_counted).count();
        samples.set_whole(&families::UPSTREAM_ENDPOINTS, &[name, state], whole(count));
    }
    if let Some(in_flight) = upstream.in_flight() {
        samples.set_whole(&families::UPSTREAM_IN_FLIGHT, &[name], whole(in_flight));
    }
    if let Some(counts) = upstream.connection_counts() {
        samples.set_whole(&families::UPSTREAM_OPEN, &[name], whole(counts.open));
        samples.set_whole(&families::UPSTREAM_WAITING, &[name], whole(counts.waiting));
    }
}

const fn state_name(state: EndpointState) -> &'static str {
    match state {
        EndpointState::InService => "up",
        EndpointState::Starting => "starting",
        EndpointState::Down => "down",
        EndpointState::Ejected(_) => "ejected",
    }
}

fn whole(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

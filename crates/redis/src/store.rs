//! The store of one worker, and what the workers of a node share of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::timeout;
use tollgate_core::digest::{Key, SharedSecret};
use tollgate_core::store::{
    Charge, Correction, HoldingTimes, MemoryStore, Outage, ServerState, Source, Standing, Told,
};
use tollgate_core::time::{Clock, Span, Timestamp};

use super::codec::{Answered, Asked, Encoder};
use super::failure::StoreError;
use super::inquiries::Inquiries;
use super::invalidation;
use super::layout::Layout;
use super::live_settings::{Latest, LiveSettings};
use super::membership::{ClusterState, Membership, NodeCount};
use super::outages::{Outages, ServerUse};
use super::refunds::SharedRefunds;
use super::script::Encoded;
use super::server::{Destination, Servers};
use super::settings::RedisSettings;
use super::tasks::BackgroundTasks;
use super::transport::{AnyTransport, NETWORK};
use crate::shared::fallback::Fallback;
use crate::shared::in_flight::InFlight;
use crate::shared::invalidation::Invalidations;
use crate::shared::late_charges::{Belongs, LateCharges};
use crate::shared::local_plan::LocalLedgers;
use crate::shared::store_clock::StoreClock;
use crate::shared::{DenyCache, FRESH_FOR, Known, Trust};

/// The maximum size of one worker's deny cache, in bytes.
const MAX_DENIED_BYTES: usize = 16 << 20;

/// The slack of the store's clock for a worker that has had no reply yet.
const UNKNOWN_SLACK: Span = Span::SECOND;

/// How long a starting worker waits for its store at least. The time is enough for a store
/// that is up. Without a store the gateway starts all the same.
const START_PATIENCE: Duration = Duration::from_millis(500);

/// The state that the workers of one node share.
#[derive(Debug)]
pub struct NodeState {
    /// The way of all calls to the servers.
    pub(super) transport: AnyTransport,
    /// The name of this process among the nodes: random, new at each start.
    pub(super) id: u64,
    /// The settings at the start. Those of connections may have changed since; see `latest`.
    pub(super) settings: RedisSettings,
    /// The settings now.
    pub(super) latest: Arc<Latest>,
    pub(super) secret: Arc<SharedSecret>,
    pub(super) memory: Arc<MemoryStore>,
    pub(super) fallback: Fallback,
    pub(super) refunds: SharedRefunds,
    pub(super) late_charges: Mutex<LateCharges>,
    /// The settings on which all nodes agree.
    pub(super) cluster_state: watch::Receiver<ClusterState>,
    pub(super) nodes_alive: Arc<NodeCount>,
    /// The sender, until the worker that reads the cluster state takes it.
    pub(super) publisher: Mutex<Option<watch::Sender<ClusterState>>>,
    /// The ledgers by which the node decides without the store.
    pub(super) local: LocalLedgers,
    pub(super) outages: Outages,
    /// Whether there are credentials, and if not, why.
    credentials: Mutex<ServerUse>,
    pub(super) invalidations: Arc<Invalidations>,
}

impl NodeState {
    /// A store with these settings. While Redis is away, `memory` counts. `secret` is
    /// replaced by the secret of all nodes as soon as that is known.
    pub fn new(
        settings: RedisSettings,
        memory: Arc<MemoryStore>,
        secret: Arc<SharedSecret>,
    ) -> Self {
        Self::over(&*NETWORK, settings, memory, secret)
    }

    /// The same with servers that are reached in this way.
    pub(crate) fn over(
        transport: AnyTransport,
        settings: RedisSettings,
        memory: Arc<MemoryStore>,
        secret: Arc<SharedSecret>,
    ) -> Self {
        let (sender, cluster_state) = watch::channel(ClusterState::unknown(&settings));
        let fallback = Fallback::new(Arc::clone(&memory));
        let local = LocalLedgers::new(settings.interval, settings.lease);
        let publisher = Mutex::new(Some(sender));
        let outages = Outages::default();
        Self {
            transport,
            id: fastrand::u64(..),
            latest: Latest::new(settings.clone()),
            settings,
            secret,
            memory,
            fallback,
            late_charges: Mutex::default(),
            refunds: SharedRefunds::default(),
            cluster_state,
            nodes_alive: Arc::default(),
            publisher,
            local,
            credentials: Mutex::new(outages.of_renewals().user()),
            outages,
            invalidations: Arc::default(),
        }
    }

    /// Adopts the credentials, the TLS settings and the number of connections of `settings`.
    /// Connections stay in use until the servers have accepted the new settings.
    pub fn adopt(&self, settings: &RedisSettings) {
        self.latest.set(self.settings.with_connections_of(settings));
    }

    /// Encodes operations that are performed in one step. `store_now` is the store's time.
    pub(super) fn encode(
        &self,
        encoder: &Encoder,
        asked: &[Asked<'_>],
        store_now: Timestamp,
    ) -> Encoded {
        self.transport.encode(encoder, asked, store_now)
    }

    /// Decodes the reply to these operations.
    pub(super) fn decode(
        &self,
        asked: &[Asked<'_>],
        answer: &[u8],
    ) -> Result<Answered, StoreError> {
        Ok(self.transport.decode(asked, answer)?)
    }

    /// Credentials that are to be adopted are missing, for this reason; or they are there.
    pub fn report_credentials(&self, missing: Option<Outage>) {
        let mut credentials = self.credentials.lock();
        match missing {
            Some(outage) => credentials.give_up(outage),
            None => credentials.resume(),
        }
    }
}

/// One worker's access to the counters.
#[derive(Debug)]
pub struct RedisStore {
    pub(super) node: Arc<NodeState>,
    pub(super) servers: Rc<Servers>,
    /// The cluster state; this worker applies changes between requests.
    pub(super) cluster_state: RefCell<watch::Receiver<ClusterState>>,
    pub(super) encoder: RefCell<Option<Rc<Encoder>>>,
    pub(super) clock: Clock,
    pub(super) denied: Rc<RefCell<DenyCache>>,
    pub(super) inquiries: Inquiries,
    pub(super) last_clock: Cell<Option<StoreClock>>,
    pub(super) in_flight: Rc<RefCell<InFlight>>,
    pub(super) background: BackgroundTasks,
}

impl RedisStore {
    /// Opens a worker's connections, in the background of its runtime.
    pub fn open(node: &Arc<NodeState>, clock: Clock) -> Self {
        let settings = &node.settings;
        let live = LiveSettings::new(&node.latest, |settings| settings);
        let servers = Rc::new(Servers::following(live, node.transport, &node.outages));
        if let Some(cluster_state) = node.publisher.lock().take() {
            let buckets = Layout::new(&settings.prefix, settings.expected_clients).buckets();
            let invalidations = Arc::clone(&node.invalidations);
            let prefix = settings.prefix.clone();
            let store_now = Rc::clone(&servers);
            spawn_local(invalidation::keep(invalidations, store_now, prefix, clock.clone()));
            let servers = Rc::clone(&servers);
            let secret = node.secret.get();
            let nodes_alive = Arc::clone(&node.nodes_alive);
            let membership =
                Membership::new(servers, settings, buckets, secret, nodes_alive, cluster_state)
                    .reporting_to(&node.outages);
            spawn_local(membership.named(node.id).keep());
        }
        let mut cluster_state = node.cluster_state.clone();
        cluster_state.mark_changed();
        Self {
            servers,
            cluster_state: RefCell::new(cluster_state),
            encoder: RefCell::new(None),
            node: Arc::clone(node),
            clock,
            denied: Rc::new(RefCell::new(DenyCache::new(MAX_DENIED_BYTES))),
            inquiries: Inquiries::default(),
            last_clock: Cell::new(None),
            in_flight: Rc::default(),
            background: BackgroundTasks::new(),
        }
    }

    /// See [`Store::ready`](tollgate_core::store::Store::ready).
    pub async fn ready(&self) {
        let known = async {
            self.servers.settled().await;
            if self.servers.is_connected() {
                let mut cluster_state = self.cluster_state.borrow().clone();
                // It fails only if the task that reads the state has ended.
                let _ = cluster_state.wait_for(ClusterState::is_known).await;
            }
        };
        let _ = timeout(self.node.settings.timeout.max(START_PATIENCE), known).await;
        self.apply_cluster_state();
    }

    /// The earliest time that the store's clock may show.
    pub(super) fn store_time(&self, now: Timestamp) -> Timestamp {
        match self.last_clock.get() {
            Some(clock) => clock.bounds(now).0,
            None => self.node.local.store_time(now),
        }
    }

    /// By how much the store's clock may be later than [`Self::store_time`].
    pub(super) fn store_slack(&self, now: Timestamp) -> Span {
        let bounds = self.last_clock.get().map(|clock| clock.bounds(now));
        bounds.map_or(UNKNOWN_SLACK, |(earliest, latest)| latest.since(earliest))
    }

    /// The number of nodes that are alive.
    pub(super) fn nodes(&self) -> u64 {
        self.node.nodes_alive.get()
    }

    pub(super) fn encoder(&self) -> Option<Rc<Encoder>> {
        self.encoder.borrow().clone()
    }

    /// Where the counters of this key are.
    pub(super) fn destination(&self, encoder: &Encoder, key: &Key) -> Destination {
        self.servers.destination(&encoder.layout().key(key.principal))
    }

    /// The deadline of a call that is made now.
    pub fn deadline(&self) -> Instant {
        self.servers.deadline()
    }

    /// Updates the known state of a counter that is reset, or whose units are given back.
    /// `store_now` is the store's time.
    pub(super) fn take_away(&self, asked: &Asked<'_>, store_now: Timestamp) {
        let Asked { key, algorithm, ask, .. } = *asked;
        self.denied.borrow_mut().forget(&key);
        self.node.fallback.take_away(key, algorithm, ask, store_now);
    }

    /// See [`RemoteStore::refuses`](tollgate_core::store::RemoteStore::refuses). What other modes
    /// than the exact one know is not asked.
    pub fn refuses(&self, charge: &Charge<'_>, now: Timestamp) -> bool {
        let is_current = |key: &Key, asked| self.node.invalidations.is_current(key, asked, now);
        let trust = Trust { now, fresh_for: FRESH_FOR, is_current };
        matches!(self.denied.borrow().judge([*charge], &trust), Known::Refused(_))
    }

    /// See [`Store::correct`](tollgate_core::store::Store::correct).
    pub fn correct(&self, corrections: &[Correction<'_>], now: Timestamp) {
        for correction in corrections {
            let Correction { charge, source, op } = correction;
            match source {
                Source::Local => self.correct_own(correction, now),
                Source::Policy | Source::Unasked => {}
                Source::Store => self.correct_in_store(charge, *op, now, None),
            }
        }
    }

    /// Corrects a charge that this node has decided. The store may have counted it since.
    fn correct_own(&self, correction: &Correction<'_>, now: Timestamp) {
        let Correction { ref charge, op, .. } = *correction;
        let nodes = self.nodes();
        let store_now = self.store_time(now);
        let belongs = self.node.late_charges.lock().correct(charge.key, op);
        match belongs {
            Belongs::Here => {
                self.node.local.imposes(charge, op, store_now);
                self.node.fallback.correct(correction, nodes, store_now);
            }
            Belongs::Share => self.node.fallback.change(charge, op, nodes, store_now),
            Belongs::Store(op) => self.correct_in_store(charge, op, now, None),
            Belongs::Both(of_store) => {
                self.node.fallback.change(charge, op, nodes, store_now);
                self.correct_in_store(charge, of_store, now, None);
            }
        }
    }

    /// See [`StoreRef::correct_told`](tollgate_core::store::StoreRef::correct_told). What this node
    /// counts by itself is not told.
    pub fn correct_told(&self, correction: &Correction<'_>, now: Timestamp, told: Told) {
        match correction.source {
            Source::Store => {
                self.correct_in_store(&correction.charge, correction.op, now, Some(told));
            }
            _ => self.correct(slice::from_ref(correction), now),
        }
    }

    /// Applies new cluster state. It is called between requests only, because a key must
    /// not be made with one secret and looked up with another.
    fn apply_cluster_state(&self) {
        let mut receiver = self.cluster_state.borrow_mut();
        if !receiver.has_changed().unwrap_or(false) {
            return;
        }
        let ClusterState { secret, buckets } = *receiver.borrow_and_update();
        let (Some(secret), Some(buckets)) = (secret, buckets) else { return };
        self.node.secret.set(secret);
        let mut encoder = self.encoder.borrow_mut();
        if encoder.as_ref().is_none_or(|encoder| encoder.layout().buckets() != buckets) {
            let layout = Layout::with_buckets(&self.node.settings.prefix, buckets);
            // Each worker has a record of its own for units in flight.
            *encoder = Some(Rc::new(Encoder::new(layout, fastrand::u32(..))));
            // The cached states belong to the old layout.
            self.denied.replace(DenyCache::new(MAX_DENIED_BYTES));
        }
    }

    /// Does the periodic work: applies new cluster state, and sends the reports to the
    /// store that are due.
    pub fn housekeep(self: &Rc<Self>, now: Timestamp) {
        self.apply_cluster_state();
        self.node.memory.housekeep(now);
        self.node.fallback.housekeep(now);
        if let Some(encoder) = self.encoder() {
            self.run_background(&encoder, now);
        }
    }

    /// See [`Store::servers`](tollgate_core::store::Store::servers).
    pub(crate) fn server_states(&self) -> Vec<ServerState> {
        let mut states: Vec<ServerState> = Vec::new();
        // There may be several connections to one server.
        for state in self.servers.health().into_iter().map(ServerState::from) {
            match states.iter_mut().find(|it| it.server == state.server) {
                Some(known) => known.merge(state),
                None => states.push(state),
            }
        }
        states
    }

    /// See [`Store::standing`](tollgate_core::store::Store::standing).
    pub fn standing(&self) -> Standing {
        let outages = &self.node.outages;
        Standing {
            outages: outages.all(),
            renewals_refused: outages.renewals_refused(),
            nodes: self.nodes(),
        }
    }

    /// See [`StoreRef::holding`](tollgate_core::store::StoreRef::holding).
    pub fn holding(&self) -> &HoldingTimes {
        self.node.memory.holding()
    }
}

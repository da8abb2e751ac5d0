//! Counters in Redis, shared by all nodes.
//!
//! A decision over counters in one place is one step of the [`script`] there.
//! Around it stand, in this order:
//!
//! 1. what is known to be refused is refused here (`deny`);
//! 2. counters in several places are asked for at once, and given back where
//!    one of them refuses (`parts`);
//! 3. connections never make a request wait for longer than its deadline
//!    (`link`), and a request whose client goes away leaves nothing in flight
//!    (`question`);
//! 4. what the store does not judge in time is judged here, as its consistency settings say
//!    (`fallback`), and told to the store when it is back.
//!
//! Each worker has a store of its own, with its own connections. What they share
//! is [`Shared`].

mod asking;
mod batch;
#[cfg(test)]
mod checker;
pub mod codec;
mod compact;
mod dial;
mod errands;
mod failure;
#[cfg(any(test, fuzzing, feature = "testing"))]
pub mod fuzzing;
mod invalidation;
mod latch;
mod late;
pub mod layout;
mod link;
mod news;
#[cfg(feature = "overrides")]
mod overrides;
mod parts;
mod presence;
mod promise;
mod question;
pub mod script;
mod server;
mod settings;
mod stream;
#[cfg(test)]
mod testing;
mod url;
mod wire;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::timeout;

pub use batch::Repeat;
pub use failure::{Refusal, StoreError};
pub use link::Health;
pub use news::News;
#[cfg(feature = "overrides")]
pub use overrides::{OverrideError, Overrides};
pub use server::{Call, Place, Servers};
pub use settings::{Address, Identity, Password, ReadFrom, RedisSettings, TlsSettings, Topology};
pub use url::UrlError;

use self::codec::{Asked, Encoder};
use self::errands::Errands;
use self::layout::Layout;
use self::parts::Wanted;
use self::presence::{Facts, Presence};
use self::script::{SCRIPT, Script};
use super::shared::DenyCache;
use super::shared::fallback::{Fallback, Unjudged};
use super::shared::in_flight::Held;
use super::shared::invalidation::Invalidations;
use super::shared::local_plan::{Here, Plan, Way};
use super::shared::store_clock::StoreClock;
use super::{Answer, Charge, Correction, Decided, HoldingTimes, Losses, MemoryStore, Source};
use crate::consistency::StoreMode;
use crate::digest::SharedSecret;
use crate::time::{Clock, Timestamp};

/// What one worker remembers of clients that are over their limits, in bytes.
const MAX_DENIED_BYTES: usize = 16 << 20;

/// How long a worker that begins waits for its store, if a decision may not wait
/// for longer anyway. It is enough for a store that is there; without one the
/// gateway serves all the same.
const START_PATIENCE: Duration = Duration::from_millis(500);

/// What the servers run.
fn script() -> &'static Script {
    #[cfg(test)]
    if let Some(script) = checker::script() {
        return script;
    }
    &SCRIPT
}

/// What the workers of one node share.
#[derive(Debug)]
pub struct Shared {
    settings: RedisSettings,
    secret: Arc<SharedSecret>,
    memory: Arc<MemoryStore>,
    fallback: Fallback,
    /// What all nodes agree on.
    facts: watch::Receiver<Facts>,
    /// For the worker that finds out.
    publisher: Mutex<Option<watch::Sender<Facts>>>,
    /// What is decided without the store.
    here: Here,
    news: News,
    invalidations: Arc<Invalidations>,
}

impl Shared {
    /// A store by these settings. While it is away, `memory` counts. `secret`
    /// becomes the one that all nodes have as soon as it is known.
    pub fn new(
        settings: RedisSettings,
        memory: Arc<MemoryStore>,
        secret: Arc<SharedSecret>,
    ) -> Self {
        let (sender, facts) = watch::channel(Facts::unknown(&settings));
        let fallback = Fallback::new(Arc::clone(&memory));
        let here = Here::new(settings.interval, settings.lease);
        let publisher = Mutex::new(Some(sender));
        Self {
            settings,
            secret,
            memory,
            fallback,
            facts,
            publisher,
            here,
            news: News::default(),
            invalidations: Arc::default(),
        }
    }

    /// See [`SharedStore::losses`](super::SharedStore::losses).
    pub(super) fn losses(&self) -> Losses {
        let [lost_units, forgotten_units] = self.here.losses();
        Losses { forgiven: self.memory.forgiven(), lost_units, forgotten_units }
    }
}

/// One worker's way to the counters.
#[derive(Debug)]
pub struct RedisStore {
    shared: Arc<Shared>,
    servers: Rc<Servers>,
    /// What all nodes agree on, as far as this worker goes by it.
    facts: RefCell<watch::Receiver<Facts>>,
    encoder: RefCell<Option<Rc<Encoder>>>,
    nodes: Cell<u64>,
    clock: Clock,
    denied: RefCell<DenyCache>,
    last_clock: Cell<Option<StoreClock>>,
    held: Rc<RefCell<Held>>,
    errands: Errands,
}

impl RedisStore {
    /// Opens a worker's connections, in the background of its runtime.
    pub fn open(shared: &Arc<Shared>, clock: Clock) -> Self {
        let settings = Rc::new(shared.settings.clone());
        let servers = Rc::new(Servers::connect(&settings, script(), &shared.news));
        if let Some(facts) = shared.publisher.lock().take() {
            let buckets = Layout::new(&settings.prefix, settings.expected_clients).buckets();
            let invalidations = Arc::clone(&shared.invalidations);
            let prefix = settings.prefix.clone();
            let there = Rc::clone(&servers);
            spawn_local(invalidation::keep(invalidations, there, prefix, clock.clone()));
            let (servers, secret) = (Rc::clone(&servers), shared.secret.get());
            spawn_local(Presence::new(servers, &settings, buckets, secret, facts).keep());
        }
        let mut facts = shared.facts.clone();
        facts.mark_changed();
        Self {
            servers,
            facts: RefCell::new(facts),
            encoder: RefCell::new(None),
            nodes: Cell::new(1),
            shared: Arc::clone(shared),
            clock,
            denied: RefCell::new(DenyCache::new(MAX_DENIED_BYTES)),
            last_clock: Cell::new(None),
            held: Rc::default(),
            errands: Errands::new(),
        }
    }

    /// See [`Store::ready`](super::Store::ready).
    pub async fn ready(&self) {
        let known = async {
            self.servers.settled().await;
            if self.servers.is_connected() {
                let mut facts = self.facts.borrow().clone();
                // It fails if nobody looks for them any more: then there is nothing to wait for.
                let _ = facts.wait_for(Facts::are_known).await;
            }
        };
        let _ = timeout(self.shared.settings.timeout.max(START_PATIENCE), known).await;
        self.go_by_facts();
    }

    /// See [`StoreRef::apply_by`](super::StoreRef::apply_by).
    ///
    /// What asks the server has its own place: decisions that need nobody else
    /// would have room for it.
    pub async fn apply(
        self: &Rc<Self>,
        charges: &[Charge<'_>],
        now: Timestamp,
        deadline: Instant,
    ) -> Decided {
        let Some(encoder) = self.encoder() else { return self.judge_alone(charges, now) };
        if charges.iter().all(|charge| charge.consistency.mode == StoreMode::Exact) {
            return Box::pin(self.ask_for(&encoder, charges, None, (now, deadline))).await;
        }
        let there = self.time_there(now);
        let is_up = self.servers.is_up();
        let plan = self.shared.here.plan(charges, (self.nodes.get(), is_up), there);
        let stopped = charges.iter().zip(&plan).any(|(it, way)| it.binding && way.refuses());
        let wanted = match stopped {
            true => SmallVec::new(),
            false => Wanted::all(charges, Some(&plan)),
        };
        let asked = match wanted.is_empty() {
            true => None,
            false => {
                // What the store decides now must know what this node has counted.
                let asked = charges.iter().zip(&plan).filter(|(_, way)| matches!(way, Way::Ask(_)));
                let due = self.shared.here.due_of(asked.map(|(charge, _)| charge), there);
                self.tell(&encoder, due, there);
                let planned = Some((&plan, there));
                Some(Box::pin(self.ask_for(&encoder, charges, planned, (now, deadline))).await)
            }
        };
        self.combine(&encoder, charges, (&plan, there), &wanted, asked)
    }

    /// One decision of what was planned here and what the store says.
    fn combine(
        &self,
        encoder: &Rc<Encoder>,
        charges: &[Charge<'_>],
        (plan, there): (&Plan, Timestamp),
        wanted: &[Wanted<'_>],
        asked: Option<Decided>,
    ) -> Decided {
        let asking = wanted.iter().map(|it| &it.charge);
        let said = asked.as_ref().map_or(&[][..], |asked| &asked.answers);
        let refused = charges.iter().zip(plan).any(|(it, way)| it.binding && way.refuses())
            || asking.zip(said).any(|(it, answer)| it.binding && !answer.verdict.admitted);
        let mut said = said.iter();
        let answer = |(charge, way): (&Charge<'_>, &Way)| {
            let decided = match refused {
                true => self.withdraw(encoder, charge, *way, there),
                false => way.answer(),
            };
            decided.unwrap_or_else(|| {
                said.next().copied().unwrap_or_else(|| Answer::unasked(charge, there))
            })
        };
        let answers: SmallVec<[Answer; 4]> = charges.iter().zip(plan).map(answer).collect();
        if !refused {
            self.shared.here.foresee(charges, &answers, there);
        }
        self.tell(encoder, self.shared.here.due_of(charges.iter(), there), there);
        Decided { at: asked.map_or(there, |asked| asked.at), answers }
    }

    /// Withdraws what was planned for a charge whose request is refused, or gone.
    fn withdraw(
        &self,
        encoder: &Encoder,
        charge: &Charge<'_>,
        way: Way,
        there: Timestamp,
    ) -> Option<Answer> {
        let (answer, op) = self.shared.here.withdraw(charge, way, there);
        if let Some(asked) = op.and_then(|op| Asked::correction(charge.key, charge.algorithm, op)) {
            self.post(encoder, self.place(encoder, charge), &[asked], self.clock.now());
        }
        answer
    }

    /// The earliest that it may be by the store's clock.
    fn time_there(&self, now: Timestamp) -> Timestamp {
        match self.last_clock.get() {
            Some(clock) => clock.bounds(now).0,
            None => self.shared.here.time_there(now),
        }
    }

    fn encoder(&self) -> Option<Rc<Encoder>> {
        self.encoder.borrow().clone()
    }

    /// Judges while it is not known where the counters are.
    fn judge_alone(&self, charges: &[Charge<'_>], now: Timestamp) -> Decided {
        let unjudged: SmallVec<[Unjudged<'_>; 4]> =
            charges.iter().map(|&charge| Unjudged { charge, is_doubtful: false }).collect();
        let (nodes, there) = (self.nodes.get(), self.time_there(now));
        Decided { at: there, answers: self.shared.fallback.judge(&unjudged, false, nodes, there) }
    }

    /// By when what is asked now must be answered.
    pub fn deadline(&self) -> Instant {
        self.servers.deadline()
    }

    /// See [`Store::correct`](super::Store::correct).
    pub fn correct(&self, corrections: &[Correction<'_>], now: Timestamp) {
        for correction in corrections {
            let Correction { charge, source, op } = correction;
            match source {
                Source::Local => {
                    let (nodes, there) = (self.nodes.get(), self.time_there(now));
                    self.shared.here.imposes(charge, *op, there);
                    self.shared.fallback.correct(correction, nodes, there);
                }
                Source::Nobody | Source::Unasked => {}
                Source::Store => self.correct_there(charge, *op, now),
            }
        }
    }

    /// Goes by what all nodes agree on. Between requests only: a key must not be
    /// made under one secret and looked for under another.
    fn go_by_facts(&self) {
        let mut receiver = self.facts.borrow_mut();
        if !receiver.has_changed().unwrap_or(false) {
            return;
        }
        let Facts { nodes_alive, secret, buckets } = *receiver.borrow_and_update();
        self.nodes.set(nodes_alive.into());
        let (Some(secret), Some(buckets)) = (secret, buckets) else { return };
        self.shared.secret.set(secret);
        let mut encoder = self.encoder.borrow_mut();
        if encoder.as_ref().is_none_or(|encoder| encoder.layout().buckets() != buckets) {
            let layout = Layout::with_buckets(&self.shared.settings.prefix, buckets);
            // Each worker counts for itself what it has in flight.
            *encoder = Some(Rc::new(Encoder::new(layout, fastrand::u32(..))));
            // What was known is of states that are not looked for any more.
            self.denied.replace(DenyCache::new(MAX_DENIED_BYTES));
        }
    }

    /// What must be done now and then: what all nodes agree on is gone by, and
    /// what the store is to be told it is told.
    pub fn housekeep(self: &Rc<Self>, now: Timestamp) {
        self.go_by_facts();
        self.shared.memory.housekeep(now);
        if let Some(encoder) = self.encoder() {
            self.run_errands(&encoder, now);
        }
    }

    /// See [`StoreRef::holding`](super::StoreRef::holding).
    pub fn holding(&self) -> &HoldingTimes {
        self.shared.memory.holding()
    }
}

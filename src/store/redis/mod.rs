//! Counters in Redis, shared by all nodes.
//!
//! A decision over counters in one place is one step of the [`script`] there.
//! Around it stand, in this order:
//!
//! 1. what is known to be refused is refused here ([`deny`]);
//! 2. counters in several places are asked for at once, and given back where
//!    one of them refuses ([`parts`]);
//! 3. connections never make a request wait for longer than its deadline
//!    ([`link`]);
//! 4. what the store does not judge in time is judged here, as its terms say
//!    ([`fallback`]), and told to the store when it is back.
//!
//! Each worker has a store of its own, with its own connections. What they share
//! is [`Shared`].

mod batch;
mod clock;
pub mod codec;
mod deny;
mod dial;
mod failure;
mod fallback;
mod held;
pub mod layout;
mod link;
mod parts;
mod presence;
pub mod script;
mod server;
mod settings;
#[cfg(test)]
mod testing;
mod url;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use futures_util::future::join_all;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::watch;
use tokio::task::spawn_local;

pub use deny::DenyCache;
pub use failure::{Refusal, StoreError};
pub use link::Health;
pub use server::{Place, Servers};
pub use settings::{Address, Identity, Password, RedisSettings, TlsSettings, Topology};
pub use url::UrlError;

use self::clock::StoreClock;
use self::codec::{Answered, Ask, Asked, Encoder, decode};
use self::fallback::Fallback;
use self::held::Held;
use self::layout::Layout;
use self::parts::Part;
use self::presence::{Facts, Presence};
use self::script::SCRIPT;
use super::{Answer, Charge, Correction, Decided, MemoryStore, Source};
use crate::algorithm::{Algorithm, Op};
use crate::digest::SharedSecret;
use crate::time::{Clock, Timestamp};

/// What one worker remembers of clients that are over their limits, in bytes.
const MAX_DENIED_BYTES: usize = 16 << 20;
/// How many counters a store that is back is told of at a time.
const MAX_DEBTS: usize = 64;

/// What the workers of one node share.
#[derive(Debug)]
pub struct Shared {
    settings: RedisSettings,
    secret: Arc<SharedSecret>,
    fallback: Fallback,
    /// What all nodes agree on.
    facts: watch::Receiver<Facts>,
    /// For the worker that finds out.
    publisher: Mutex<Option<watch::Sender<Facts>>>,
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
        let (fallback, publisher) = (Fallback::new(memory), Mutex::new(Some(sender)));
        Self { settings, secret, fallback, facts, publisher }
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
    clocks: RefCell<HashMap<Place, StoreClock>>,
    held: RefCell<Held>,
}

impl RedisStore {
    /// Opens a worker's connections, in the background of its runtime.
    pub fn open(shared: &Arc<Shared>, clock: Clock) -> Self {
        let settings = Rc::new(shared.settings.clone());
        let servers = Rc::new(Servers::connect(&settings, &SCRIPT));
        if let Some(facts) = shared.publisher.lock().take() {
            let buckets = Layout::new(&settings.prefix, settings.expected_clients).buckets();
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
            clocks: RefCell::default(),
            held: RefCell::default(),
        }
    }

    /// See [`Store::apply`](super::Store::apply).
    pub async fn apply(&self, charges: &[Charge<'_>], now: Timestamp) -> Decided {
        let Some(encoder) = self.encoder.borrow().clone() else {
            let nodes = self.nodes.get();
            let answers = self.shared.fallback.judge(charges, false, false, nodes, now);
            return Decided { at: now, answers };
        };
        let parts = Part::split(charges, |charge| self.place(&encoder, charge));
        if let [part] = &*parts
            && let Some(decided) = self.known_refusal(part.place, charges, now)
        {
            return decided;
        }
        let asking = parts.into_iter().map(|part| async {
            let outcome = self.ask(&encoder, &part, now).await;
            (part, outcome)
        });
        let mut judged = join_all(asking).await;
        self.settle(&encoder, charges, &mut judged, now)
    }

    fn place(&self, encoder: &Encoder, charge: &Charge<'_>) -> Place {
        self.servers.place(&encoder.layout().key(charge.key.principal))
    }

    /// What is known to be refused without asking. By the latest time that it
    /// may be in the store it must be refused; the numbers told are those of
    /// the earliest, so that no wait is too short.
    fn known_refusal(
        &self,
        place: Place,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> Option<Decided> {
        let (earliest, latest) = self.clocks.borrow().get(&place)?.bounds(now);
        let denied = self.denied.borrow();
        denied.refuse(charges, latest)?;
        let verdicts = denied.refuse(charges, earliest)?;
        let answers = verdicts.into_iter().map(Answer::of_store).collect();
        Some(Decided { at: earliest, answers })
    }

    async fn ask(
        &self,
        encoder: &Encoder,
        part: &Part<'_>,
        now: Timestamp,
    ) -> Result<Answered, StoreError> {
        let answer = self.servers.call(part.place, encoder.encode(&part.asked, now)).await?;
        let answered = decode(&part.asked, &answer)
            .map_err(|_| StoreError::Garbage("the script says nothing"))?;
        let clock = StoreClock::new(answered.at, now, self.clock.now());
        self.clocks.borrow_mut().insert(part.place, clock);
        Ok(answered)
    }

    /// One decision of what all parts say, and of what is said here in place of
    /// those that say nothing.
    fn settle(
        &self,
        encoder: &Encoder,
        charges: &[Charge<'_>],
        judged: &mut [parts::Judged<'_>],
        now: Timestamp,
    ) -> Decided {
        let refused = judged.iter().any(|(_, it)| it.as_ref().is_ok_and(|it| it.refused));
        let (unjudged, sent) = parts::unjudged(charges, judged);
        let local = if unjudged.is_empty() {
            SmallVec::new()
        } else {
            let nodes = self.nodes.get();
            self.shared.fallback.judge(&unjudged, sent, refused, nodes, now)
        };
        let refused = refused || parts::refuses(&unjudged, &local);
        let is_whole = judged.len() == 1;
        for (part, outcome) in judged.iter_mut() {
            let Ok(answered) = outcome else { continue };
            if refused && !answered.refused {
                self.post(encoder, part.place, &part.refund(answered), now);
                answered.withdraw(&part.asked);
            } else if is_whole {
                self.learn(charges, part, answered);
            }
        }
        let answers = parts::combine(charges.len(), judged, local);
        let held = &mut *self.held.borrow_mut();
        let admitted = |(charge, it): (&Charge<'_>, &Answer)| {
            if !refused && it.verdict.admitted && it.source == Source::Store {
                held.take(charge);
            }
        };
        charges.iter().zip(&answers).for_each(admitted);
        Decided { at: parts::decided_at(judged, now), answers }
    }

    /// Remembers who is over a limit now.
    fn learn(&self, charges: &[Charge<'_>], part: &Part<'_>, answered: &Answered) {
        let is_over = |(charge, it): (&Charge<'_>, &codec::Finding)| {
            !it.verdict.admitted || it.verdict.remaining < charge.cost
        };
        if charges.iter().zip(&answered.findings).any(is_over) {
            self.denied.borrow_mut().learn(charges, &answered.after(&part.asked), answered.at);
        }
    }

    /// See [`Store::correct`](super::Store::correct).
    pub fn correct(&self, corrections: &[Correction<'_>], now: Timestamp) {
        for correction in corrections {
            let Correction { charge, source, op } = correction;
            match source {
                Source::Local => {
                    self.shared.fallback.correct(correction, self.nodes.get(), now);
                }
                Source::Nobody => {}
                Source::Store => self.correct_there(charge, *op, now),
            }
        }
    }

    fn correct_there(&self, charge: &Charge<'_>, op: Op, now: Timestamp) {
        if let (Op::Give { cost, .. }, Algorithm::Concurrency(_)) = (op, charge.algorithm) {
            self.held.borrow_mut().give(charge.key, cost);
        }
        let Some(asked) = Asked::correction(charge.key, charge.algorithm, op) else { return };
        if matches!(asked.ask, Ask::Give { .. }) {
            self.denied.borrow_mut().forget(&charge.key);
        }
        if let Some(encoder) = self.encoder.borrow().clone() {
            self.post(&encoder, self.place(&encoder, charge), &[asked], now);
        }
    }

    /// Asks for what nobody waits for.
    fn post(&self, encoder: &Encoder, place: Place, asked: &[Asked<'_>], now: Timestamp) {
        if asked.is_empty() {
            return;
        }
        let (servers, encoded) = (Rc::clone(&self.servers), encoder.encode(asked, now));
        let mut call = Box::pin(async move { servers.call(place, encoded).await });
        // Begun at once: what is asked later must come after it.
        if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            // What fails stays charged: the safe side, and never for long.
            spawn_local(async move { drop(call.await) });
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
        }
    }

    /// What must be done now and then: what is in flight is kept alive, and a
    /// store that is back is told what was admitted without it.
    pub fn housekeep(&self, now: Timestamp) {
        self.go_by_facts();
        let Some(encoder) = self.encoder.borrow().clone() else { return };
        let place =
            |key: crate::digest::Key| self.servers.place(&encoder.layout().key(key.principal));
        if let Some(held) = self.held.borrow_mut().due(now) {
            for (key, holding) in held {
                let ask = Ask::Renew(holding.units);
                let asked = Asked { key, algorithm: &holding.algorithm, ask, binding: false };
                self.post(&encoder, place(key), &[asked], now);
            }
        }
        if !self.servers.is_up() {
            return;
        }
        for debt in self.shared.fallback.owed(MAX_DEBTS, now) {
            let ask = Ask::Charge(debt.units);
            let asked = Asked { key: debt.key, algorithm: &debt.algorithm, ask, binding: false };
            self.post(&encoder, place(debt.key), &[asked], now);
        }
    }
}

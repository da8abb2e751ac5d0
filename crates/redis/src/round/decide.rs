//! The first steps of a decision: the local plan, what is known without a call, and the question.

use std::rc::Rc;
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use smallvec::SmallVec;
use tollgate_core::consistency::StoreMode;
use tollgate_core::digest::Key;
use tollgate_core::store::{Answer, Charge, Decided};
use tollgate_core::time::Timestamp;

use super::{Round, Slot};
use crate::codec::{Ask, Asked};
use crate::inquiries::Turn;
use crate::shared::deny::FRESH_FOR;
use crate::shared::fallback::{Fallback, Undecided};
use crate::shared::in_flight::is_in_flight;
use crate::shared::invalidation::MAX_AGE;
use crate::shared::{Known, Trust};
use crate::store::RedisStore;

impl RedisStore {
    /// See [`StoreRef::apply_by`](tollgate_core::store::StoreRef::apply_by).
    pub fn apply<'a>(
        self: &'a Rc<Self>,
        charges: &'a [Charge<'a>],
        now: Timestamp,
        deadline: Instant,
    ) -> LocalBoxFuture<'a, Decided> {
        match charges.iter().all(|charge| charge.consistency.mode == StoreMode::Exact) {
            true => exact(self, charges, now, deadline).boxed_local(),
            false => planned(self, charges, now, deadline).boxed_local(),
        }
    }
}

/// Asks the store for all charges.
async fn exact(
    store: &Rc<RedisStore>,
    charges: &[Charge<'_>],
    now: Timestamp,
    deadline: Instant,
) -> Decided {
    let Some(mut round) = Round::begin(store, now) else { return alone(store, charges, now) };
    round.ask_for(charges, |charge| Ask::Take(charge.cost));
    round.ask(deadline).await;
    round.decided()
}

/// Has the store count all charges, whether they fit or not.
pub(crate) async fn count(
    store: &Rc<RedisStore>,
    charges: &[Charge<'_>],
    now: Timestamp,
    deadline: Instant,
) -> Decided {
    let Some(mut round) = Round::begin(store, now) else {
        return without_layout(store, charges, now, |fallback, undecided, at| {
            fallback.count(undecided, store.nodes(), at)
        });
    };
    round.ask_for(charges, |charge| Ask::Count(charge.cost));
    round.is_open = true;
    round.call(deadline).await;
    round.decided()
}

/// Asks the store for the charges that this node cannot decide. The futures that ask are boxed,
/// so that a decision without a call stays small.
async fn planned(
    store: &Rc<RedisStore>,
    charges: &[Charge<'_>],
    now: Timestamp,
    deadline: Instant,
) -> Decided {
    let Some(mut round) = Round::begin(store, now) else { return alone(store, charges, now) };
    let store_now = round.plan(charges);
    let stopped = round.slots.iter().any(|slot| slot.binds() && slot.planned.refuses());
    if !stopped && round.slots.iter().any(Slot::is_remote) {
        // The store must know what this node has counted before it decides.
        let due = store.node.local.due_of(round.remote(), store_now);
        store.report_due(&round.encoder, due, store_now);
        Box::pin(round.ask(deadline)).await;
    }
    round.combine(store_now);
    if round.is_refused() {
        Box::pin(round.complete(deadline)).await;
    }
    round.decided()
}

/// Decides while the layout of the keys in Redis is not known.
fn alone(store: &RedisStore, charges: &[Charge<'_>], now: Timestamp) -> Decided {
    without_layout(store, charges, now, |fallback, undecided, at| {
        fallback.judge(undecided, false, store.nodes(), at)
    })
}

/// The answers of the fallback while the layout of the keys in Redis is not known.
fn without_layout(
    store: &RedisStore,
    charges: &[Charge<'_>],
    now: Timestamp,
    answers: impl FnOnce(&Fallback, &[Undecided<'_>], Timestamp) -> SmallVec<[Answer; 4]>,
) -> Decided {
    let undecided: SmallVec<[Undecided<'_>; 4]> =
        charges.iter().map(|&charge| Undecided::without_store(charge)).collect();
    let at = store.store_time(now);
    Decided { at, answers: answers(&store.node.fallback, &undecided, at) }
}

impl<'a> Round<'a> {
    /// Plans the charges. Returns when, by the store's clock.
    fn plan(&mut self, charges: &[Charge<'a>]) -> Timestamp {
        let store = &self.store;
        let store_now = self.store_now();
        let nodes = store.nodes();
        let is_up = store.servers.is_up();
        let slack = store.store_slack(self.now);
        let plan = |charge: &Charge<'a>| {
            Slot::new(charge, store.node.local.plan(charge, nodes, is_up, store_now, slack))
        };
        self.slots.extend(charges.iter().map(plan));
        self.planned_at = Some(store_now);
        self.at = store_now;
        store_now
    }
}

impl Round<'_> {
    /// Asks the store for the charges that the plan leaves to it, by the deadline. The answer is
    /// all or nothing, also over several destinations. If the future is dropped, the calls that
    /// were sent are still settled.
    async fn ask(&mut self, deadline: Instant) {
        self.is_asked = true;
        self.is_open = true;
        if self.spend_kept() {
            return;
        }
        let known = self.known();
        let turn = match known {
            Known::Stale(key) => Some(self.store.inquiries.begin(key)),
            _ => None,
        };
        let known = match turn {
            Some(Turn::Wait(reply)) => {
                reply.by(deadline).await;
                self.now = self.store.clock.now();
                self.known()
            }
            _ => known,
        };
        match known {
            Known::Refused(answers) => {
                self.answer_remote(answers);
                self.at = self.store_now();
                self.is_open = false;
            }
            _ => self.call(deadline).await,
        }
    }

    /// Calls the store for the charges that the plan leaves to it.
    async fn call(&mut self, deadline: Instant) {
        self.divide(|slot| slot.planned.ask());
        self.send(deadline);
        self.collect().await;
    }

    /// Decides by kept units in flight, if they cover all charges that the plan leaves to the
    /// store. Returns whether they do.
    fn spend_kept(&mut self) -> bool {
        if !self.remote().all(|charge| is_in_flight(&charge)) || !self.store.servers.is_up() {
            return false;
        }
        let verdicts = self.store.in_flight.borrow_mut().spend(self.remote(), self.now);
        let Some(verdicts) = verdicts else { return false };
        self.answer_remote(verdicts.into_iter().map(Answer::of_store));
        self.at = self.store_now();
        self.is_open = false;
        true
    }

    /// What the deny cache knows of a request. While a server is away, its states are not
    /// asked for again.
    fn known(&self) -> Known {
        let store = &self.store;
        let now = self.now;
        let is_current = |key: &Key, asked| store.node.invalidations.is_current(key, asked, now);
        let fresh_for = if store.servers.is_up() { FRESH_FOR } else { MAX_AGE };
        store.denied.borrow().judge(self.remote(), &Trust { now, fresh_for, is_current })
    }

    /// Answers the charges that the plan leaves to the store, in their order.
    fn answer_remote(&mut self, answers: impl IntoIterator<Item = Answer>) {
        let remote = self.slots.iter_mut().filter(|slot| slot.is_remote());
        for (slot, answer) in remote.zip(answers) {
            slot.answer = Some(answer);
        }
    }

    /// Combines the local plan and the answers of the store into one decision.
    pub(super) fn combine(&mut self, store_now: Timestamp) {
        self.is_open = false;
        let stops = |slot: &Slot<'_>| slot.binds() && slot.planned.refuses() || slot.refuses();
        let refused = self.slots.iter().any(stops);
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let answer = match refused {
                true => self.withdraw(slot, store_now),
                false => self.store.node.local.conclude(&slot.charge(), slot.planned),
            };
            let answer = answer.or(slot.answer);
            let answer = answer.unwrap_or_else(|| Answer::unasked(&slot.charge(), store_now));
            self.slots[index].answer = Some(answer);
        }
        let local = &self.store.node.local;
        for slot in self.slots.iter().filter(|_| !refused) {
            if let Some(answer) = &slot.answer {
                local.foresee(&slot.charge(), answer, store_now);
            }
        }
        let due = local.due_of(self.slots.iter().map(Slot::charge), store_now);
        self.store.report_due(&self.encoder, due, store_now);
    }

    /// Withdraws the planned charge of a request that is refused or was dropped.
    pub(super) fn withdraw(&self, slot: &Slot<'_>, store_now: Timestamp) -> Option<Answer> {
        let store = &self.store;
        let charge = slot.charge();
        let (answer, op) = store.node.local.withdraw(&charge, slot.planned, store_now);
        if let Some(asked) = op.and_then(|op| Asked::correction(charge.key, charge.algorithm, op)) {
            let destination = store.destination(&self.encoder, &charge.key);
            store.post(&self.encoder, destination, &[asked], store.clock.now());
        }
        answer
    }
}

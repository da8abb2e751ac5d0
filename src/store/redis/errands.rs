//! What the store is asked or told while no request waits for it: corrections,
//! what is held in flight, what was leased and not spent, what was counted here.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::task::spawn_local;

use super::batch::Repeat;
use super::codec::{Ask, Asked, Encoder, decode};
use super::held::Renewal;
use super::here::Told;
use super::server::Call;
use super::{Place, RedisStore, StoreError};
use crate::algorithm::{Algorithm, Op};
use crate::digest::Key;
use crate::drain::{self, Drain, Stop};
use crate::store::Charge;
use crate::store::leased::Return;
use crate::store::write_back::Delta;
use crate::time::Timestamp;

/// How many counters a store that is back is told of at a time.
const MAX_DEBTS: usize = 64;
/// Of how many counters the store is told at a time when a worker ends: fewer
/// than may wait for a server.
const MAX_LAST: usize = 1024;

/// Errands under way. Nobody waits for them, until the worker ends.
#[derive(Debug)]
pub(super) struct Errands(RefCell<Option<(Stop, Drain)>>);

impl Errands {
    pub(super) fn new() -> Self {
        Self(RefCell::new(Some(drain::channel())))
    }

    /// Begins at once, so that what is asked later comes after it, and goes on by
    /// itself. After the end nothing is begun: the runtime goes, too.
    pub(super) fn begin(&self, errand: impl Future<Output = ()> + 'static) {
        let Some((_, drain)) = &*self.0.borrow() else { return };
        let drain = drain.clone();
        let mut errand = Box::pin(async move {
            errand.await;
            drop(drain);
        });
        if errand.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            spawn_local(errand);
        }
    }

    /// Waits until all have ended, but no longer than `limit`.
    async fn end(&self, limit: Duration) {
        let all = self.0.borrow_mut().take();
        if let Some((stop, drain)) = all {
            drop(drain);
            stop.finish(limit).await;
        }
    }
}

impl RedisStore {
    /// Corrects what the store has counted.
    pub(super) fn correct_there(&self, charge: &Charge<'_>, op: Op, now: Timestamp) {
        if let (Op::Give { cost, .. }, Algorithm::Concurrency(_)) = (op, charge.algorithm) {
            self.held.borrow_mut().give(charge.key, cost);
        }
        let (ledgers, there) = (self.ledgers(), self.time_there(now));
        let Some(op) = self.here.borrow_mut().correct(charge, op, ledgers, there) else { return };
        let Some(asked) = Asked::correction(charge.key, charge.algorithm, op) else { return };
        self.denied.borrow_mut().forget(&charge.key);
        if let Some(encoder) = self.encoder() {
            self.post(&encoder, self.place(&encoder, charge), &[asked], now);
        }
    }

    /// Asks for what nobody waits for.
    pub(super) fn post(
        &self,
        encoder: &Encoder,
        place: Place,
        asked: &[Asked<'_>],
        now: Timestamp,
    ) {
        if asked.is_empty() {
            return;
        }
        let (servers, encoded) = (Rc::clone(&self.servers), encoder.encode(asked, now));
        let in_flight = |asked: &&Asked<'_>| matches!(asked.algorithm, Algorithm::Concurrency(_));
        let flights: SmallVec<[(Key, Algorithm); 1]> =
            asked.iter().filter(in_flight).map(|it| (it.key, it.algorithm.clone())).collect();
        let held = Rc::clone(&self.held);
        self.errands.begin(async move {
            // What fails stays charged: the safe side, and never for long. But units
            // in flight would stay as long as this node takes others, so the store
            // is told what is really held.
            if servers.call(place, encoded, Repeat::Never).await.is_err() {
                let mut held = held.borrow_mut();
                flights.iter().for_each(|(key, algorithm)| held.doubt(*key, algorithm));
            }
        });
    }

    /// All that is due now.
    pub(super) fn run_errands(self: &Rc<Self>, encoder: &Rc<Encoder>, now: Timestamp) {
        let renewals = self.held.borrow_mut().due(now);
        for Renewal { key, algorithm, units } in renewals {
            let call = self.call_one(encoder, key, &algorithm, Ask::Renew(units), now);
            let store = Rc::clone(self);
            self.errands.begin(async move {
                if call.await.is_err() {
                    store.held.borrow_mut().doubt(key, &algorithm);
                }
            });
        }
        let there = self.time_there(now);
        let returns = self.here.borrow_mut().leases.returns(there);
        for back in returns {
            let ask = Ask::Give { cost: back.units, taken: back.taken };
            self.post_one(encoder, back.key, &back.algorithm, ask, now);
        }
        self.tell(encoder, there);
        if self.servers.is_up() {
            for debt in self.shared.fallback.owed(MAX_DEBTS, now) {
                let ask = Ask::Charge(debt.units);
                self.post_one(encoder, debt.key, &debt.algorithm, ask, now);
            }
        }
    }

    fn post_one(
        &self,
        encoder: &Encoder,
        key: Key,
        algorithm: &Algorithm,
        ask: Ask,
        now: Timestamp,
    ) {
        let call = self.call_one(encoder, key, algorithm, ask, now);
        self.errands.begin(async move { drop(call.await) });
    }

    fn call_one(
        &self,
        encoder: &Encoder,
        key: Key,
        algorithm: &Algorithm,
        ask: Ask,
        now: Timestamp,
    ) -> Call {
        let place = self.servers.place(&encoder.layout().key(key.principal));
        let asked = [Asked { key, algorithm, ask, binding: false }];
        self.servers.call(place, encoder.encode(&asked, now), Repeat::Never)
    }

    /// Tells the store what was counted here, as far as it is due.
    pub(super) fn tell(&self, encoder: &Rc<Encoder>, there: Timestamp) {
        if self.here.borrow().is_due(there) {
            let deltas = self.here.borrow_mut().deltas(there);
            for delta in deltas {
                self.errands.begin(self.telling(encoder, delta, there));
            }
        }
    }

    fn telling(
        &self,
        encoder: &Rc<Encoder>,
        delta: Delta,
        there: Timestamp,
    ) -> impl Future<Output = ()> + 'static {
        let (servers, here) = (Rc::clone(&self.servers), Rc::clone(&self.here));
        let encoder = Rc::clone(encoder);
        async move {
            let ask = if delta.units == 0 { Ask::Peek } else { Ask::Charge(delta.units) };
            let algorithm = delta.algorithm.clone();
            let asked = [Asked { key: delta.key, algorithm: &algorithm, ask, binding: false }];
            let place = servers.place(&encoder.layout().key(delta.key.principal));
            let encoded = encoder.encode(&asked, there);
            let answer = servers.call(place, encoded, Repeat::Never).await;
            let answered = answer.and_then(|answer| Ok(decode(&asked, &answer)?));
            let mut here = here.borrow_mut();
            match &answered {
                Ok(it) => here.told(delta, Told::Counted(it.before[0].as_ref(), it.at), there),
                Err(error) if error.may_have_counted() => {
                    here.told(delta, Told::Perhaps, there);
                }
                Err(_) => here.told(delta, Told::Never, there),
            }
        }
    }

    /// Tells the store all that it should know before this worker ends: what was
    /// leased and not spent, what was counted here, and that nothing is in flight
    /// any more. Returns when the store has heard it, or is not there to hear it.
    pub async fn close(&self, now: Timestamp) {
        if let Some(encoder) = self.encoder() {
            self.tell_the_last(&encoder, now).await;
        }
        // Each of them waits for its answer no longer than the timeout; in a
        // cluster it may be sent on once.
        self.errands.end(self.shared.settings.timeout * 2).await;
    }

    async fn tell_the_last(&self, encoder: &Rc<Encoder>, now: Timestamp) {
        let there = self.time_there(now);
        let (returns, deltas) = self.here.borrow_mut().close(there);
        let give = |back: &Return| {
            let asked = Ask::Give { cost: back.units, taken: back.taken };
            self.call_one(encoder, back.key, &back.algorithm, asked, now)
        };
        for some in returns.chunks(MAX_LAST) {
            join_all(some.iter().map(give)).await;
        }
        let held = self.held.borrow_mut().release();
        let release =
            |it: &Renewal| self.call_one(encoder, it.key, &it.algorithm, Ask::Renew(it.units), now);
        join_all(held.iter().map(release)).await;
        let mut deltas = deltas.into_iter().peekable();
        while deltas.peek().is_some() {
            let some = deltas.by_ref().take(MAX_LAST);
            join_all(some.map(|delta| self.telling(encoder, delta, there))).await;
        }
    }
}

/// An answer that makes no sense may have been counted all the same.
impl From<super::codec::Garbage> for StoreError {
    fn from(_: super::codec::Garbage) -> Self {
        Self::Garbage("it is none of the script's")
    }
}

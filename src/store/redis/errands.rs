//! What the store is asked or told while no request waits for it: corrections,
//! what is held in flight, what was leased and not spent, what was counted here.

use std::rc::Rc;
use std::task::{Context, Waker};

use futures_util::future::join_all;
use tokio::task::spawn_local;

use super::codec::{Ask, Asked, Encoder, decode};
use super::here::Told;
use super::{Place, RedisStore, StoreError};
use crate::algorithm::{Algorithm, Op};
use crate::digest::Key;
use crate::store::Charge;
use crate::store::write_back::Delta;
use crate::time::Timestamp;

/// How many counters a store that is back is told of at a time.
const MAX_DEBTS: usize = 64;

impl RedisStore {
    /// Corrects what the store has counted.
    pub(super) fn correct_there(&self, charge: &Charge<'_>, op: Op, now: Timestamp) {
        if let (Op::Give { cost, .. }, Algorithm::Concurrency(_)) = (op, charge.algorithm) {
            self.held.borrow_mut().give(charge.key, cost);
        }
        let Some(asked) = Asked::correction(charge.key, charge.algorithm, op) else { return };
        if matches!(asked.ask, Ask::Give { .. }) {
            self.denied.borrow_mut().forget(&charge.key);
        }
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
        // What fails stays charged: the safe side, and never for long.
        begin(async move { drop(servers.call(place, encoded).await) });
    }

    /// All that is due now.
    pub(super) fn run_errands(&self, encoder: &Rc<Encoder>, now: Timestamp) {
        if let Some(held) = self.held.borrow_mut().due(now) {
            for (key, holding) in held {
                let ask = Ask::Renew(holding.units);
                self.post_one(encoder, key, &holding.algorithm, ask, now);
            }
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
        let place = self.servers.place(&encoder.layout().key(key.principal));
        self.post(encoder, place, &[Asked { key, algorithm, ask, binding: false }], now);
    }

    /// Tells the store what was counted here, as far as it is due.
    pub(super) fn tell(&self, encoder: &Rc<Encoder>, there: Timestamp) {
        if self.here.borrow().is_due(there) {
            let deltas = self.here.borrow_mut().deltas(there);
            deltas.into_iter().for_each(|delta| begin(self.telling(encoder, delta, there)));
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
            let answer = servers.call(place, encoder.encode(&asked, there)).await;
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
    /// leased and not spent, and what was counted here.
    pub async fn close(&self, now: Timestamp) {
        let Some(encoder) = self.encoder() else { return };
        let there = self.time_there(now);
        let (returns, deltas) = self.here.borrow_mut().close(there);
        for back in returns {
            let ask = Ask::Give { cost: back.units, taken: back.taken };
            self.post_one(&encoder, back.key, &back.algorithm, ask, now);
        }
        join_all(deltas.into_iter().map(|delta| self.telling(&encoder, delta, there))).await;
    }
}

/// Begins at once, so that what is asked later comes after it, and goes on by itself.
fn begin(errand: impl Future<Output = ()> + 'static) {
    let mut errand = Box::pin(errand);
    if errand.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        spawn_local(errand);
    }
}

/// An answer that makes no sense may have been counted all the same.
impl From<super::codec::Garbage> for StoreError {
    fn from(_: super::codec::Garbage) -> Self {
        Self::Garbage("it is none of the script's")
    }
}

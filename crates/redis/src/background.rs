//! Calls to the store for which no request waits: corrections, renewals of units in flight,
//! returns of unspent leases, and reports of what this node has counted.

mod refunds;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::time::timeout;
use tollgate_core::algorithm::{Algorithm, Op};
use tollgate_core::digest::Key;
use tollgate_core::store::{Charge, Told};
use tollgate_core::time::{Clock, Timestamp};

use super::batch::Repeat;
use super::codec::Encoder;
use super::deadline::Reply;
use super::failure::StoreError;
use super::invalidation::exchange;
use super::server::Call;
use super::server::Destination;
use super::store::{NodeState, RedisStore};
use crate::breaker::Position;
use crate::shared::fallback::{Debt, ServerStatus};
use crate::shared::in_flight::Renewal;
use crate::shared::leased::Return;
use crate::shared::local_plan::{Due, ReportOutcome};
use crate::shared::refunds::Refund;
use crate::shared::write_back::Delta;
use crate::shared::{Ahead, Ask, Asked};

/// The maximum number of debts that are reported at a time.
const MAX_DEBTS: usize = 64;
/// The maximum number of calls at a time when a worker ends. It is below the length of a
/// server's queue.
const MAX_LAST: usize = 1024;

impl RedisStore {
    /// Corrects a charge that the store has counted. `told` learns how an excess has changed the
    /// counter.
    pub(super) fn correct_in_store(
        &self,
        charge: &Charge<'_>,
        op: Op,
        now: Timestamp,
        told: Option<Told>,
    ) {
        if let (Op::Give { cost, .. }, Algorithm::Concurrency(_)) = (op, charge.algorithm)
            && self.in_flight.borrow_mut().give(charge.key, cost, now) == 0
        {
            return;
        }
        let nodes = self.nodes();
        let store_now = self.store_time(now);
        let Some(op) = self.node.local.correct(charge, op, nodes, store_now) else { return };
        let Some(asked) = Asked::correction(charge.key, charge.algorithm, op) else { return };
        match (self.encoder(), asked.ask) {
            (Some(encoder), Ask::Charge(units)) => {
                // The client may be banned by this charge.
                self.denied.borrow_mut().forget(&charge.key);
                self.charge_in_store(&encoder, charge, units, now, told, false);
            }
            (Some(encoder), _) => {
                self.post(&encoder, self.destination(&encoder, &charge.key), &[asked], now);
            }
            (None, Ask::Charge(units)) => {
                self.node.fallback.settle(charge, units, self.nodes(), store_now);
            }
            (None, _) => {}
        }
    }

    /// Charges units in the store, whether they fit or not. If the store certainly does not
    /// count them, they become a debt. Then this node counts them in its share, unless it has
    /// done so before (`is_in_share`).
    pub(super) fn charge_in_store(
        &self,
        encoder: &Encoder,
        charge: &Charge<'_>,
        units: u64,
        now: Timestamp,
        told: Option<Told>,
        is_in_share: bool,
    ) {
        let ask = Ask::Charge(units);
        let call = self.call_one(encoder, charge.key, charge.algorithm, ask, now);
        let node = Arc::clone(&self.node);
        let algorithm = charge.algorithm.clone();
        let Charge { key, cost, binding, consistency, .. } = *charge;
        let nodes = self.nodes();
        let store_now = self.store_time(now);
        self.background.begin(async move {
            let charge = Charge { key, algorithm: &algorithm, cost, binding, consistency };
            match call.final_reply(|| {}).await {
                Ok(answer) => node.charged(&charge, ask, told, &answer),
                Err(error) if error.may_have_counted() => {}
                Err(_) if is_in_share => {
                    node.fallback.owe_admitted(&charge, units, nodes, store_now);
                }
                Err(_) => node.fallback.settle(&charge, units, nodes, store_now),
            }
        });
    }

    /// Sends a call for which no request waits.
    pub(super) fn post(
        &self,
        encoder: &Encoder,
        destination: Destination,
        asked: &[Asked<'_>],
        now: Timestamp,
    ) {
        if asked.is_empty() {
            return;
        }
        self.report_debts_of(encoder, asked.iter().map(|it| &it.key), now);
        let servers = Rc::clone(&self.servers);
        let store_now = self.store_time(now);
        let encoded = self.node.encode(encoder, asked, store_now);
        asked.iter().filter(|it| it.ask.takes_away()).for_each(|it| self.take_away(it, store_now));
        let posted: SmallVec<[(Key, Algorithm, Ask); 1]> =
            asked.iter().map(|it| (it.key, it.algorithm.clone(), it.ask)).collect();
        let node = Arc::clone(&self.node);
        let held = Rc::clone(&self.in_flight);
        let denied = Rc::clone(&self.denied);
        let clock = self.clock.clone();
        self.background.begin(async move {
            let call = servers.call(destination, encoded, Repeat::Never);
            let asked: SmallVec<[Asked<'_>; 1]> = posted
                .iter()
                .map(|&(key, ref algorithm, ask)| Asked { key, algorithm, ask, binding: false })
                .collect();
            // Units in flight do not expire while this node renews others, so they are renewed
            // with the number that is really held.
            let doubt_flights = || {
                let in_flight =
                    asked.iter().filter(|it| matches!(it.algorithm, Algorithm::Concurrency(_)));
                in_flight.for_each(|it| held.borrow_mut().doubt(it.key, it.algorithm));
            };
            let answer = call.final_reply(doubt_flights).await;
            if let Err(error) = answer.and_then(|answer| node.posted(&asked, &answer)) {
                doubt_flights();
                node.post_failed(&asked, &error, &clock);
            }
            for Asked { key, .. } in asked.iter().filter(|it| it.ask.takes_away()) {
                // The replies to earlier calls may have come meanwhile.
                denied.borrow_mut().forget(key);
                // Not before the call has ended: a node that reads the mark earlier could read
                // the old state again.
                node.invalidations.announce(key);
            }
        });
    }

    /// Sends all renewals and reports that are due.
    pub(super) fn run_background(self: &Rc<Self>, encoder: &Rc<Encoder>, now: Timestamp) {
        let unneeded = self.in_flight.borrow_mut().unneeded(now);
        for Renewal { key, algorithm, units, .. } in unneeded {
            let ask = Ask::Give { cost: units, taken: now };
            let asked = Asked { key, algorithm: &algorithm, ask, binding: false };
            let destination = self.destination(encoder, &key);
            self.post(encoder, destination, &[asked], now);
        }
        let renewals = self.in_flight.borrow_mut().due(now);
        for Renewal { key, algorithm, units, asked } in renewals {
            let ask = Ask::Renew { units, asked };
            let call = self.call_one(encoder, key, &algorithm, ask, now);
            let store = Rc::clone(self);
            self.background.begin(async move {
                let asked = [Asked { key, algorithm: &algorithm, ask, binding: false }];
                let answer = call.await;
                let mut held = store.in_flight.borrow_mut();
                match answer.map(|answer| store.node.decode(&asked, &answer)) {
                    Ok(Ok(it)) => {
                        held.hear(key, &algorithm, it.replies[0].verdict.remaining, now);
                    }
                    Ok(Err(_)) => {}
                    Err(_) => held.doubt(key, &algorithm),
                }
            });
        }
        let store_now = self.store_time(now);
        self.report_due(encoder, self.node.local.due(store_now), store_now);
        self.report_debts(encoder, now).into_iter().for_each(|debt| self.background.begin(debt));
        self.send_refunds(encoder, now).into_iter().for_each(|it| self.background.begin(it));
    }

    /// The tasks that report debts to servers that are back. A debt is kept until its outcome
    /// is known.
    fn report_debts(
        &self,
        encoder: &Encoder,
        now: Timestamp,
    ) -> Vec<impl Future<Output = ()> + 'static> {
        let store_now = self.store_time(now);
        let status = |key: &Key| self.server_status(encoder, key);
        let debts = self.node.fallback.owed(MAX_DEBTS, store_now, status);
        self.reports(encoder, debts, now)
    }

    /// Reports the debts of these counters, before the store is asked about them: its replies must
    /// include what this node has admitted.
    pub(super) fn report_debts_of<'k>(
        &self,
        encoder: &Encoder,
        keys: impl IntoIterator<Item = &'k Key>,
        now: Timestamp,
    ) {
        if self.node.fallback.counters_with_debts() == 0 {
            return;
        }
        let keys =
            keys.into_iter().filter(|key| self.server_status(encoder, key) != ServerStatus::Down);
        let debts = self.node.fallback.owed_of(keys, self.store_time(now));
        for report in self.reports(encoder, debts, now) {
            self.background.begin(report);
        }
    }

    fn server_status(&self, encoder: &Encoder, key: &Key) -> ServerStatus {
        let destination = self.destination(encoder, key);
        match self.servers.position(destination) {
            Some(Position::Closed) => ServerStatus::Up,
            Some(Position::HalfOpen) => ServerStatus::Probing,
            Some(Position::Open) | None => ServerStatus::Down,
        }
    }

    fn reports(
        &self,
        encoder: &Encoder,
        debts: Vec<Debt>,
        now: Timestamp,
    ) -> Vec<impl Future<Output = ()> + 'static> {
        let tell = |mut debt: Debt| {
            let ask = Ask::Charge(debt.units);
            let call = self.call_one(encoder, debt.key, &debt.algorithm, ask, now);
            let node = Arc::clone(&self.node);
            let clock = self.clock.clone();
            async move {
                let reply = call.final_reply(|| node.fallback.overdue(&mut debt)).await;
                node.debt_reported(debt, ask, reply, &clock);
            }
        };
        debts.into_iter().map(tell).collect()
    }

    fn call_one(
        &self,
        encoder: &Encoder,
        key: Key,
        algorithm: &Algorithm,
        ask: Ask,
        now: Timestamp,
    ) -> Call {
        let destination = self.destination(encoder, &key);
        let asked = [Asked { key, algorithm, ask, binding: false }];
        let encoded = self.node.encode(encoder, &asked, self.store_time(now));
        self.servers.call(destination, encoded, Repeat::Never)
    }

    /// Returns unspent units of leases, and reports the units that this node has counted.
    pub(super) fn report_due(&self, encoder: &Rc<Encoder>, due: Due, store_now: Timestamp) {
        for Return { key, algorithm, units, taken } in due.returns {
            let ask = Ask::Give { cost: units, taken };
            let destination = self.destination(encoder, &key);
            let asked = Asked { key, algorithm: &algorithm, ask, binding: false };
            self.post(encoder, destination, &[asked], self.clock.now());
        }
        self.report_debts_of(encoder, due.deltas.iter().map(|it| &it.key), self.clock.now());
        for delta in due.deltas {
            self.background.begin(self.report_delta(encoder, delta, store_now));
        }
    }

    fn report_delta(
        &self,
        encoder: &Rc<Encoder>,
        delta: Delta,
        store_now: Timestamp,
    ) -> impl Future<Output = ()> + 'static {
        let servers = Rc::clone(&self.servers);
        let node = Arc::clone(&self.node);
        let encoder = Rc::clone(encoder);
        async move {
            let ask = match (delta.units, delta.is_settlement) {
                (0, _) => Ask::Peek,
                (units, true) => Ask::Charge(units),
                // The store counts as many units as fit.
                (extra, false) => {
                    let ahead = Ahead { extra, reserve: 0, share_1024: 1024 };
                    Ask::Lease { cost: 0, ahead }
                }
            };
            let algorithm = delta.algorithm.clone();
            let asked = [Asked { key: delta.key, algorithm: &algorithm, ask, binding: false }];
            let destination = servers.destination(&encoder.layout().key(delta.key.principal));
            let encoded = node.encode(&encoder, &asked, store_now);
            let mut call = servers.call(destination, encoded, Repeat::Never);
            let answer = (&mut call).await;
            let Some(delta) = node.settle_delta(delta, answer, &asked, store_now) else { return };
            let Some(late) = call.give_up() else { return };
            if let Some(answer) = late.await {
                drop(node.settle_delta(delta, answer, &asked, store_now));
            }
        }
    }

    /// Sends all reports before this worker ends: unspent units of leases, units that this
    /// node has counted, debts, and the release of all units in flight. Returns when the store
    /// has replied or cannot be reached.
    pub async fn close(self: &Rc<Self>, now: Timestamp) {
        if let Some(encoder) = self.encoder() {
            self.report_rest(&encoder, now).await;
        }
        // Each call waits for its reply for one timeout at most. In a cluster it may be
        // redirected once.
        self.background.end(self.node.settings.timeout * 2).await;
        let NodeState { invalidations, settings, .. } = &*self.node;
        if invalidations.are_due() {
            // If the store cannot be reached, old states are used for a limited time only.
            drop(exchange(invalidations, &self.servers, &settings.prefix, &self.clock).await);
        }
    }

    async fn report_rest(self: &Rc<Self>, encoder: &Rc<Encoder>, now: Timestamp) {
        let store_now = self.store_time(now);
        let Due { returns, deltas } = self.node.local.close(store_now);
        let give = async |back: &Return| {
            let asked = Ask::Give { cost: back.units, taken: back.taken };
            let call = self.call_one(encoder, back.key, &back.algorithm, asked, now);
            let refund = Refund::of(back.key, &back.algorithm, asked);
            if let (Err(error), Some(refund)) = (call.await, refund) {
                self.node.refunds.failed(refund, &error, store_now);
            }
        };
        for some in returns.chunks(MAX_LAST) {
            join_all(some.iter().map(give)).await;
            some.iter().for_each(|back| self.node.invalidations.announce(&back.key));
        }
        let held = self.in_flight.borrow_mut().release();
        let release = |it: &Renewal| {
            let ask = Ask::Renew { units: it.units, asked: it.asked };
            self.call_one(encoder, it.key, &it.algorithm, ask, now)
        };
        join_all(held.iter().map(release)).await;
        // Late replies are not awaited.
        let patience = self.node.settings.timeout * 2;
        let node = &self.node;
        let owed = || node.fallback.counters_with_debts();
        send_all(patience, owed, || self.report_debts(encoder, now)).await;
        let waiting = || node.refunds.waiting();
        send_all(patience, waiting, || self.send_refunds(encoder, now)).await;
        let mut deltas = deltas.into_iter().peekable();
        while deltas.peek().is_some() {
            let some = deltas.by_ref().take(MAX_LAST);
            let reports = some.map(|delta| self.report_delta(encoder, delta, store_now));
            // A report without a reply in time is recorded as such.
            let _ = timeout(patience, join_all(reports)).await;
        }
    }
}

/// Makes the calls of `next` until it has no more, or some have no reply within `patience`, or no
/// fewer are waiting afterwards: a server that refuses each call would be asked for ever.
async fn send_all<Call: Future<Output = ()>>(
    patience: Duration,
    waiting: impl Fn() -> usize,
    next: impl Fn() -> Vec<Call>,
) {
    loop {
        let before = waiting();
        let calls = next();
        let is_last = calls.is_empty();
        if is_last || timeout(patience, join_all(calls)).await.is_err() || waiting() >= before {
            return;
        }
    }
}

impl NodeState {
    /// Tells how units have changed a counter. Records the end of a ban that this node has imposed:
    /// another node may have imposed it a moment before.
    fn charged(&self, charge: &Charge<'_>, ask: Ask, told: Option<Told>, answer: &[u8]) {
        let Charge { key, algorithm, .. } = *charge;
        let is_ban = matches!(algorithm, Algorithm::Ban(_));
        if !is_ban && told.is_none() {
            return;
        }
        let asked = [Asked { key, algorithm, ask, binding: false }];
        let Ok(answered) = self.decode(&asked, answer) else { return };
        if let Some(told) = told {
            told(answered.moved(&asked[0], 0));
        }
        if is_ban {
            let state = answered.after(&asked[0], 0);
            self.local.learn_reply(charge, ask, state.as_ref(), false, false, answered.at);
        }
    }

    /// Records the outcome of a debt. If it is not known, the debt is not reported again: to
    /// count it twice would harm the client for longer.
    fn debt_reported(&self, debt: Debt, ask: Ask, answer: Reply, clock: &Clock) {
        let asked = [Asked { key: debt.key, algorithm: &debt.algorithm, ask, binding: false }];
        let answered = answer.and_then(|answer| self.decode(&asked, &answer));
        let fallback = &self.fallback;
        match answered {
            Ok(answered) => {
                let state = answered.after(&asked[0], 0);
                fallback.learn(debt.key, &debt.algorithm, state, true, answered.at);
                fallback.settled(debt);
            }
            Err(error) if error.may_have_counted() => fallback.unknown(debt),
            Err(_) => fallback.not_counted(debt, self.local.store_time(clock.now())),
        }
    }

    /// The accounts learn the states after units were given back. The reply to an earlier call
    /// may have come meanwhile, with a state that still has these units.
    fn posted(&self, asked: &[Asked<'_>], answer: &[u8]) -> Result<(), StoreError> {
        let answered = self.decode(asked, answer)?;
        for (position, asked) in asked.iter().enumerate().filter(|(_, it)| it.ask.takes_away()) {
            self.local.returned(&asked.key, answered.after(asked, position), answered.at);
        }
        Ok(())
    }

    /// Keeps the units that the store has certainly not given back, until it is back.
    fn post_failed(&self, asked: &[Asked<'_>], error: &StoreError, clock: &Clock) {
        let now = self.local.store_time(clock.now());
        let refunds = asked.iter().filter_map(|it| Refund::of(it.key, it.algorithm, it.ask));
        refunds.for_each(|refund| self.refunds.failed(refund, error, now));
    }

    /// Records the outcome of a delta in the ledger. A delta in doubt is returned, because a
    /// late reply may still tell its outcome.
    fn settle_delta(
        &self,
        delta: Delta,
        answer: Reply,
        asked: &[Asked<'_>],
        store_now: Timestamp,
    ) -> Option<Delta> {
        let answered = answer.and_then(|answer| self.decode(asked, &answer));
        let outcome = match &answered {
            Ok(it) => ReportOutcome::Counted(it.replies[0].before.as_ref(), it.at),
            Err(error) if error.may_have_counted() => ReportOutcome::Unknown,
            Err(_) => ReportOutcome::NotCounted,
        };
        self.local.reported(delta, outcome, store_now)
    }
}

#[cfg(test)]
mod tests;

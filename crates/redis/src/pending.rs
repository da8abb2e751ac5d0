//! A decision whose calls to one or several servers are under way.
//!
//! A server may count a call as soon as it is sent. So if the client disconnects, the
//! decision continues in the background: its replies are processed as usual, and then the
//! units that the request would hold in flight are given back. Units of windows and buckets
//! stay counted, as for a client that disconnects a moment later.

use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use smallvec::SmallVec;
use tollgate_core::algorithm::{Algorithm, Op};
use tollgate_core::consistency::{Consistency, OnFailure};
use tollgate_core::digest::Key;
use tollgate_core::store::{Charge, Correction, Decided};
use tollgate_core::time::Timestamp;

use super::batch::Repeat;
use super::codec::Encoder;
use super::fan_out::{self, Part, PartResult};
use super::server::Call;
use super::{RedisStore, StoreError};
use crate::shared::in_flight::is_in_flight;
use crate::shared::local_plan::Plan;

/// A pending decision. If it is dropped after a call was sent, it continues in the
/// background.
pub(super) struct PendingDecision<'q> {
    pub(super) store: &'q Rc<RedisStore>,
    pub(super) encoder: &'q Rc<Encoder>,
    /// All charges of the request.
    pub(super) charges: &'q [Charge<'q>],
    /// The plan of the charges, and when it was made. None: the store decides all of them.
    pub(super) plan: Option<(&'q Plan, Timestamp)>,
    pub(super) now: Timestamp,
    pub(super) calls: Calls,
}

/// One call for each part.
#[derive(Default)]
pub(super) struct Calls {
    /// The calls that have no result yet.
    calls: SmallVec<[Option<Call>; 1]>,
    /// One result for each part, which holds when its call has ended. They stay in their place,
    /// because they are large.
    results: SmallVec<[PartResult; 1]>,
}

impl Calls {
    /// Sends the calls of all parts.
    pub(super) fn send(
        store: &RedisStore,
        encoder: &Encoder,
        remote: &[Charge<'_>],
        parts: &[Part<'_>],
        (now, deadline): (Timestamp, Instant),
    ) -> Self {
        store.report_debts_of(encoder, remote.iter().map(|it| &it.key), now);
        let store_now = store.store_time(now);
        let ask = |part: &Part<'_>| {
            // A policy that fails closed accepts that a repeated call may count twice.
            let fails_closed = |index: &usize| {
                let Charge { binding, consistency, .. } = &remote[*index];
                *binding && consistency.on_failure == OnFailure::Deny
            };
            let repeat = match part.indices.iter().any(fails_closed) {
                true => Repeat::IfLost,
                false => Repeat::Never,
            };
            let encoded = store.node.encode(encoder, &part.asked, store_now);
            Some(store.servers.call_by(part.destination, encoded, (repeat, deadline)))
        };
        let results = parts.iter().map(|_| PartResult::default()).collect();
        Self { calls: parts.iter().map(ask).collect(), results }
    }

    /// Whether any server may have received a call.
    fn is_sent(&self) -> bool {
        let is_sent = |call: &Option<Call>| call.as_ref().is_none_or(|it| it.times_sent() > 0);
        self.calls.iter().any(is_sent)
    }

    /// Returns the results of all parts when each has one.
    pub(super) async fn results(
        &mut self,
        store: &RedisStore,
        parts: &[Part<'_>],
        now: Timestamp,
    ) -> &mut [PartResult] {
        poll_fn(|cx| {
            let calls = self.calls.iter_mut().zip(&mut self.results).zip(parts);
            for ((step, result), part) in calls {
                let Some(call) = step else { continue };
                if let Poll::Ready(answer) = Pin::new(&mut *call).poll(cx) {
                    let was_repeated = call.times_sent() > 1;
                    result.reply = answer.and_then(|answer| store.read_reply(part, &answer, now));
                    let is_lost = result.reply.as_ref().is_err_and(|it| it.may_have_counted());
                    result.is_doubtful = is_lost || was_repeated;
                    let is_late = matches!(result.reply, Err(StoreError::Timeout));
                    result.late = step.take().filter(|_| is_late).and_then(Call::give_up);
                }
            }
            match self.calls.iter().all(Option::is_none) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        // They have ended, so dropping the decision does not continue them.
        self.calls.clear();
        &mut self.results
    }
}

impl Drop for PendingDecision<'_> {
    fn drop(&mut self) {
        if self.calls.is_sent() {
            let abandoned = Abandoned {
                store: Rc::clone(self.store),
                encoder: Rc::clone(self.encoder),
                charges: self.charges.iter().map(OwnedCharge::of).collect(),
                plan: self.plan.map(|(plan, store_now)| (plan.clone(), store_now)),
                now: self.now,
                calls: mem::take(&mut self.calls),
            };
            self.store.background.begin(abandoned.finish());
        } else if let Some((plan, store_now)) = self.plan {
            for (charge, planned) in self.charges.iter().zip(plan) {
                self.store.withdraw(self.encoder, charge, *planned, store_now);
            }
        }
    }
}

/// A decision whose client has disconnected.
struct Abandoned {
    store: Rc<RedisStore>,
    encoder: Rc<Encoder>,
    charges: Vec<OwnedCharge>,
    plan: Option<(Plan, Timestamp)>,
    now: Timestamp,
    calls: Calls,
}

/// A charge that owns its algorithm, so that it outlives the policies of its request.
pub(super) struct OwnedCharge {
    key: Key,
    algorithm: Algorithm,
    cost: u64,
    binding: bool,
    consistency: Consistency,
}

impl OwnedCharge {
    pub(super) fn of(charge: &Charge<'_>) -> Self {
        let Charge { key, algorithm, cost, binding, consistency } = *charge;
        Self { key, algorithm: algorithm.clone(), cost, binding, consistency }
    }

    pub(super) fn charge(&self) -> Charge<'_> {
        let Self { key, ref algorithm, cost, binding, consistency } = *self;
        Charge { key, algorithm, cost, binding, consistency }
    }
}

impl Abandoned {
    async fn finish(self) {
        let Self { store, encoder, charges, plan, now, mut calls } = self;
        let charges: SmallVec<[Charge<'_>; 4]> = charges.iter().map(OwnedCharge::charge).collect();
        let planned: SmallVec<[Charge<'_>; 4]>;
        let remote = match &plan {
            None => &charges[..],
            Some((plan, _)) => {
                planned = fan_out::remote(&charges, plan);
                &planned
            }
        };
        let asks = fan_out::asks(remote, plan.as_ref().map(|(plan, _)| plan));
        let parts = Part::split(remote, asks, |charge| store.destination(&encoder, charge));
        let asked = store.collect(&encoder, remote, &parts, &mut calls, now).await;
        let decided = match &plan {
            None => asked,
            Some((plan, store_now)) => {
                store.combine(&encoder, &charges, (plan, *store_now), remote, Some(asked))
            }
        };
        store.release(&charges, &decided);
    }
}

impl RedisStore {
    /// Gives back the units in flight of a request whose client has disconnected.
    fn release(&self, charges: &[Charge<'_>], decided: &Decided) {
        if fan_out::refuses(charges, &decided.answers) {
            return;
        }
        let held = charges.iter().zip(&decided.answers);
        let held = held.filter(|(charge, it)| is_in_flight(charge) && it.verdict.admitted);
        let corrections: SmallVec<[Correction<'_>; 1]> = held
            .map(|(charge, answer)| {
                let op = Op::Give { cost: charge.cost, taken: decided.at };
                Correction { charge: *charge, source: answer.source, op }
            })
            .collect();
        self.correct(&corrections, self.clock.now());
    }
}

//! The decision on a request: the local plan, the calls to the store, and the fallback.

use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use smallvec::SmallVec;
use tollgate_core::algorithm::Verdict;
use tollgate_core::consistency::StoreMode;
use tollgate_core::digest::Key;
use tollgate_core::store::{Answer, Charge, Decided, Source};
use tollgate_core::time::Timestamp;

use super::codec::{Answered, Asked, Encoder};
use super::fan_out::{self, Part, PartResult};
use super::inquiries::Turn;
use super::pending::{Calls, PendingDecision};
use super::server::Destination;
use super::{RedisStore, StoreError};
use crate::shared::ask::Ask;
use crate::shared::deny::FRESH_FOR;
use crate::shared::fallback::{Fallback, Undecided};
use crate::shared::in_flight::{InFlight, is_in_flight};
use crate::shared::invalidation::MAX_AGE;
use crate::shared::local_plan::{Plan, Planned};
use crate::shared::store_clock::StoreClock;
use crate::shared::{Known, Trust};

impl RedisStore {
    /// See [`StoreRef::apply_by`](tollgate_core::store::StoreRef::apply_by).
    pub fn apply<'a>(
        self: &'a Rc<Self>,
        charges: &'a [Charge<'a>],
        now: Timestamp,
        deadline: Instant,
    ) -> LocalBoxFuture<'a, Decided> {
        match charges.iter().all(|charge| charge.consistency.mode == StoreMode::Exact) {
            true => self.apply_exact(charges, now, deadline).boxed_local(),
            false => self.apply_planned(charges, now, deadline).boxed_local(),
        }
    }

    /// Asks the store for all charges.
    async fn apply_exact(
        self: &Rc<Self>,
        charges: &[Charge<'_>],
        now: Timestamp,
        deadline: Instant,
    ) -> Decided {
        let Some(encoder) = self.encoder() else { return self.judge_without_store(charges, now) };
        self.ask_store(&encoder, (charges, None), charges, (now, deadline)).await
    }

    /// Asks the store for the charges that this node cannot decide. The futures that ask are boxed,
    /// so that a decision without a call stays small.
    async fn apply_planned(
        self: &Rc<Self>,
        charges: &[Charge<'_>],
        now: Timestamp,
        deadline: Instant,
    ) -> Decided {
        let Some(encoder) = self.encoder() else { return self.judge_without_store(charges, now) };
        let store_now = self.store_time(now);
        let is_up = self.servers.is_up();
        let moment = (store_now, self.store_slack(now));
        let plan = self.node.local.plan(charges, (self.nodes(), is_up), moment);
        let stopped =
            charges.iter().zip(&plan).any(|(it, planned)| it.binding && planned.refuses());
        let remote = match stopped {
            true => SmallVec::new(),
            false => fan_out::remote(charges, &plan),
        };
        let asked = match remote.is_empty() {
            true => None,
            false => {
                // The store must know what this node has counted before it decides.
                let due = self.node.local.due_of(remote.iter(), store_now);
                self.report_due(&encoder, due, store_now);
                let request = (charges, Some((&plan, store_now)));
                Some(Box::pin(self.ask_store(&encoder, request, &remote, (now, deadline))).await)
            }
        };
        let planned = (&plan, asked.is_some());
        let mut decided = self.combine(&encoder, charges, (&plan, store_now), &remote, asked);
        if fan_out::refuses(charges, &decided.answers) {
            Box::pin(self.complete(&encoder, charges, planned, &mut decided, deadline)).await;
        }
        decided
    }

    /// Combines the local plan and the answers of the store into one decision.
    pub(super) fn combine(
        &self,
        encoder: &Rc<Encoder>,
        charges: &[Charge<'_>],
        (plan, store_now): (&Plan, Timestamp),
        remote: &[Charge<'_>],
        asked: Option<Decided>,
    ) -> Decided {
        let said = asked.as_ref().map_or(&[][..], |asked| &asked.answers);
        let refused = charges.iter().zip(plan).any(|(it, planned)| it.binding && planned.refuses())
            || fan_out::refuses(remote, said);
        let mut said = said.iter();
        let answer = |(charge, planned): (&Charge<'_>, &Planned)| {
            let decided = match refused {
                true => self.withdraw(encoder, charge, *planned, store_now),
                false => self.node.local.conclude(charge, *planned),
            };
            decided.unwrap_or_else(|| {
                said.next().copied().unwrap_or_else(|| Answer::unasked(charge, store_now))
            })
        };
        let answers: SmallVec<[Answer; 4]> = charges.iter().zip(plan).map(answer).collect();
        if !refused {
            self.node.local.foresee(charges, &answers, store_now);
        }
        self.report_due(encoder, self.node.local.due_of(charges.iter(), store_now), store_now);
        Decided { at: asked.map_or(store_now, |asked| asked.at), answers }
    }

    /// Withdraws the planned charge of a request that is refused or was dropped.
    pub(super) fn withdraw(
        &self,
        encoder: &Encoder,
        charge: &Charge<'_>,
        planned: Planned,
        store_now: Timestamp,
    ) -> Option<Answer> {
        let (answer, op) = self.node.local.withdraw(charge, planned, store_now);
        if let Some(asked) = op.and_then(|op| Asked::correction(charge.key, charge.algorithm, op)) {
            self.post(encoder, self.destination(encoder, charge), &[asked], self.clock.now());
        }
        answer
    }

    /// Decides while the layout of the keys in Redis is not known.
    fn judge_without_store(&self, charges: &[Charge<'_>], now: Timestamp) -> Decided {
        let undecided: SmallVec<[Undecided<'_>; 4]> =
            charges.iter().map(|&charge| Undecided::without_store(charge)).collect();
        let (nodes, store_now) = (self.nodes(), self.store_time(now));
        Decided {
            at: store_now,
            answers: self.node.fallback.judge(&undecided, false, nodes, store_now),
        }
    }

    /// Asks the store for the `remote` charges of a request, by the deadline. The answer is
    /// all or nothing, also over several destinations. If the future is dropped, the calls
    /// that were sent are still settled.
    pub(super) async fn ask_store(
        self: &Rc<Self>,
        encoder: &Rc<Encoder>,
        (charges, plan): (&[Charge<'_>], Option<(&Plan, Timestamp)>),
        remote: &[Charge<'_>],
        (now, deadline): (Timestamp, Instant),
    ) -> Decided {
        if let Some(decided) = self.spend_kept(remote, now) {
            return decided;
        }
        let mut pending =
            PendingDecision { store: self, encoder, charges, plan, now, calls: Calls::default() };
        let known = self.known(remote, now);
        let turn = match known {
            Known::Stale(key) => Some(self.inquiries.begin(key)),
            _ => None,
        };
        let known = match turn {
            Some(Turn::Wait(reply)) => {
                reply.by(deadline).await;
                pending.now = self.clock.now();
                self.known(remote, pending.now)
            }
            _ => known,
        };
        let decided = match known {
            Known::Refused(answers) => Decided { at: self.store_time(pending.now), answers },
            _ => {
                let asks = fan_out::asks(remote, plan.map(|(plan, _)| plan));
                return self.call(&mut pending, remote, asks, deadline).await;
            }
        };
        pending.plan = None;
        decided
    }

    /// See [`StoreRef::count_by`](tollgate_core::store::StoreRef::count_by), for counters of the store
    /// alone.
    pub async fn count(
        self: &Rc<Self>,
        charges: &[Charge<'_>],
        now: Timestamp,
        deadline: Instant,
    ) -> Decided {
        let Some(encoder) = self.encoder() else { return self.judge_without_store(charges, now) };
        let asks = charges.iter().map(|charge| Ask::Count(charge.cost));
        let mut pending = PendingDecision {
            store: self,
            encoder: &encoder,
            charges,
            plan: None,
            now,
            calls: Calls::default(),
        };
        self.call(&mut pending, charges, asks, deadline).await
    }

    /// Sends these operations for the `remote` charges of a request.
    async fn call(
        self: &Rc<Self>,
        pending: &mut PendingDecision<'_>,
        remote: &[Charge<'_>],
        asks: impl Iterator<Item = Ask>,
        deadline: Instant,
    ) -> Decided {
        let (encoder, now) = (pending.encoder, pending.now);
        let parts = Part::split(remote, asks, |charge| self.destination(encoder, charge));
        pending.calls = Calls::send(self, encoder, remote, &parts, (now, deadline));
        let decided = self.collect(encoder, remote, &parts, &mut pending.calls, now).await;
        // The decision is made, so dropping the future must not withdraw the plan.
        pending.plan = None;
        decided
    }

    /// Returns the decision when each call has an answer or has failed.
    pub(super) async fn collect(
        self: &Rc<Self>,
        encoder: &Rc<Encoder>,
        remote: &[Charge<'_>],
        parts: &[Part<'_>],
        calls: &mut Calls,
        now: Timestamp,
    ) -> Decided {
        let awaited = InFlight::ask(&self.in_flight, remote.iter());
        let results = calls.results(self, parts, now).await;
        for (part, _) in parts.iter().zip(&*results).filter(|(_, result)| result.is_doubtful) {
            self.doubt(remote, part);
        }
        let decided = self.settle(encoder, remote, parts, results, now);
        drop(awaited);
        for (part, result) in parts.iter().zip(results) {
            if let Some(late) = result.late.take() {
                self.await_late(encoder, remote, (part, late), &decided, now);
            }
        }
        decided
    }

    pub(super) fn destination(&self, encoder: &Encoder, charge: &Charge<'_>) -> Destination {
        self.servers.destination(&encoder.layout().key(charge.key.principal))
    }

    /// Decides by kept units in flight, if they cover all charges.
    fn spend_kept(&self, remote: &[Charge<'_>], now: Timestamp) -> Option<Decided> {
        if !remote.iter().all(is_in_flight) || !self.servers.is_up() {
            return None;
        }
        let verdicts = self.in_flight.borrow_mut().spend(remote.iter(), now)?;
        let answers = verdicts.into_iter().map(Answer::of_store).collect();
        Some(Decided { at: self.store_time(now), answers })
    }

    /// What the deny cache knows of a request. While a server is away, its states are not
    /// asked for again.
    fn known(&self, remote: &[Charge<'_>], now: Timestamp) -> Known {
        let is_current = |key: &Key, asked| self.node.invalidations.is_current(key, asked, now);
        let fresh_for = if self.servers.is_up() { FRESH_FOR } else { MAX_AGE };
        self.denied.borrow().judge(remote, &Trust { now, fresh_for, is_current })
    }

    /// Decodes a reply, and updates the estimate of the store's clock.
    pub(super) fn read_reply(
        &self,
        part: &Part<'_>,
        answer: &Bytes,
        now: Timestamp,
    ) -> Result<Answered, StoreError> {
        let answered = (self.node.decode(&part.asked, answer))
            .inspect_err(|error| self.note_unreadable(part, error))?;
        let clock = StoreClock::new(answered.at, now, self.clock.now());
        self.servers.note_clock(part.destination, clock.offset_us());
        if self.last_clock.replace(Some(clock)).is_none() {
            let answered = clock.answered();
            self.node.local.set_clock(answered, clock.bounds(answered).0);
        }
        Ok(answered)
    }

    fn note_unreadable(&self, part: &Part<'_>, error: &StoreError) {
        if let (Some(encoder), Some(asked)) = (self.encoder(), part.asked.first()) {
            let key = encoder.layout().key(asked.key.principal);
            self.servers.note_call_error(part.destination, error, &key);
        }
    }

    /// Marks the units of a part whose reply is unknown: the store may count them.
    fn doubt(&self, remote: &[Charge<'_>], part: &Part<'_>) {
        let mut held = self.in_flight.borrow_mut();
        for charge in part.indices.iter().map(|&index| &remote[index]) {
            if is_in_flight(charge) {
                held.doubt(charge.key, charge.algorithm);
            }
            self.node.local.doubt_ask(charge);
        }
    }

    /// Makes one decision of the replies of all parts. The fallback decides the parts
    /// without a reply.
    fn settle(
        &self,
        encoder: &Encoder,
        remote: &[Charge<'_>],
        parts: &[Part<'_>],
        results: &mut [PartResult],
        now: Timestamp,
    ) -> Decided {
        let refused = results.iter().any(|it| it.reply.as_ref().is_ok_and(|it| it.refused));
        let undecided = fan_out::undecided(remote, parts, results);
        let local = if undecided.is_empty() {
            SmallVec::new()
        } else {
            let (nodes, store_now) = (self.nodes(), self.store_time(now));
            for Undecided { charge, .. } in &undecided {
                if let Some(state) = self.node.local.known(charge) {
                    let Charge { key, algorithm, .. } = *charge;
                    self.node.fallback.learn(key, algorithm, Some(state), true, store_now);
                }
            }
            self.node.fallback.judge(&undecided, refused, nodes, store_now)
        };
        let refused = refused || fan_out::refuses(undecided.iter().map(|it| &it.charge), &local);
        for (part, result) in parts.iter().zip(results.iter_mut()) {
            let Ok(answered) = &mut result.reply else { continue };
            if refused && !answered.refused {
                self.post(encoder, part.destination, &part.refund(answered), now);
                answered.withdraw(&part.asked);
            } else {
                self.note_leases(remote, part, answered);
            }
        }
        let answered = parts.iter().zip(&*results);
        let answered: SmallVec<[_; 1]> =
            answered.filter_map(|(part, it)| Some((part, it.reply.as_ref().ok()?))).collect();
        self.learn(remote, &answered, refused, now);
        let answers = fan_out::combine(remote.len(), parts, results, local);
        if !refused {
            self.hold(remote, &answers, now);
        }
        Decided { at: fan_out::decided_at(results, self.store_time(now)), answers }
    }

    /// Reports to this node's ledgers what was leased, counted or refused. The ledger of
    /// leases adds the units that it holds to its verdicts.
    fn note_leases(&self, remote: &[Charge<'_>], part: &Part<'_>, answered: &mut Answered) {
        let (refused, at) = (answered.refused, answered.at);
        let found = part.indices.iter().zip(&part.asked).zip(&answered.before);
        for (((&index, asked), before), reply) in found.zip(&mut answered.replies) {
            let (charge, admitted) = (&remote[index], reply.verdict.admitted);
            let became = (admitted && !refused, admitted && refused);
            let local = &self.node.local;
            if let Some(verdict) = local.learn_reply(charge, asked.ask, before.as_ref(), became, at)
            {
                reply.verdict = verdict;
            }
        }
    }

    /// Records the units that are in flight now.
    fn hold(&self, remote: &[Charge<'_>], answers: &[Answer], now: Timestamp) {
        let mut held = self.in_flight.borrow_mut();
        for (charge, answer) in remote.iter().zip(answers) {
            if answer.verdict.admitted && answer.source == Source::Store {
                held.take(charge, answer.verdict.remaining, now);
            }
        }
    }

    /// Records which clients are over a limit, and the states that bound what this node admits
    /// while the store is away. `replies` are those to calls that were made at `now` by this
    /// node's clock. If `refused` is set, the units that they admit are given back.
    pub(super) fn learn(
        &self,
        remote: &[Charge<'_>],
        replies: &[(&Part<'_>, &Answered)],
        refused: bool,
        now: Timestamp,
    ) {
        let (fallback, nodes) = (&self.node.fallback, self.nodes());
        let mut denied = self.denied.borrow_mut();
        let judged = || {
            let parts = replies.iter().copied();
            parts.flat_map(|(part, answered)| part.positions().map(move |it| (part, answered, it)))
        };
        let is_worth_it = judged().any(|(part, answered, (position, index))| {
            let Verdict { admitted, remaining, .. } = answered.replies[position].verdict;
            !admitted
                || remaining < remote[index].cost.max(1)
                || denied.knows(&part.asked[position].key)
        });
        let mut found = SmallVec::new();
        for (part, answered, (position, index)) in judged() {
            let charge = &remote[index];
            let Charge { key, algorithm, .. } = *charge;
            let remaining = answered.replies[position].verdict.remaining;
            let is_limit = Fallback::limits(algorithm, remaining, nodes);
            let is_learnt = is_limit || fallback.may_know(&key, answered.at);
            if !is_learnt && !is_worth_it {
                continue;
            }
            // Units are given back if another destination refuses.
            let state = match refused {
                true => answered.before[position].clone(),
                false => answered.after(&part.asked[position], position),
            };
            if is_worth_it {
                let clock = StoreClock::new(answered.at, now, self.clock.now());
                found.push((charge, state.clone(), clock));
            }
            match state {
                Some(state) if is_limit => {
                    fallback.note(key, algorithm, state, remaining, answered.at);
                }
                state if is_learnt => fallback.learn(key, algorithm, state, is_limit, answered.at),
                _ => {}
            }
        }
        if is_worth_it {
            denied.learn_all(found);
        }
    }

    /// Updates the known state of a counter that is reset, or whose units are given back.
    /// `store_now` is the store's time.
    pub(super) fn take_away(&self, asked: &Asked<'_>, store_now: Timestamp) {
        let Asked { key, algorithm, ask, .. } = *asked;
        self.denied.borrow_mut().forget(&key);
        self.node.fallback.take_away(key, algorithm, ask, store_now);
    }
}

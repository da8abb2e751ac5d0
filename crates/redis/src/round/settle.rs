//! One decision of the replies of all destinations.

use std::rc::Rc;

use smallvec::SmallVec;
use tollgate_core::store::{Answer, Charge, Source};

use super::{Heard, Round, Slot};
use crate::StoreError;
use crate::codec::CounterReply;
use crate::shared::deny::Observation;
use crate::shared::fallback::{Fallback, Undecided};
use crate::shared::in_flight::InFlight;
use crate::shared::store_clock::StoreClock;

impl Round<'_> {
    /// Answers the charges that were asked for when each call has a reply or has failed.
    pub(super) async fn collect(&mut self) {
        let store = Rc::clone(&self.store);
        let awaited = InFlight::ask(&store.in_flight, self.asked_charges());
        self.replies().await;
        // The calls have ended, so dropping the round does not continue them.
        self.is_open = false;
        for (part, _) in self.parts.iter().enumerate().filter(|(_, part)| part.is_doubtful) {
            self.doubt(part);
        }
        self.settle();
        drop(awaited);
        for part in 0..self.parts.len() {
            if let Some(late) = self.parts[part].late.take() {
                self.await_late(part, late);
            }
        }
    }

    /// Marks the units of a part whose reply is unknown: the store may count them.
    fn doubt(&self, part: usize) {
        for slot in self.slots_of(part) {
            let charge = slot.charge();
            if slot.is_in_flight() {
                self.store.in_flight.borrow_mut().doubt(charge.key, charge.algorithm);
            }
            self.store.node.local.doubt_ask(&charge);
        }
    }

    /// Makes one decision of the replies of all parts. The fallback decides the parts
    /// without a reply.
    fn settle(&mut self) {
        let refused = self.parts.iter().any(|part| part.heard().is_some_and(|it| it.refused));
        let refused = self.judge_alone(refused);
        for part in 0..self.parts.len() {
            let Some(heard) = self.parts[part].heard() else { continue };
            if refused && !heard.refused {
                self.give_back(part, heard);
            } else {
                self.note_leases(part, heard);
            }
        }
        self.learn(refused);
        // The clocks of servers differ, and so can the windows in which they count.
        let is_divided = self.parts.len() > 1;
        for slot in &mut self.slots {
            if let Some(reply) = &slot.reply {
                let part = slot.part.filter(|_| is_divided);
                let at = part.and_then(|part| Some(self.parts[part].heard()?.at));
                slot.answer = Some(Answer { at, ..Answer::of_store(reply.verdict) });
            }
        }
        if !refused {
            self.hold();
        }
        let times = self.parts.iter().filter_map(|part| Some(part.heard()?.at));
        self.at = times.max().unwrap_or_else(|| self.store_now());
    }

    /// Answers the charges whose part has no reply. Returns whether the request is refused.
    fn judge_alone(&mut self, refused: bool) -> bool {
        let error = |slot: &Slot<'_>| self.parts[slot.part?].heard.as_ref().err();
        let undecided = self.slots.iter().filter_map(|slot| {
            let error = error(slot)?;
            Some(Undecided {
                charge: slot.charge(),
                is_doubtful: error.may_have_counted(),
                is_overload: *error == StoreError::Overloaded,
            })
        });
        let undecided: SmallVec<[Undecided<'_>; 4]> = undecided.collect();
        if undecided.is_empty() {
            return refused;
        }
        let node = &self.store.node;
        let nodes = self.store.nodes();
        let store_now = self.store_now();
        for Undecided { charge, .. } in &undecided {
            if let Some(state) = node.local.known(charge) {
                let Charge { key, algorithm, .. } = *charge;
                node.fallback.learn(key, algorithm, Some(state), true, store_now);
            }
        }
        let answers = match self.slots.iter().any(Slot::counts_always) {
            true => node.fallback.count(&undecided, nodes, store_now),
            false => node.fallback.judge(&undecided, refused, nodes, store_now),
        };
        drop(undecided);
        let Self { slots, parts, .. } = self;
        let is_undecided =
            |slot: &&mut Slot<'_>| slot.part.is_some_and(|it| parts[it].heard.is_err());
        for (slot, answer) in slots.iter_mut().filter(is_undecided).zip(answers) {
            slot.answer = Some(answer);
        }
        refused || self.is_refused()
    }

    /// Gives back the units that one destination has counted, because another one refuses.
    fn give_back(&mut self, part: usize, Heard { at, .. }: Heard) {
        let refund: SmallVec<[_; 4]> =
            self.slots_of(part).filter_map(|slot| slot.refund(at)).collect();
        self.store.post(&self.encoder, self.parts[part].destination, &refund, self.now);
        drop(refund);
        for slot in self.slots.iter_mut().filter(|slot| slot.part == Some(part)) {
            if let Some(mut reply) = slot.reply.take() {
                reply.withdraw(&slot.asked(), at);
                slot.reply = Some(reply);
            }
        }
    }

    /// Reports to this node's ledgers what was leased, counted or refused. The ledger of
    /// leases adds the units that it holds to its verdicts.
    fn note_leases(&mut self, part: usize, Heard { at, refused }: Heard) {
        let local = &self.store.node.local;
        for slot in self.slots.iter_mut().filter(|slot| slot.part == Some(part)) {
            let Some(CounterReply { before, verdict, .. }) = &slot.reply else { continue };
            let is_counted = verdict.admitted && !refused;
            let is_stopped = verdict.admitted && refused;
            let before = before.as_ref();
            let charge = slot.charge();
            let learnt = local.learn_reply(&charge, slot.ask, before, is_counted, is_stopped, at);
            if let (Some(learnt), Some(reply)) = (learnt, &mut slot.reply) {
                reply.verdict = learnt;
            }
        }
    }

    /// Records the units that are in flight now.
    fn hold(&self) {
        let mut held = self.store.in_flight.borrow_mut();
        for slot in self.slots.iter().filter(|slot| slot.part.is_some()) {
            if let Some(Answer { verdict, source: Source::Store, .. }) = slot.answer
                && verdict.admitted
            {
                held.take(&slot.charge(), verdict.remaining, self.now);
            }
        }
    }

    /// Records which clients are over a limit, and the states that bound what this node admits
    /// while the store is away. If `refused` is set, the units that the replies admit are given
    /// back.
    pub(super) fn learn(&self, refused: bool) {
        let fallback = &self.store.node.fallback;
        let nodes = self.store.nodes();
        let mut denied = self.store.denied.borrow_mut();
        let replies = || {
            let heard = self.parts.iter().enumerate();
            let heard = heard.filter_map(|(part, it)| Some((part, it.heard()?)));
            heard.flat_map(|(part, heard)| {
                let slots = self.slots_of(part);
                slots.filter_map(move |slot| Some((slot, slot.reply.as_ref()?, heard)))
            })
        };
        let is_worth_it = replies().any(|(slot, reply, _)| {
            !reply.verdict.admitted
                || reply.verdict.remaining < slot.charge().cost.max(1)
                || denied.knows(slot.key())
        });
        let mut found = SmallVec::new();
        for (slot, reply, heard) in replies() {
            let at = heard.at;
            let charge = slot.charge();
            let Charge { key, algorithm, .. } = charge;
            let remaining = reply.verdict.remaining;
            let is_limit = Fallback::limits(algorithm, remaining, nodes);
            let is_learnt = is_limit || fallback.may_know(&key, at);
            if !is_learnt && !is_worth_it {
                continue;
            }
            // Units are given back if another destination refuses.
            let state = match refused {
                true => reply.before.clone(),
                false => reply.after(&slot.asked(), heard.refused, at),
            };
            if is_worth_it {
                let clock = StoreClock::new(at, self.now, self.store.clock.now());
                found.push(Observation { charge, state: state.clone(), clock });
            }
            match state {
                Some(state) if is_limit => fallback.note(key, algorithm, state, remaining, at),
                state if is_learnt => fallback.learn(key, algorithm, state, is_limit, at),
                _ => {}
            }
        }
        if is_worth_it {
            denied.learn_all(found);
        }
    }
}

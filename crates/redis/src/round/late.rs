//! Late replies: replies that come after this node has decided their requests itself.
//!
//! If the store does not reply in time, this node decides the request. The late reply says
//! what the store has done, and corrects the counters:
//!
//! | store | this node | correction |
//! |---|---|---|
//! | admitted | admitted | the charge is removed from this node's share, so it counts once |
//! | admitted | refused | the units are given back to the store |
//! | refused | admitted | the units are charged in the store, or become a debt |
//! | refused | refused | none: nothing was counted |
//!
//! A charge that counts whether it fits or not is one that both have admitted.
//!
//! What the response has given back before the late reply is given back with the correction. A charge
//! that the store has counted belongs to the store from then on; see [`late_charges`].
//!
//! The states in the reply are recorded in any case. If no reply comes, for example because
//! the connection has closed, it stays unknown what was counted. Then the request is not
//! charged again.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::store::Charge;
use tollgate_core::time::Timestamp;

use super::{Heard, Part, Round, Slot};
use crate::StoreError;
use crate::codec::Asked;
use crate::deadline::LateReply;
use crate::shared::late_charges::{LateOutcome, Refunds};
use crate::shared::{fallback, late_charges};

/// The part of a request at one destination whose reply is late. It is a round with one part.
struct Overdue {
    round: Round<'static>,
    /// Whether the request was admitted.
    is_admitted: bool,
    /// The time of the decision, by which the end of the response names its units.
    taken: Timestamp,
    /// When this node decided the part, by the store's clock.
    judged: Timestamp,
}

impl Round<'_> {
    /// Waits in the background for the late reply to `part`, without which the request was
    /// decided.
    pub(super) fn await_late(&self, part: usize, reply: LateReply) {
        let slots = self.slots_of(part).map(|slot| {
            let mut slot = slot.clone().into_owned();
            slot.part = Some(0);
            slot
        });
        let round = Round {
            store: Rc::clone(&self.store),
            encoder: Rc::clone(&self.encoder),
            slots: slots.collect(),
            parts: smallvec![Part::new(self.parts[part].destination)],
            now: self.now,
            planned_at: None,
            at: self.at,
            is_asked: true,
            is_open: false,
        };
        round.asked_charges().for_each(|charge| self.store.node.local.ask(&charge));
        let is_admitted = !self.is_refused();
        let overdue = Overdue { round, is_admitted, taken: self.at, judged: self.store_now() };
        for (_, charge) in overdue.counted_locally() {
            self.store.node.late_charges.lock().begin(charge.key, overdue.taken);
        }
        self.store.background.begin(overdue.settle(reply));
    }
}

impl Overdue {
    async fn settle(mut self, reply: LateReply) {
        let reply = reply.await;
        let round = &mut self.round;
        let heard = reply.map(|reply| -> Result<Heard, StoreError> {
            let answered = round.store.node.decode(&round.asked(0), &reply?)?;
            Ok(round.hear(0, answered))
        });
        let is_known = matches!(heard, Some(Ok(_)));
        match heard {
            Some(Ok(heard)) => self.counted(heard),
            Some(Err(error)) if !error.may_have_counted() => self.not_counted(),
            _ => self.counted_locally().for_each(|(_, charge)| {
                self.end(&charge, LateOutcome::Uncounted);
            }),
        }
        let local = &self.round.store.node.local;
        for charge in self.round.asked_charges() {
            if !is_known {
                local.doubt_ask(&charge);
            }
            local.end_ask(&charge);
        }
    }

    /// The charges that this node has counted in its shares and the store must count.
    fn counted_locally(&self) -> impl Iterator<Item = (&Slot<'static>, Charge<'_>)> {
        let slots = self.round.slots.iter();
        let counted = slots.filter(|slot| self.is_admitted && slot.is_counted_locally());
        let charges = counted.map(|slot| (slot, slot.charge()));
        charges.filter(|(_, charge)| fallback::consumes(charge.algorithm))
    }

    /// The store has certainly not counted the part.
    fn not_counted(&self) {
        let store = &self.round.store;
        let fallback = &store.node.fallback;
        let store_now = store.store_time(store.clock.now());
        for (_, charge) in self.counted_locally() {
            let units = self.left(&charge, LateOutcome::Uncounted);
            let since = fallback.since(&charge, store.nodes(), store_now);
            fallback.owe(&charge, units, since, store_now);
        }
    }

    /// The units of a charge that the store has not counted, without those that were given back.
    fn left(&self, charge: &Charge<'_>, outcome: LateOutcome) -> u64 {
        charge.cost.saturating_sub(late_charges::units(&self.end(charge, outcome)))
    }

    /// See [`LateCharges::end`](late_charges::LateCharges::end).
    fn end(&self, charge: &Charge<'_>, outcome: LateOutcome) -> Refunds {
        self.round.store.node.late_charges.lock().end(charge.key, self.taken, outcome)
    }

    /// The store has decided the part.
    fn counted(&mut self, heard: Heard) {
        let Heard { at, refused } = heard;
        let store = Rc::clone(&self.round.store);
        let now = store.clock.now();
        let store_now = store.store_time(now);
        self.round.parts[0].heard = Ok(heard);
        let round = &self.round;
        let post = |asked: SmallVec<[Asked<'_>; 4]>| {
            store.post(&round.encoder, round.parts[0].destination, &asked, now);
        };
        if !refused && !self.is_admitted {
            let refund = round.slots.iter().filter_map(|slot| slot.refund(at));
            let is_kept = |it: &Asked<'_>| !matches!(it.algorithm, Algorithm::Concurrency(_));
            return post(refund.filter(is_kept).collect());
        }
        round.learn(refused);
        for (slot, charge) in self.counted_locally() {
            // A charge that does not bind may be refused in a request that is admitted.
            if refused || !slot.is_counted_by_store() {
                match self.left(&charge, LateOutcome::Refused(at)) {
                    0 => {}
                    units => store.charge_in_store(&round.encoder, &charge, units, now, None, true),
                }
                continue;
            }
            let refunds = self.end(&charge, LateOutcome::Counted(at));
            let cost = charge.cost.saturating_sub(late_charges::units(&refunds));
            let in_share = Charge { cost, ..charge };
            let fallback = &store.node.fallback;
            fallback.counted_by_store(&in_share, self.judged, store.nodes(), store_now);
            for op in refunds {
                store.correct_in_store(&charge, op, now, None);
            }
        }
        post(round.slots.iter().filter_map(|slot| slot.unspent(at)).collect());
    }
}

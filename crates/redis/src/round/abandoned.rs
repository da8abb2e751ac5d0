//! A round whose client has disconnected.
//!
//! If a call was sent, the round continues in the background: its replies are processed as usual,
//! and then the units that the request would hold in flight are given back. Units of windows and
//! buckets stay counted, as for a client that disconnects a moment later.

use std::mem;
use std::rc::Rc;

use tollgate_core::algorithm::Op;
use tollgate_core::store::Correction;

use super::{Round, Slot};

impl Drop for Round<'_> {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        if self.is_sent() {
            let round = self.take();
            self.store.background.begin(round.finish());
        } else if let Some(store_now) = self.planned_at {
            for slot in &self.slots {
                self.withdraw(slot, store_now);
            }
        }
    }
}

impl Round<'_> {
    /// The round with all that it has, which can outlive the policies of its request.
    fn take(&mut self) -> Round<'static> {
        Round {
            store: Rc::clone(&self.store),
            encoder: Rc::clone(&self.encoder),
            slots: mem::take(&mut self.slots).into_iter().map(Slot::into_owned).collect(),
            parts: mem::take(&mut self.parts),
            now: self.now,
            planned_at: self.planned_at,
            at: self.at,
            is_asked: self.is_asked,
            // When a worker ends, its tasks are not continued.
            is_open: false,
        }
    }

    async fn finish(mut self) {
        self.collect().await;
        if let Some(store_now) = self.planned_at {
            self.combine(store_now);
        }
        if !self.is_refused() {
            self.release();
        }
    }

    /// Gives back the units that the request holds in flight.
    fn release(&self) {
        let now = self.store.clock.now();
        for slot in self.slots.iter().filter(|it| it.is_in_flight() && it.is_admitted()) {
            let Some(answer) = slot.answer else { continue };
            let charge = slot.charge();
            let op = Op::Give { cost: charge.cost, taken: self.at };
            self.store.correct(&[Correction { charge, source: answer.source, op }], now);
        }
    }
}

//! The calls of a round: one for each destination, all at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;

use super::{Heard, Round};
use crate::StoreError;
use crate::batch::Repeat;
use crate::server::Call;
use crate::shared::store_clock::StoreClock;

impl Round<'_> {
    /// Sends the calls of all parts.
    pub(super) fn send(&mut self, deadline: Instant) {
        let keys = self.slots.iter().filter(|it| it.part.is_some()).map(|it| it.key());
        self.store.report_debts_of(&self.encoder, keys, self.now);
        let store_now = self.store_now();
        for part in 0..self.parts.len() {
            let repeat = match self.slots_of(part).any(|slot| slot.fails_closed()) {
                true => Repeat::IfLost,
                false => Repeat::Never,
            };
            let encoded = self.store.node.encode(&self.encoder, &self.asked(part), store_now);
            let destination = self.parts[part].destination;
            let call = self.store.servers.call_by(destination, encoded, repeat, deadline);
            self.parts[part].call = Some(call);
        }
    }

    /// Whether any server may have received a call.
    pub(super) fn is_sent(&self) -> bool {
        let may_be_sent = |call: &Option<Call>| call.as_ref().is_none_or(|it| it.times_sent() > 0);
        self.parts.iter().any(|part| may_be_sent(&part.call))
    }

    /// Returns when each call has a reply or has failed.
    pub(super) async fn replies(&mut self) {
        poll_fn(|cx| {
            let mut is_over = true;
            for part in 0..self.parts.len() {
                let Some(call) = &mut self.parts[part].call else { continue };
                match Pin::new(call).poll(cx) {
                    Poll::Ready(answer) => self.end_call(part, answer),
                    Poll::Pending => is_over = false,
                }
            }
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Records how the call of a part has ended.
    fn end_call(&mut self, part: usize, answer: Result<Bytes, StoreError>) {
        let heard = answer.and_then(|answer| self.read(part, &answer));
        let part = &mut self.parts[part];
        let Some(call) = part.call.take() else { return };
        let is_lost = heard.as_ref().is_err_and(StoreError::may_have_counted);
        part.is_doubtful = is_lost || call.times_sent() > 1;
        if matches!(heard, Err(StoreError::Timeout)) {
            part.late = call.give_up();
        }
        part.heard = heard;
    }

    /// Decodes a reply, and updates the estimate of the store's clock.
    fn read(&mut self, part: usize, answer: &Bytes) -> Result<Heard, StoreError> {
        let destination = self.parts[part].destination;
        let answered = self.store.node.decode(&self.asked(part), answer).inspect_err(|error| {
            if let Some(slot) = self.slots_of(part).next() {
                let key = self.encoder.layout().key(slot.key().principal);
                self.store.servers.note_call_error(destination, error, &key);
            }
        })?;
        let clock = StoreClock::new(answered.at, self.now, self.store.clock.now());
        self.store.servers.note_clock(destination, clock.offset_us());
        self.store.last_clock.set(Some(clock));
        let here = clock.answered();
        self.store.node.local.set_clock(here, clock.bounds(here).0);
        Ok(self.hear(part, answered))
    }
}

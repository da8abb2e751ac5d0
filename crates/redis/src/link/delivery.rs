//! Sends batches and waits for their replies until the timeout.
//!
//! Late replies are still read, so that callers learn what was counted: for at most
//! [`LATE`], or until the connection closes. At most [`MAX_LATE`] batches wait for late
//! replies. The outcome of further batches stays unknown.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;
use tollgate_core::in_time::in_time;
use tollgate_core::time::monotonic;

use super::super::failure::StoreError;
use super::super::test_write::Found;
use super::exchange::{self, BatchResult, Manner};
use super::{Connection, Shared};

/// How long late replies are awaited. The connection stays open for this time, even if
/// calls already use another one.
const LATE: Duration = Duration::from_secs(30);
/// The maximum number of batches of one link that wait for late replies.
pub(super) const MAX_LATE: usize = 64;

impl Shared {
    /// Sends the next batch, if one may be sent now, and processes its replies.
    pub(super) async fn deliver(self: Rc<Self>) {
        let Some((connection, batch)) = self.state.borrow_mut().next_batch() else { return };
        let Connection { mut wire, number } = connection;
        self.pump();
        let started = monotonic();
        let calls = batch.len();
        let by_slot = self.state.borrow().found.has_slots;
        let time_us = self.state.borrow_mut().found.given_time_us();
        let understood = |error| self.understood(error);
        let in_cluster = self.is_in_cluster();
        let manner = Manner { by_slot, time_us, in_cluster };
        let mut exchange =
            pin!(exchange::run(&mut wire, self.transport, (batch, manner), understood));
        let finished = in_time(self.timeout, exchange.as_mut()).await;
        self.state.borrow_mut().calls.add(calls, monotonic().duration_since(started));
        match finished {
            Some(finished) => self.finished(finished, number),
            None => {
                let verdict = Err(StoreError::Timeout);
                self.finished(BatchResult::of(verdict), number);
                self.await_late_replies(exchange).await;
            }
        }
    }

    /// Records the result of a batch, and sends the next one.
    fn finished(self: &Rc<Self>, result: BatchResult, number: u64) {
        let BatchResult { verdict, again, call_errors, is_cross_slot, time } = result;
        call_errors.iter().for_each(|(error, key)| self.note_call_error(error, key));
        {
            let mut state = self.state.borrow_mut();
            state.queue.finished();
            if is_cross_slot {
                let found = Found { has_slots: true, ..state.found };
                self.note(&mut state, found);
            }
            if let (Some(time), Some(newer)) = (&mut state.found.time, time) {
                time.improve(newer);
            }
            if state.breaker.admits() {
                state.queue.put_back(again);
            }
        }
        self.judge(verdict, number);
        self.pump();
    }

    /// Waits for the late replies of a batch. They tell the callers what was counted. They do
    /// not count as successes of the server.
    async fn await_late_replies(&self, exchange: impl Future<Output = BatchResult>) {
        if self.state.borrow().late >= MAX_LATE {
            return;
        }
        self.state.borrow_mut().late += 1;
        // If the connection breaks, the calls fail and none is sent again.
        if let Ok(BatchResult { call_errors, .. }) = timeout(LATE, exchange).await {
            call_errors.iter().for_each(|(error, key)| self.note_call_error(error, key));
        }
        self.state.borrow_mut().late -= 1;
    }
}

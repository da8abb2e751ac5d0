//! Calls that wait for their turn on one connection, and how they are put
//! together: self-clocked batches.
//!
//! A call goes out at once while few batches are in flight; otherwise it joins
//! the next one. So nobody waits at low load, and at high load one script
//! decides many calls, which costs the server less than half as much for each.
//! The queue is bounded. It sends nothing itself.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::failure::StoreError;
use super::script::Encoded;

/// Calls in one batch: more save the server nothing, and hold it up.
const MAX_CALLS: usize = 64;
/// Batches in flight: with two, the server has one to do while another travels.
const MAX_IN_FLIGHT: usize = 2;
/// Calls that wait; more fail at once.
const MAX_WAITING: usize = 4096;

/// What a call is told.
pub(super) type Answer = Result<Bytes, StoreError>;

/// A call that waits for its answer.
#[derive(Debug)]
pub(super) struct Call {
    /// What is asked.
    pub(super) encoded: Encoded,
    /// Calls of one group can be asked by one script: the slot in a cluster.
    pub(super) group: u16,
    /// Whether the server must be told that another sent us (`ASKING`).
    pub(super) asking: bool,
    /// Where the answer goes. Closed when nobody waits for it any more.
    pub(super) answer: oneshot::Sender<Answer>,
}

impl Call {
    /// Tells the caller, if there still is one.
    pub(super) fn finish(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }
}

/// The calls of one connection.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Call>,
    in_flight: usize,
}

impl Queue {
    /// Adds a call, or tells it that there are too many.
    pub(super) fn push(&mut self, call: Call) {
        if self.waiting.len() >= MAX_WAITING {
            // Those who gave up still stand in the queue.
            self.waiting.retain(|call| !call.answer.is_closed());
        }
        if self.waiting.len() >= MAX_WAITING {
            call.finish(Err(StoreError::Overloaded));
        } else {
            self.waiting.push_back(call);
        }
    }

    /// The next batch, if one may go out now. Whoever takes it must say when it
    /// has landed. Calls that nobody waits for any more are not sent.
    pub(super) fn take(&mut self) -> Option<Vec<Call>> {
        if self.in_flight >= MAX_IN_FLIGHT {
            return None;
        }
        let mut batch = Vec::new();
        while batch.len() < MAX_CALLS
            && let Some(call) = self.waiting.pop_front()
        {
            if !call.answer.is_closed() {
                batch.push(call);
            }
        }
        if batch.is_empty() {
            return None;
        }
        self.in_flight += 1;
        Some(batch)
    }

    /// A batch has landed: answered, failed or given up.
    pub(super) fn landed(&mut self) {
        self.in_flight -= 1;
    }

    /// Whether nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Tells all that wait the same.
    pub(super) fn fail_all(&mut self, error: &StoreError) {
        for call in self.waiting.drain(..) {
            call.finish(Err(error.clone()));
        }
    }
}

#[cfg(test)]
mod tests;

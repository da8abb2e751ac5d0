//! Calls that wait for their turn on one connection, and how they are put
//! together: self-clocked batches.
//!
//! While few batches are in flight the next one goes out as soon as the worker
//! has done what it has at hand, with all calls that were made meanwhile; after
//! that calls join the one that follows. So no call waits at low load, and at
//! high load one script decides many calls, which costs the server less than
//! half as much for each. The queue is bounded. It sends nothing itself.

use std::collections::VecDeque;

use super::deadline::ReplySender;
use super::failure::StoreError;
use super::script::Encoded;

/// Calls in one batch: more save the server nothing, and hold it up.
const MAX_CALLS: usize = 64;
/// Batches in flight: with two, the server has one to do while another travels.
const MAX_IN_FLIGHT: usize = 2;
/// Calls that wait; more fail at once.
const MAX_WAITING: usize = 4096;

/// Whether a call is sent again if its connection breaks before the answer. The
/// server may have counted it all the same, and then counts it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It is not: the caller is told that the answer is lost.
    Never,
    /// It is, once.
    IfLost,
}

/// A call that waits for its answer.
#[derive(Debug)]
pub(super) struct Call {
    /// What is asked.
    pub(super) encoded: Encoded,
    /// Calls of one group can be asked by one script: the slot in a cluster.
    pub(super) group: u16,
    /// Whether the server must be told that another sent us (`ASKING`).
    pub(super) asking: bool,
    /// Whether it is sent again.
    pub(super) repeat: Repeat,
    /// Where the answer goes. Closed when no caller waits for it any more.
    pub(super) answer: ReplySender,
}

impl Call {
    /// Says why there is no answer. The error speaks of the last `times` that the call
    /// went out. If it went out before, over a connection that broke, it may have been
    /// counted then.
    pub(super) fn fail(self, error: &StoreError, times: u8) {
        let is_told = error.may_have_counted() || error.is_redirection();
        let error = match is_told || self.answer.times_sent() <= times {
            true => error.clone(),
            false => StoreError::Lost(format!("then it was sent again: {error}")),
        };
        self.answer.send(Err(error));
    }
}

/// The calls of one connection.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Call>,
    in_flight: usize,
    /// A batch is about to be taken.
    has_sender: bool,
}

impl Queue {
    /// Adds a call, or tells it that there are too many.
    pub(super) fn push(&mut self, call: Call) {
        if self.waiting.len() >= MAX_WAITING {
            // Calls whose callers gave up are still in the queue.
            self.waiting.retain(|call| !call.answer.is_closed());
        }
        if self.waiting.len() >= MAX_WAITING {
            call.answer.send(Err(StoreError::Overloaded));
        } else {
            self.waiting.push_back(call);
        }
    }

    /// Whether a task must begin that takes the next batch. Until it takes the batch, no
    /// other task begins.
    pub(super) fn needs_sender(&mut self) -> bool {
        let begins = !self.has_sender && !self.waiting.is_empty() && self.in_flight < MAX_IN_FLIGHT;
        self.has_sender |= begins;
        begins
    }

    /// The next batch, if one may go out now. The caller must report
    /// when it is finished. Calls for which no caller waits any more are not sent.
    pub(super) fn take(&mut self) -> Option<Vec<Call>> {
        self.has_sender = false;
        if self.in_flight >= MAX_IN_FLIGHT {
            return None;
        }
        let mut batch = Vec::with_capacity(self.waiting.len().min(MAX_CALLS));
        while batch.len() < MAX_CALLS
            && let Some(call) = self.waiting.pop_front()
        {
            if !call.answer.is_closed() {
                call.answer.mark_sent();
                batch.push(call);
            }
        }
        if batch.is_empty() {
            return None;
        }
        self.in_flight += 1;
        Some(batch)
    }

    /// Puts calls that were taken back to where they were.
    pub(super) fn put_back(&mut self, calls: Vec<Call>) {
        for call in calls.into_iter().rev() {
            self.waiting.push_front(call);
        }
    }

    /// A batch has landed: answered, failed or given up.
    pub(super) fn finished(&mut self) {
        self.in_flight -= 1;
    }

    /// The task that began for a batch cannot take one.
    pub(super) fn release_sender(&mut self) {
        self.has_sender = false;
    }

    /// Whether nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Tells all that wait the same.
    pub(super) fn fail_all(&mut self, error: &StoreError) {
        for call in self.waiting.drain(..) {
            call.fail(error, 0);
        }
    }
}

#[cfg(test)]
mod tests;

//! The queue of one connection's calls, which forms self-clocked batches.
//!
//! While fewer than the maximum of batches are in flight, the next batch is sent as soon as
//! the worker has run its ready tasks, with all calls that they made. Later calls join the
//! following batch. So no call waits at low load. At high load one script run decides many
//! calls, which costs the server less than half as much for each. The queue is bounded. It
//! performs no I/O.

use std::collections::VecDeque;

use super::deadline::ReplySender;
use super::failure::StoreError;
use super::script::Encoded;

/// The maximum number of calls in one batch. Larger batches save the server nothing and
/// block it for longer.
const MAX_CALLS: usize = 64;
/// The maximum number of batches in flight. With two, the server works on one while the
/// other is on the network.
const MAX_IN_FLIGHT: usize = 2;
/// The maximum number of waiting calls. Further calls fail at once.
const MAX_WAITING: usize = 4096;

/// Whether a call is sent again if its connection breaks before the reply. The server may
/// have counted the first one, and then counts it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The call is not sent again. The caller gets an error.
    Never,
    /// The call is sent again once.
    IfLost,
}

/// A call that waits for its reply.
#[derive(Debug)]
pub(super) struct Call {
    /// The keys and the body.
    pub(super) encoded: Encoded,
    /// Calls of one group can be sent in one `EVALSHA`. In a cluster it is the slot.
    pub(super) group: u16,
    /// Whether another server has redirected the call, so that `ASKING` must be sent.
    pub(super) asking: bool,
    /// Whether it is sent again if the reply is lost.
    pub(super) repeat: Repeat,
    /// Receives the reply. It is closed when no caller waits any more.
    pub(super) answer: ReplySender,
}

impl Call {
    /// Ends the call with an error. The error describes the last `times` sendings of the
    /// call. If the call was sent before over a connection that broke, it may have been
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
    /// Whether a task is about to take a batch.
    has_sender: bool,
}

impl Queue {
    /// Adds a call. If too many calls wait, it fails.
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

    /// Puts calls that were taken back to the front.
    pub(super) fn put_back(&mut self, calls: Vec<Call>) {
        for call in calls.into_iter().rev() {
            self.waiting.push_front(call);
        }
    }

    /// Records that a batch has ended: answered, failed or given up.
    pub(super) fn finished(&mut self) {
        self.in_flight -= 1;
    }

    /// Records that the task that began for a batch cannot take one.
    pub(super) fn release_sender(&mut self) {
        self.has_sender = false;
    }

    /// Whether nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Ends all waiting calls with this error.
    pub(super) fn fail_all(&mut self, error: &StoreError) {
        for call in self.waiting.drain(..) {
            call.fail(error, 0);
        }
    }
}

#[cfg(test)]
mod tests;

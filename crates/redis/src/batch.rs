//! The queue of one connection's calls, which forms self-clocked batches.
//!
//! While fewer than the maximum of batches are in flight, the next batch is sent as soon as
//! the worker has run its ready tasks, with all calls that they made. Later calls join the
//! following batch. So no call waits at low load. At high load one script run decides many
//! calls, which costs the server less than half as much for each. The memory of the queue is
//! bounded. It performs no I/O.

mod call;
mod waiting;

pub(super) use self::call::Call;
pub use self::call::Repeat;
use self::waiting::Waiting;
use super::failure::StoreError;

/// The maximum number of calls in one batch. Larger batches save the server nothing and
/// block it for longer.
const MAX_CALLS: usize = 64;
/// The maximum number of batches in flight. With two, the server works on one while the
/// other is on the network.
const MAX_IN_FLIGHT: usize = 2;

/// The calls of one connection.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Waiting,
    in_flight: usize,
    /// Whether a task is about to take a batch.
    has_sender: bool,
    /// How many calls have failed for want of memory.
    overloads: u64,
}

impl Queue {
    /// Adds a call. If the waiting calls take too much memory, it fails. Returns whether it waits.
    pub(super) fn push(&mut self, call: Call) -> bool {
        let Err(call) = self.waiting.push(call) else { return true };
        self.overloads += 1;
        call.answer.send(Err(StoreError::Overloaded));
        false
    }

    /// How many calls have failed because those that wait took too much memory.
    pub(super) const fn overloads(&self) -> u64 {
        self.overloads
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
            && let Some(call) = self.waiting.pop()
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
        for call in self.waiting.drain() {
            call.fail(error, 0);
        }
    }
}

#[cfg(test)]
mod tests;

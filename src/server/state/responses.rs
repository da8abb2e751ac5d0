//! The responses in progress on an HTTP/2 connection, and how fast the client reads each.
//!
//! An HTTP/2 client can stop reading one response and continue to read others. Such a
//! response would hold its connection to the upstream, and its permit of every
//! concurrency limit, without end. So a response is aborted if its client reads it too
//! slowly, or not at all. Other responses of the connection are not affected.

use std::time::Instant;

use tokio::task::AbortHandle;

use super::pace::Pace;
use super::tracked_body::SMALL_PIECE;
use crate::server::settings::Demand;

/// The most bytes of a piece while the speed of its client is not known: those of a frame.
const FIRST_PIECE: usize = 16 * 1024;

/// The responses of one connection.
#[derive(Debug, Default)]
pub struct Responses {
    slots: Vec<Slot>,
    /// Indexes of unused slots.
    free: Vec<usize>,
    /// The slot of a request whose task has not been started.
    begun: Option<usize>,
}

/// One response.
#[derive(Debug, Default)]
struct Slot {
    /// How fast the client reads it.
    pace: Pace,
    /// The task that makes and sends it. Aborting the task resets the stream.
    task: Option<AbortHandle>,
}

impl Responses {
    /// Begins a response, which lasts until [`Self::end`]. Returns its slot.
    pub fn begin(&mut self) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.begun = Some(slot);
        slot
    }

    /// The task of the latest request has started. The HTTP library starts it at once, so
    /// there is no other request in between.
    pub fn started(&mut self, task: AbortHandle) {
        if let Some(slot) = self.begun.take() {
            self.slots[slot].task = Some(task);
        }
    }

    /// The client has room for another piece. `given`: the bytes of that piece, which the
    /// client is now to read; None if the service has none yet.
    pub fn polled(&mut self, slot: usize, given: Option<usize>, demand: Demand) {
        let pace = &mut self.slots[slot].pace;
        pace.moves(given.unwrap_or(0), demand);
        if given.is_some() {
            pace.waits();
        }
    }

    /// The most bytes of the next piece. A client gets less at a time if it is slow, so that it does
    /// not seem to pause while it reads.
    pub fn most_bytes(&self, slot: usize, demand: Demand) -> usize {
        let bytes = self.slots[slot].pace.moves_in(demand.patience / 8);
        let bytes = bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        bytes.map_or(FIRST_PIECE, |bytes| bytes.max(SMALL_PIECE))
    }

    /// Ends the response, complete or not.
    pub fn end(&mut self, slot: usize) {
        self.slots[slot] = Slot::default();
        self.free.push(slot);
        self.begun = self.begun.filter(|begun| *begun != slot);
    }

    /// Aborts the responses that the client reads too slowly.
    pub fn abort_slow(&self, demand: Demand, now: Instant) {
        for slot in &self.slots {
            if let Some(task) = &slot.task
                && slot.pace.is_late(demand, now)
            {
                task.abort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::task::JoinHandle;
    use tollgate_core::time::monotonic;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);
    const DEMAND: Demand = Demand { patience: LIMIT, min_rate: 1 };

    fn start(responses: &mut Responses) -> (usize, JoinHandle<()>) {
        let slot = responses.begin();
        #[expect(clippy::disallowed_methods, reason = "a task that never ends")]
        let task = tokio::spawn(pending());
        responses.started(task.abort_handle());
        (slot, task)
    }

    #[tokio::test]
    async fn only_responses_that_wait_for_their_client_are_aborted() {
        let mut responses = Responses::default();
        let now = monotonic();
        let (stuck, stuck_task) = start(&mut responses);
        let (moving, moving_task) = start(&mut responses);
        let (_working, working_task) = start(&mut responses);
        responses.polled(stuck, Some(9), DEMAND);
        responses.polled(moving, Some(9), DEMAND);
        responses.polled(moving, None, DEMAND);
        responses.abort_slow(DEMAND, now + LIMIT / 2);
        responses.abort_slow(DEMAND, monotonic() + LIMIT);
        assert!(stuck_task.await.is_err_and(|ended| ended.is_cancelled()));
        assert!(!moving_task.is_finished() && !working_task.is_finished());
        responses.abort_slow(DEMAND, now + LIMIT * 9);
        tokio::task::yield_now().await;
        assert!(!moving_task.is_finished(), "the client is not waited for");
    }

    #[tokio::test]
    async fn a_slot_is_reused_without_the_state_of_the_previous_response() {
        let mut responses = Responses::default();
        let now = monotonic();
        let (first, _task) = start(&mut responses);
        responses.polled(first, Some(9), DEMAND);
        responses.end(first);
        let (second, task) = start(&mut responses);
        assert_eq!((first, responses.slots.len()), (second, 1));
        responses.abort_slow(DEMAND, now + LIMIT * 2);
        tokio::task::yield_now().await;
        assert!(!task.is_finished());
    }

    #[tokio::test]
    async fn a_request_that_ends_before_its_task_starts_leaves_no_state() {
        let mut responses = Responses::default();
        let slot = responses.begin();
        responses.end(slot);
        assert_eq!(responses.begun, None);
    }
}

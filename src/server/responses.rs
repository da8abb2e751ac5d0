//! The responses of an HTTP/2 connection that are under way, and whom they wait for.
//!
//! A client of HTTP/2 can leave one response no room and go on reading others.
//! Such a response would hold its connection to the upstream, and its place in
//! every limit of concurrency, for as long as the client likes. Here a response
//! that waits for its client for too long, or is taken too slowly, is given up, and no other with it.

use std::time::Instant;

use tokio::task::AbortHandle;

use super::pace::{Demand, Pace};

/// The responses of one connection.
#[derive(Debug, Default)]
pub(super) struct Responses {
    places: Vec<Place>,
    /// Places that nobody has.
    free: Vec<usize>,
    /// A request that has come, and whose task has not been started.
    begun: Option<usize>,
}

/// One response under way.
#[derive(Debug, Default)]
struct Place {
    /// How fast its client takes what it has to send.
    pace: Pace,
    /// Makes and sends it. To end the task is to reset its stream.
    task: Option<AbortHandle>,
}

impl Responses {
    /// A request has come. Its response is under way until [`Self::end`].
    pub(super) fn begin(&mut self) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() - 1
        });
        self.begun = Some(place);
        place
    }

    /// The task of the request that came last is this one. The HTTP library
    /// starts it at once, so that there is no other in between.
    pub(super) fn started(&mut self, task: AbortHandle) {
        if let Some(place) = self.begun.take() {
            self.places[place].task = Some(task);
        }
    }

    /// The client has room for another piece. If one is given, it has so many bytes,
    /// and it is the client's turn; or it is not.
    pub(super) fn is_asked(&mut self, place: usize, given: Option<usize>, demand: Demand) {
        let pace = &mut self.places[place].pace;
        pace.moves(given.unwrap_or(0), demand);
        if given.is_some() {
            pace.waits();
        }
    }

    /// The response has ended, in whatever way.
    pub(super) fn end(&mut self, place: usize) {
        self.places[place] = Place::default();
        self.free.push(place);
        self.begun = self.begun.filter(|begun| *begun != place);
    }

    /// Gives up those whose client is too slow.
    pub(super) fn give_up(&self, demand: Demand, now: Instant) {
        for place in &self.places {
            if let Some(task) = &place.task
                && place.pace.is_late(demand, now)
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

    use super::*;
    use crate::time::monotonic;

    const LIMIT: Duration = Duration::from_secs(60);
    const DEMAND: Demand = Demand { patience: LIMIT, min_rate: 1 };

    fn start(responses: &mut Responses) -> (usize, JoinHandle<()>) {
        let place = responses.begin();
        #[expect(clippy::disallowed_methods, reason = "a task that waits for ever")]
        let task = tokio::spawn(pending());
        responses.started(task.abort_handle());
        (place, task)
    }

    #[tokio::test]
    async fn only_those_are_given_up_that_wait_for_their_client() {
        let (mut responses, now) = (Responses::default(), monotonic());
        let (stuck, stuck_task) = start(&mut responses);
        let (moving, moving_task) = start(&mut responses);
        let (_working, working_task) = start(&mut responses);
        responses.is_asked(stuck, Some(9), DEMAND);
        responses.is_asked(moving, Some(9), DEMAND);
        responses.is_asked(moving, None, DEMAND);
        responses.give_up(DEMAND, now + LIMIT / 2);
        responses.give_up(DEMAND, monotonic() + LIMIT);
        assert!(stuck_task.await.is_err_and(|ended| ended.is_cancelled()));
        assert!(!moving_task.is_finished() && !working_task.is_finished());
        responses.give_up(DEMAND, now + LIMIT * 9);
        tokio::task::yield_now().await;
        assert!(!moving_task.is_finished(), "it is not the client's turn");
    }

    #[tokio::test]
    async fn a_place_is_used_again_and_knows_nothing_of_the_one_before() {
        let (mut responses, now) = (Responses::default(), monotonic());
        let (first, _task) = start(&mut responses);
        responses.is_asked(first, Some(9), DEMAND);
        responses.end(first);
        let (second, task) = start(&mut responses);
        assert_eq!((first, responses.places.len()), (second, 1));
        responses.give_up(DEMAND, now + LIMIT * 2);
        tokio::task::yield_now().await;
        assert!(!task.is_finished());
    }

    #[tokio::test]
    async fn a_request_that_ends_before_it_has_a_task_leaves_no_trace() {
        let mut responses = Responses::default();
        let place = responses.begin();
        responses.end(place);
        assert_eq!(responses.begun, None);
    }
}

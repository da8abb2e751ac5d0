//! Requests that are delayed, as `leaky_bucket` demands, and responses to banned clients that are
//! held back.
//!
//! Each policy bounds how many requests of one key may wait. A queue bounds all that it delays
//! together, because each of them holds a connection and memory. Banned clients have a queue of
//! their own: if they fill it, that delays no request of another client.

use std::cell::Cell;

use tokio::time::sleep;
use tollgate_core::time::Span;

use crate::message::Failure;

/// The most requests that one worker delays at once.
const MAX_DELAYED: usize = 10_000;

/// The requests, or the responses to banned clients, that one worker delays.
#[derive(Debug, Default)]
pub struct Queue {
    delayed: Cell<usize>,
}

impl Queue {
    /// Delays a request. If the client leaves meanwhile, dropping the future removes the
    /// request from the queue.
    ///
    /// # Errors
    /// If the queue is full.
    pub async fn delay(&self, delay: Span) -> Result<(), Failure> {
        if delay.is_zero() {
            return Ok(());
        }
        let _delayed = Delayed::new(&self.delayed)?;
        sleep(delay.into()).await;
        Ok(())
    }

    /// Delays the response to a banned client, and returns true. If the queue is full, it does not
    /// wait, and returns false.
    pub async fn hold_back(&self, delay: Span) -> bool {
        self.delay(delay).await.is_ok()
    }
}

/// A delayed request. Dropping it removes the request from the queue.
struct Delayed<'q>(&'q Cell<usize>);

impl<'q> Delayed<'q> {
    fn new(count: &'q Cell<usize>) -> Result<Self, Failure> {
        if count.get() >= MAX_DELAYED {
            return Err(Failure::QueueFull);
        }
        count.set(count.get() + 1);
        Ok(Self(count))
    }
}

impl Drop for Delayed<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::time::monotonic;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_queue_is_bounded_and_requests_leave_it() {
        let queue = Queue { delayed: Cell::new(MAX_DELAYED - 1) };
        let delayed = queue.delay(Span::SECOND);
        let (first, second) = tokio::join!(delayed, queue.delay(Span::SECOND));
        assert_eq!((first, second), (Ok(()), Err(Failure::QueueFull)));
        assert_eq!(queue.delay(Span::SECOND).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_bound_a_response_is_not_held_back() {
        let queue = Queue { delayed: Cell::new(MAX_DELAYED - 1) };
        let took = async || {
            let begun = monotonic();
            let is_held = queue.hold_back(Span::SECOND).await;
            (is_held, monotonic().duration_since(begun).as_secs())
        };
        assert_eq!(tokio::join!(took(), took()), ((true, 1), (false, 0)));
        assert_eq!(took().await, (true, 1), "there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_whose_client_leaves_is_removed() {
        let queue = Queue::default();
        let delayed = tokio::time::timeout(Span::SECOND.into(), queue.delay(Span::DAY)).await;
        assert!(delayed.is_err());
        assert_eq!(queue.delayed.get(), 0);
    }
}

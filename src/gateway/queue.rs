//! Requests that are delayed, as `leaky_bucket` demands.
//!
//! Each policy bounds how many requests of one key may wait. A queue bounds all that it delays
//! together, because each of them holds a connection and memory.

use std::cell::Cell;

use tokio::time::sleep;
use tollgate_core::time::Span;

use crate::message::Failure;

/// The most requests that one queue delays at once.
pub const MAX_DELAYED: usize = 10_000;

/// The requests that one worker delays.
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
    async fn a_request_whose_client_leaves_is_removed() {
        let queue = Queue::default();
        let delayed = tokio::time::timeout(Span::SECOND.into(), queue.delay(Span::DAY)).await;
        assert!(delayed.is_err());
        assert_eq!(queue.delayed.get(), 0);
    }
}

//! Requests that a leaky bucket holds until it is their turn.
//!
//! How many one key may have waiting is the policy's own bound; here is the one
//! over all of them, since each holds a connection and what came of its request.

use std::cell::Cell;

use tokio::time::sleep;

use crate::message::Failure;
use crate::time::Span;

/// Requests that one worker holds at the most.
const MAX_HELD: usize = 10_000;

/// Requests that one worker holds.
#[derive(Debug, Default)]
pub(super) struct Queue {
    held: Cell<usize>,
}

impl Queue {
    /// Holds a request for `delay`. A client that leaves meanwhile drops this
    /// future, and so gives up its place.
    ///
    /// # Errors
    /// If too many are held already.
    pub(super) async fn hold(&self, delay: Span) -> Result<(), Failure> {
        if delay.is_zero() {
            return Ok(());
        }
        let _place = Place::take(&self.held)?;
        sleep(delay.into()).await;
        Ok(())
    }
}

/// One request that is held.
struct Place<'q>(&'q Cell<usize>);

impl<'q> Place<'q> {
    fn take(held: &'q Cell<usize>) -> Result<Self, Failure> {
        if held.get() >= MAX_HELD {
            return Err(Failure::QueueFull);
        }
        held.set(held.get() + 1);
        Ok(Self(held))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn places_are_bounded_and_given_up() {
        let queue = Queue { held: Cell::new(MAX_HELD - 1) };
        let held = queue.hold(Span::SECOND);
        let (first, second) = tokio::join!(held, queue.hold(Span::SECOND));
        assert_eq!((first, second), (Ok(()), Err(Failure::QueueFull)));
        assert_eq!(queue.hold(Span::SECOND).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_gives_up_its_place() {
        let queue = Queue::default();
        let held = tokio::time::timeout(Span::SECOND.into(), queue.hold(Span::DAY)).await;
        assert!(held.is_err());
        assert_eq!(queue.held.get(), 0);
    }
}

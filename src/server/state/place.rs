//! The place of a connection at a listener that is for few clients: whether another client may
//! have it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// A request is in progress.
const BUSY: u64 = u64::MAX;
/// The connection is to be closed.
const GIVEN_UP: u64 = u64::MAX - 1;

/// The place of one connection. The worker that serves the connection says what it does, and any
/// worker may take the place.
#[derive(Debug)]
pub struct Place {
    /// Times are counted from here.
    epoch: Instant,
    /// Since when the connection waits for a request, in microseconds; or one of the two above.
    state: AtomicU64,
    given_up: Notify,
}

impl Place {
    /// A connection that waits since `now`. `epoch` is the same for all places of a listener.
    pub fn new(epoch: Instant, now: Instant) -> Self {
        let state = AtomicU64::new(micros(now.saturating_duration_since(epoch)));
        Self { epoch, state, given_up: Notify::new() }
    }

    /// A request is in progress. The connection stays open, even if the place has just been
    /// taken: the request would be lost.
    pub fn is_busy(&self) {
        self.state.store(BUSY, Ordering::Relaxed);
    }

    /// No request is in progress since then.
    pub fn waits(&self, since: Instant) {
        if self.state.load(Ordering::Relaxed) != GIVEN_UP {
            let since = micros(since.saturating_duration_since(self.epoch));
            self.state.store(since, Ordering::Relaxed);
        }
    }

    /// Since when the connection waits for a request, as a number that [`take`](Self::take)
    /// understands. None: it does not.
    pub fn waiting(&self) -> Option<u64> {
        Some(self.state.load(Ordering::Relaxed)).filter(|since| *since < GIVEN_UP)
    }

    /// Has the connection closed if it has waited since then. Returns whether it has.
    pub fn take(&self, since: u64) -> bool {
        let taken =
            self.state.compare_exchange(since, GIVEN_UP, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_ok() {
            self.given_up.notify_one();
        }
        taken.is_ok()
    }

    /// Returns when the place has been taken.
    pub async fn given_up(&self) {
        loop {
            self.given_up.notified().await;
            if self.state.load(Ordering::Relaxed) == GIVEN_UP {
                return;
            }
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(GIVEN_UP - 1)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tollgate_core::time::monotonic;

    use super::*;

    #[test]
    fn a_place_is_taken_from_a_connection_that_waits_and_from_no_other() {
        let epoch = monotonic();
        let place = Place::new(epoch, epoch + Duration::from_secs(1));
        let since = place.waiting().expect("it waits");
        assert_eq!(since, 1_000_000);
        place.is_busy();
        assert!(place.waiting().is_none() && !place.take(since));
        place.waits(epoch + Duration::from_secs(2));
        assert!(!place.take(since), "it has served a request meanwhile");
        assert!(place.given_up().now_or_never().is_none());
        assert!(place.take(2_000_000));
        place.waits(epoch);
        assert!(place.waiting().is_none());
        assert!(place.given_up().now_or_never().is_some());
    }

    #[test]
    fn a_request_that_arrives_at_the_last_moment_is_served() {
        let epoch = monotonic();
        let place = Place::new(epoch, epoch);
        assert!(place.take(0));
        place.is_busy();
        assert!(place.given_up().now_or_never().is_none());
    }
}

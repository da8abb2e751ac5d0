//! Stopping without losing anything: one signal to stop, and the proof that
//! everybody has.
//!
//! Whoever works holds a [`Drain`]; whoever stops the work holds the one
//! [`Stop`]. Work has ended when the last [`Drain`] was dropped, so nobody can
//! forget to report it.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Asks everybody to stop, and learns when they have.
#[derive(Debug)]
pub struct Stop(watch::Sender<Phase>);

/// Held by everything that must come to an end before the process does.
#[derive(Clone, Debug)]
pub struct Drain(watch::Receiver<Phase>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Working,
    /// What is under way is to end.
    Stopping,
    /// Nobody waits any longer for what has not.
    Over,
}

/// A connected pair; clone the [`Drain`] for each piece of work.
pub fn channel() -> (Stop, Drain) {
    let (sender, receiver) = watch::channel(Phase::Working);
    (Stop(sender), Drain(receiver))
}

impl Stop {
    /// Asks all to stop and waits until they have, but no longer than `limit`.
    /// Returns whether they all did; if not, they are told that it is over.
    pub async fn finish(self, limit: Duration) -> bool {
        self.0.send_replace(Phase::Stopping);
        let in_time = timeout(limit, self.0.closed()).await.is_ok();
        if !in_time {
            self.0.send_replace(Phase::Over);
        }
        in_time
    }
}

impl Drain {
    /// Whether it is time to stop.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() != Phase::Working
    }

    /// Returns when it is time to stop, which it also is when nobody is left to ask for it.
    pub async fn requested(&mut self) {
        // An error says that the `Stop` was dropped.
        let _ = self.0.wait_for(|phase| *phase != Phase::Working).await;
    }

    /// Returns when nobody waits any longer for what has not ended.
    pub async fn over(&mut self) {
        let _ = self.0.wait_for(|phase| *phase == Phase::Over).await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn work_has_ended_when_its_last_drain_is_dropped() {
        let (stop, mut drain) = channel();
        assert!(!drain.is_requested());
        let work = async move {
            drain.requested().await;
            tokio::time::sleep(Duration::from_secs(60)).await;
        };
        let ((), ended) = tokio::join!(work, stop.finish(LONG));
        assert!(ended);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_end_is_given_up() {
        let (stop, mut drain) = channel();
        let mut work = drain.clone();
        let work = async move {
            work.requested().await;
            assert!(work.over().now_or_never().is_none());
            work.over().await;
        };
        let (finished, ()) = tokio::join!(stop.finish(Duration::from_secs(1)), work);
        assert!(!finished && drain.is_requested() && drain.over().now_or_never().is_some());
    }

    #[tokio::test]
    async fn nobody_left_to_ask_means_stop() {
        let (stop, mut drain) = channel();
        drop(stop);
        drain.requested().await;
    }
}

//! A signal to stop, and the confirmation that all work has ended.
//!
//! Each task holds a [`Drain`]. The part that stops them holds the [`Stop`]. Work has ended
//! when the last [`Drain`] is dropped, so no task needs to report its end.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// How long work may take to end when its time is over: a connection in the middle of a response is
/// reset, so that its client does not take the response for complete.
const ABORT: Duration = Duration::from_millis(100);

/// Requests the stop, and waits for the end of the work.
#[derive(Debug)]
pub struct Stop(watch::Sender<Phase>);

/// Held by each task that must end before the process does.
#[derive(Clone, Debug)]
pub struct Drain(watch::Receiver<Phase>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Working,
    /// Requests in progress are finished.
    Stopping,
    /// The time limit has passed. Unfinished work is aborted.
    Over,
}

/// A connected pair. Clone the [`Drain`] for each task.
pub fn channel() -> (Stop, Drain) {
    let (sender, receiver) = watch::channel(Phase::Working);
    (Stop(sender), Drain(receiver))
}

impl Stop {
    /// Requests the stop and waits for the end of the work, at most for `limit`. Returns
    /// whether all of it has ended. If not, [`Drain::over`] returns, and the work that waits for
    /// that can still end.
    pub async fn finish(self, limit: Duration) -> bool {
        self.0.send_replace(Phase::Stopping);
        let in_time = timeout(limit, self.0.closed()).await.is_ok();
        if !in_time {
            self.0.send_replace(Phase::Over);
            let _ = timeout(ABORT, self.0.closed()).await;
        }
        in_time
    }
}

impl Drain {
    /// Whether the stop was requested.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() != Phase::Working
    }

    /// Returns when the stop is requested, or the [`Stop`] was dropped.
    pub async fn requested(&mut self) {
        self.reaches(|phase| phase != Phase::Working).await;
    }

    /// Returns when the time limit of the stop has passed.
    pub async fn over(&mut self) {
        self.reaches(|phase| phase == Phase::Over).await;
    }

    /// Returns when such a phase begins, or the [`Stop`] was dropped.
    ///
    /// A connection polls this whenever it is polled itself. The channel would take a lock
    /// each time, which all tasks share. So it is asked only if something has changed, or to
    /// register another waker.
    async fn reaches(&mut self, is_reached: impl Fn(Phase) -> bool) {
        let known = self.0.clone();
        let mut waiting = pin!(self.0.wait_for(|phase| is_reached(*phase)));
        let mut registered: Option<Waker> = None;
        poll_fn(|cx| {
            let is_registered = registered.as_ref().is_some_and(|it| it.will_wake(cx.waker()));
            // An error means that the `Stop` was dropped.
            if is_registered && !known.has_changed().unwrap_or(true) {
                return Poll::Pending;
            }
            registered = Some(cx.waker().clone());
            waiting.as_mut().poll(cx).map(drop)
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use futures_util::FutureExt as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    /// The result of `work`. Fails if it does not end; the time is virtual.
    async fn ended<T>(work: impl Future<Output = T>) -> T {
        timeout(2 * LONG, work).await.expect("it ends")
    }

    /// How often a waker was woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Count {
        fn get(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counted() -> (Waker, Arc<Count>) {
        let count = Arc::<Count>::default();
        (Waker::from(Arc::clone(&count)), count)
    }

    #[tokio::test(start_paused = true)]
    async fn work_has_ended_when_its_last_drain_is_dropped() {
        let (stop, mut drain) = channel();
        assert!(!drain.is_requested());
        let work = async move {
            drain.requested().await;
            tokio::time::sleep(Duration::from_secs(60)).await;
        };
        let ((), in_time) = ended(async { tokio::join!(work, stop.finish(LONG)) }).await;
        assert!(in_time);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_end_in_time_is_aborted() {
        let (stop, mut drain) = channel();
        let mut work = drain.clone();
        let work = async move {
            work.requested().await;
            assert!(work.over().now_or_never().is_none());
            work.over().await;
        };
        let both = async { tokio::join!(stop.finish(Duration::from_secs(1)), work) };
        let (finished, ()) = ended(both).await;
        assert!(!finished && drain.is_requested() && drain.over().now_or_never().is_some());
    }

    #[tokio::test]
    async fn the_waker_of_the_last_poll_is_woken() {
        let (stop, mut drain) = channel();
        let mut requested = pin!(drain.requested());
        let first = counted();
        let second = counted();
        for (waker, _) in [&first, &first, &second, &second] {
            assert!(requested.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        }
        drop(stop);
        assert_eq!([first.1.get(), second.1.get()], [0, 1]);
        assert!(requested.as_mut().poll(&mut Context::from_waker(&second.0)).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_stop_requests_the_stop() {
        let (stop, mut drain) = channel();
        drop(stop);
        ended(drain.requested()).await;
    }
}

//! The time of decisions.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_core::time::{self, Span, Timestamp};

/// Where a manual clock begins: 2026-01-01 in UTC, at the start of a minute, an hour and a day.
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// The longest time between two looks at the clock. It is less than the least step back, which is
/// [`SLOWEST`](time::SLOWEST), so that a look finds each step.
const LOOK: Span = Span::from_secs(30);

/// The time of decisions: the system's, or one that a test advances.
///
/// ```
/// use std::time::Duration;
/// use tollgate_limiter::{Algorithm, Clock, Key, Limiter, Policy};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let clock = Clock::manual();
/// let policy = Policy::new("jobs", Key::Custom, "1/minute".parse()?)
///     .algorithm(Algorithm::FixedWindow);
/// let limiter = Limiter::builder().policy(policy).clock(clock.clone()).build()?;
/// let jobs = limiter.policy("jobs")?;
/// assert!(limiter.check(&jobs, "ann").await.is_admitted());
/// assert!(!limiter.check(&jobs, "ann").await.is_admitted());
/// clock.advance(Duration::from_secs(60));
/// assert!(limiter.check(&jobs, "ann").await.is_admitted());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clock {
    time: time::Clock,
    /// Wakes the callers that wait for a manual clock.
    advanced: Option<Arc<Notify>>,
}

impl Clock {
    /// The system's clock. It runs evenly, and follows the system's real-time clock slowly.
    ///
    /// ```
    /// let clock = tollgate_limiter::Clock::system();
    /// let limiter = tollgate_limiter::Limiter::builder().clock(clock).build()?;
    /// # Ok::<_, tollgate_limiter::BuildError>(())
    /// ```
    pub const fn system() -> Self {
        Self { time: time::Clock::System, advanced: None }
    }

    /// A clock that stands still at the beginning of a day until it is advanced. Clones show
    /// the same time. A store that is shared by nodes has a clock of its own.
    ///
    /// ```
    /// let clock = tollgate_limiter::Clock::manual();
    /// clock.advance(std::time::Duration::from_secs(1));
    /// ```
    pub fn manual() -> Self {
        Self { time: time::Clock::manual(START), advanced: Some(Arc::default()) }
    }

    /// Advances a manual clock. It has no effect on the system's clock.
    ///
    /// ```
    /// # let clock = tollgate_limiter::Clock::manual();
    /// clock.advance(std::time::Duration::from_millis(1500));
    /// ```
    pub fn advance(&self, by: Duration) {
        self.time.advance(by.into());
        if let Some(advanced) = &self.advanced {
            advanced.notify_waiters();
        }
    }

    pub(super) const fn time(&self) -> &time::Clock {
        &self.time
    }

    /// Returns when so much time has passed, or when the clock has made a step back. All counters
    /// begin again then, and nothing says how long to wait.
    pub(super) async fn sleep(&self, wait: Span) {
        let mut seen = self.time.now();
        let until = seen.plus(wait);
        match &self.advanced {
            // A timer may be early by the difference of two clocks.
            None => {
                while seen < until {
                    tokio::time::sleep(until.since(seen).min(LOOK).into()).await;
                    let now = self.time.now();
                    if now < seen {
                        return;
                    }
                    seen = now;
                }
            }
            Some(advanced) => loop {
                let mut advance = pin!(advanced.notified());
                // From here on, no advance is missed.
                advance.as_mut().enable();
                let now = self.time.now();
                if now >= until || now < seen {
                    return;
                }
                seen = now;
                advance.await;
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    /// Regression: the wait of a day was as long again after a step back of the system's clock.
    #[tokio::test(start_paused = true)]
    async fn a_step_back_of_the_clock_ends_a_long_wait_soon() {
        let clock = Clock { time: time::Clock::manual(START), advanced: None };
        let time::Clock::Manual(us) = clock.time() else { panic!("the clock is manual") };
        let mut wait = pin!(clock.sleep(Span::DAY));
        let early = tokio::time::timeout(Duration::from_secs(30), wait.as_mut()).await;
        assert!(early.is_err(), "it waits");
        us.fetch_sub(Span::from_secs(601).as_micros(), Ordering::Relaxed);
        let after = tokio::time::timeout(Duration::from_secs(60), wait).await;
        assert!(after.is_ok(), "the counters have begun again");
    }
}

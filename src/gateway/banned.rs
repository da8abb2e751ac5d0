//! Responses to banned clients, which are held back as long as the policy says.
//!
//! They have a queue of their own: if banned clients fill it, no request of another client waits
//! for that. Beyond its bound responses are sent at once, which the log, the status and a metric
//! tell. When the gateway stops, all of them are sent.

use std::rc::Rc;

use tollgate_core::drain::Drain;
use tollgate_core::time::{Span, monotonic};
use tracing::warn;

use super::queue::{MAX_DELAYED, Queue};
use crate::telemetry::{BanMetrics, Warnings, WorkerMetrics};

/// The responses to banned clients that one worker holds back.
#[derive(Debug)]
pub struct Banned {
    queue: Queue,
    /// The stop of the gateway, which does not wait for them.
    drain: Drain,
    metrics: BanMetrics,
    warnings: Warnings,
}

impl Banned {
    /// None is held back yet, and none is after the beginning of this drain.
    pub fn new(drain: Drain, worker: &Rc<WorkerMetrics>) -> Self {
        Self {
            queue: Queue::default(),
            drain,
            metrics: BanMetrics::new(worker),
            warnings: Warnings::default(),
        }
    }

    /// Delays a response, but at most until the gateway stops. Returns how long it was held back:
    /// not at all if too many are. If the client leaves meanwhile, dropping the future ends the
    /// delay.
    pub async fn hold_back(&self, delay: Span) -> Span {
        if delay.is_zero() || self.drain.is_requested() {
            return Span::ZERO;
        }
        let begun = monotonic();
        let _held = self.metrics.hold();
        let mut drain = self.drain.clone();
        let is_held = tokio::select! {
            delayed = self.queue.delay(delay) => delayed.is_ok(),
            () = drain.requested() => true,
        };
        if is_held {
            return monotonic().duration_since(begun).into();
        }
        self.metrics.not_held();
        if self.warnings.is_due(monotonic()) {
            warn!(
                held = MAX_DELAYED,
                remedy = "block the addresses of banned clients before the gateway, lower \
                          max_connections of the listener, or shorten delay of penalty",
                "responses to banned clients are sent at once, because a worker holds back as many \
                 as it can"
            );
        }
        Span::ZERO
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_core::drain;

    use super::*;
    use crate::telemetry::Metrics;

    const HALF: Duration = Duration::from_millis(500);

    /// The responses that a worker holds back from now on.
    fn of(drain: &Drain, metrics: &Metrics) -> Banned {
        Banned::new(drain.clone(), &Rc::new(metrics.worker()))
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_bound_a_response_is_not_held_back_and_that_is_counted() {
        let metrics = Metrics::new(100);
        let (_stop, drain) = drain::channel();
        let banned = of(&drain, &metrics);
        let shown = |name: &str| {
            let text = metrics.render();
            let name = format!("tollgate_{name} ");
            text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<usize>().ok())
        };
        let held = || banned.hold_back(Span::SECOND);
        assert_eq!(banned.hold_back(Span::ZERO).await, Span::ZERO);
        let all = futures_util::future::join_all((0..=MAX_DELAYED).map(|_| held()));
        let half = async {
            tokio::time::sleep(HALF).await;
            (shown("held_bans"), shown("unheld_bans_total"))
        };
        let (all, half) = tokio::join!(all, half);
        assert_eq!(half, (Some(MAX_DELAYED), Some(1)));
        assert_eq!(all[MAX_DELAYED], Span::ZERO);
        assert!(all[..MAX_DELAYED].iter().all(|it| *it >= Span::SECOND));
        assert!(held().await >= Span::SECOND, "there is room again");
        assert_eq!((shown("held_bans"), shown("unheld_bans_total")), (Some(0), Some(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_whose_client_leaves_is_not_held_any_more() {
        let metrics = Metrics::new(100);
        let (_stop, drain) = drain::channel();
        let banned = of(&drain, &metrics);
        let left = tokio::time::timeout(Duration::from_secs(1), banned.hold_back(Span::DAY)).await;
        assert!(left.is_err());
        assert!(metrics.render().contains("tollgate_held_bans 0\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_no_response_that_is_held_back() {
        let metrics = Metrics::new(100);
        let (stop, drain) = drain::channel();
        let banned = of(&drain, &metrics);
        let stopping = async {
            tokio::time::sleep(HALF).await;
            stop.finish(Duration::ZERO).await
        };
        let (held, _) = tokio::join!(banned.hold_back(Span::DAY), stopping);
        let held = Duration::from(held);
        assert!((HALF..HALF * 2).contains(&held), "{held:?}");
        assert_eq!(banned.hold_back(Span::DAY).await, Span::ZERO, "none is held back from now on");
        let text = metrics.render();
        assert!(text.contains("tollgate_held_bans 0\n"));
        assert!(text.contains("tollgate_unheld_bans_total 0\n"), "that is no lack of room");
    }
}

//! Responses to banned clients, which are held back as long as the policy says.
//!
//! They have a queue of their own: if banned clients fill it, no request of another client waits
//! for that. Beyond its bound responses are sent at once, which the log, the status and a metric
//! tell.

use std::rc::Rc;

use tollgate_core::time::{Span, monotonic};
use tracing::warn;

use super::queue::{MAX_DELAYED, Queue};
use crate::proxy::Warnings;
use crate::telemetry::{BanMetrics, WorkerMetrics};

/// The responses to banned clients that one worker holds back.
#[derive(Debug)]
pub struct Banned {
    queue: Queue,
    metrics: BanMetrics,
    warnings: Warnings,
}

impl Banned {
    /// None is held back yet.
    pub fn new(worker: &Rc<WorkerMetrics>) -> Self {
        Self {
            queue: Queue::default(),
            metrics: BanMetrics::new(worker),
            warnings: Warnings::default(),
        }
    }

    /// Delays a response, and returns true. If too many are held back, it does not wait, and
    /// returns false. A delay of zero is none. If the client leaves meanwhile, dropping the future
    /// ends the delay.
    pub async fn hold_back(&self, delay: Span) -> bool {
        if delay.is_zero() {
            return false;
        }
        let _held = self.metrics.hold();
        if self.queue.delay(delay).await.is_ok() {
            return true;
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
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::telemetry::Metrics;

    #[tokio::test(start_paused = true)]
    async fn beyond_the_bound_a_response_is_not_held_back_and_that_is_counted() {
        let metrics = Metrics::new(100);
        let banned = Banned::new(&Rc::new(metrics.worker()));
        let shown = |name: &str| {
            let text = metrics.render();
            let name = format!("tollgate_{name} ");
            text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<usize>().ok())
        };
        let took = async || {
            let begun = monotonic();
            let is_held = banned.hold_back(Span::SECOND).await;
            (is_held, monotonic().duration_since(begun).as_secs())
        };
        assert!(!banned.hold_back(Span::ZERO).await);
        let all = futures_util::future::join_all((0..=MAX_DELAYED).map(|_| took()));
        let half = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            (shown("held_bans"), shown("unheld_bans_total"))
        };
        let (all, half) = tokio::join!(all, half);
        assert_eq!(half, (Some(MAX_DELAYED), Some(1)));
        assert_eq!(all[MAX_DELAYED], (false, 0));
        assert!(all[..MAX_DELAYED].iter().all(|it| *it == (true, 1)));
        assert_eq!(took().await, (true, 1), "there is room again");
        assert_eq!((shown("held_bans"), shown("unheld_bans_total")), (Some(0), Some(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_whose_client_leaves_is_not_held_any_more() {
        let metrics = Metrics::new(100);
        let banned = Banned::new(&Rc::new(metrics.worker()));
        let left = tokio::time::timeout(Duration::from_secs(1), banned.hold_back(Span::DAY)).await;
        assert!(left.is_err());
        assert!(metrics.render().contains("tollgate_held_bans 0\n"));
    }
}

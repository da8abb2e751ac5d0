//! What the rate limit service of one worker counts.

use std::cell::OnceCell;
use std::rc::Rc;

use crate::gateway::Gateway;
use crate::telemetry::RateLimitMetrics;

/// The metrics of the rate limit service on one worker. They are made for the first connection
/// over gRPC or the first question over HTTP: without them, there are no such metrics.
#[derive(Debug, Default)]
pub struct ServiceMetrics(OnceCell<Rc<RateLimitMetrics>>);

impl ServiceMetrics {
    /// The metrics. The first call makes them, among those of the gateway's worker.
    pub fn of(&self, gateway: &Gateway) -> &Rc<RateLimitMetrics> {
        self.0.get_or_init(|| Rc::new(RateLimitMetrics::new(gateway.worker_metrics())))
    }
}

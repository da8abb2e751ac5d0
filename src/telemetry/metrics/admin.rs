//! What the admin listener counts of its calls.

use super::families::{ADMIN_AUTH_FAILURES, ADMIN_REQUESTS};
use super::worker::WorkerMetrics;
use super::{Counter, Metrics};

/// What the admin listener counts, on the thread that serves it.
#[derive(Debug)]
pub struct AdminMetrics {
    worker: WorkerMetrics,
    auth_failures: Counter,
}

impl AdminMetrics {
    /// Counts in series of its own.
    pub fn new(metrics: &Metrics) -> Self {
        let worker = metrics.worker();
        Self { auth_failures: worker.counter(&ADMIN_AUTH_FAILURES, &[]), worker }
    }

    /// A call had a response with this status. Calls are rare enough for the slow way.
    pub fn answered(&self, call: &str, status: http::StatusCode) {
        self.worker.counter(&ADMIN_REQUESTS, &[call, status.as_str()]).increment();
    }

    /// A caller had no credential, or one that is not valid.
    pub fn denied(&self) {
        self.auth_failures.increment();
    }
}

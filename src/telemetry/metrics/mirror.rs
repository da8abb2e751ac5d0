//! What a worker counts of the requests that are mirrored to one upstream.

use std::rc::Rc;

use super::families::MIRRORED;
use super::worker::WorkerMetrics;

/// What one worker counts of the requests that are mirrored to one upstream.
#[derive(Debug)]
pub struct MirrorMetrics {
    worker: Rc<WorkerMetrics>,
    upstream: Box<str>,
}

impl MirrorMetrics {
    /// For the upstream with this name.
    pub fn new(worker: &Rc<WorkerMetrics>, upstream: &str) -> Self {
        Self { worker: Rc::clone(worker), upstream: upstream.into() }
    }

    /// A copy was sent and answered.
    pub fn sent(&self) {
        self.count("sent");
    }

    /// A copy was not sent, or not answered in time.
    pub fn failed(&self) {
        self.count("failed");
    }

    /// There was no copy, because too many are in flight.
    pub fn skipped_busy(&self) {
        self.count("skipped_busy");
    }

    /// There was no copy, because the body is too large.
    pub fn skipped_body(&self) {
        self.count("skipped_body");
    }

    /// There was no copy, because the body was not read to its end.
    pub fn skipped_incomplete(&self) {
        self.count("skipped_incomplete");
    }

    fn count(&self, result: &str) {
        self.worker.counter(&MIRRORED, &[&self.upstream, result]).increment();
    }
}

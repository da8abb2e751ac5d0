//! What a worker counts of the compression of responses.

use std::rc::Rc;

use super::families::COMPRESSED;
use super::worker::WorkerMetrics;

/// What one worker counts of the compression of responses.
#[derive(Debug)]
pub struct CompressionMetrics(Rc<WorkerMetrics>);

impl CompressionMetrics {
    /// For this worker.
    pub fn new(worker: &Rc<WorkerMetrics>) -> Self {
        Self(Rc::clone(worker))
    }

    /// A response is compressed in this encoding.
    pub fn compressed(&self, encoding: &str) {
        self.0.counter(&COMPRESSED, &[encoding]).increment();
    }

    /// A response is not compressed, because too many are.
    pub fn busy(&self) {
        self.0.counter(&COMPRESSED, &["busy"]).increment();
    }
}

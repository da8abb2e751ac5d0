//! How busy a worker is: its processor time, and how late its timers are.

use std::time::Instant;

use rustix::time::{ClockId, Timespec, clock_gettime};
use tollgate_core::time::{Span, monotonic};

use crate::telemetry::{Counter, Histogram, WorkerMetrics, families};

/// The load of the worker on whose thread it is made.
pub struct WorkerLoad {
    busy: Counter,
    lag: Histogram,
}

impl WorkerLoad {
    /// For the worker with this number.
    pub fn new(metrics: &WorkerMetrics, worker: usize) -> Self {
        let load = Self {
            busy: metrics.counter(&families::WORKER_BUSY, &[&worker.to_string()]),
            lag: metrics.histogram(&families::WORKER_LAG, &[]),
        };
        load.busy.set(processor_time_us());
        load
    }

    /// Measures it when a timer has fired that was set to `due`.
    pub fn measure(&self, due: Instant) {
        self.busy.set(processor_time_us());
        self.lag.observe(Span::from(monotonic().saturating_duration_since(due)).as_micros());
    }
}

/// The processor time of this thread, in microseconds.
fn processor_time_us() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    let [seconds, nanos] = [tv_sec, tv_nsec].map(|part| u64::try_from(part).unwrap_or_default());
    seconds.saturating_mul(1_000_000).saturating_add(nanos / 1000)
}

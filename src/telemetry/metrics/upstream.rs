//! What a worker counts of one upstream.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use tollgate_core::time::Span;

use super::cache::Cache;
use super::cell::{Counter, Histogram};
use super::families::{
    CLIENT_DURATION, RECEIVED_BYTES, SENT_BYTES, UPSTREAM_CONNECTIONS, UPSTREAM_EXCESS,
    UPSTREAM_FALLBACKS, UPSTREAM_QUEUE, UPSTREAM_QUEUE_REFUSED, UPSTREAM_RETRIES,
};
use super::worker::WorkerMetrics;

/// What one worker counts of one upstream.
#[derive(Debug)]
pub struct UpstreamMetrics {
    worker: Rc<WorkerMetrics>,
    upstream: Box<str>,
    durations: RefCell<Cache<Histogram>>,
    queue: RefCell<Option<Histogram>>,
    /// Attempts over new connections, and over reused ones.
    connections: RefCell<[Option<Counter>; 2]>,
    traffic: UpstreamTraffic,
    received: Counter,
    sent: Counter,
    excess: Counter,
}

/// What happened on connections to an upstream and is not in the metrics yet: bytes in both
/// directions, and connections that were closed because of bytes behind a response. A connection
/// may change its protocol, and so must be able to leave its thread; but one worker drives it, so
/// a load and a store are enough to count. Bytes of health checks are not counted.
#[derive(Clone, Debug, Default)]
pub struct UpstreamTraffic(Arc<[AtomicU64; 3]>);

impl UpstreamTraffic {
    /// An endpoint has sent these bytes.
    pub fn received(&self, bytes: usize) {
        Self::add(&self.0[0], bytes);
    }

    /// These bytes were sent to an endpoint.
    pub fn sent(&self, bytes: usize) {
        Self::add(&self.0[1], bytes);
    }

    /// An endpoint has sent bytes behind a response.
    pub fn excess(&self) {
        Self::add(&self.0[2], 1);
    }

    fn add(sum: &AtomicU64, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        sum.store(sum.load(Ordering::Relaxed).saturating_add(bytes), Ordering::Relaxed);
    }
}

impl UpstreamMetrics {
    /// For the upstream with this name.
    pub fn new(worker: &Rc<WorkerMetrics>, upstream: &str) -> Self {
        Self {
            worker: Rc::clone(worker),
            upstream: upstream.into(),
            durations: RefCell::new(Cache::new(0)),
            queue: RefCell::default(),
            connections: RefCell::default(),
            traffic: UpstreamTraffic::default(),
            received: worker.counter(&RECEIVED_BYTES, &["upstream"]),
            sent: worker.counter(&SENT_BYTES, &["upstream"]),
            excess: worker.counter(&UPSTREAM_EXCESS, &[upstream]),
        }
    }

    /// Where its connections count their bytes.
    pub const fn traffic(&self) -> &UpstreamTraffic {
        &self.traffic
    }

    /// Adds what happened on its connections to the metrics.
    pub fn count_traffic(&self) {
        let UpstreamTraffic(sums) = &self.traffic;
        for (sum, counter) in sums.iter().zip([&self.received, &self.sent, &self.excess]) {
            counter.add(sum.swap(0, Ordering::Relaxed));
        }
    }

    /// An attempt has brought a response with this status.
    pub fn answered(&self, status: StatusCode, took: Duration) {
        self.ended((0, u64::from(status.as_u16())), status.as_str(), "", took);
    }

    /// An attempt has failed.
    pub fn failed(&self, error: &'static str, took: Duration) {
        self.ended((error.as_ptr().addr(), 0), "", error, took);
    }

    fn ended(&self, key: (usize, u64), status: &str, error: &str, took: Duration) {
        let mut durations = self.durations.borrow_mut();
        let duration = durations.get(key, || {
            let is_fault = matches!(status.as_bytes(), [b'5'..=b'9', ..]);
            let error = if is_fault { status } else { error };
            self.worker.histogram(&CLIENT_DURATION, &[&self.upstream, status, error])
        });
        duration.observe(Span::from(took).as_micros());
    }

    /// An attempt uses a connection.
    pub fn connected(&self, is_reused: bool) {
        let counter = &mut self.connections.borrow_mut()[usize::from(is_reused)];
        let counter = counter.get_or_insert_with(|| {
            let kind = if is_reused { "reused" } else { "new" };
            self.worker.counter(&UPSTREAM_CONNECTIONS, &[&self.upstream, kind])
        });
        counter.increment();
    }

    /// A request has waited for a connection.
    pub fn queued(&self, waited: Duration) {
        let queue = &mut *self.queue.borrow_mut();
        let queue =
            queue.get_or_insert_with(|| self.worker.histogram(&UPSTREAM_QUEUE, &[&self.upstream]));
        queue.observe(Span::from(waited).as_micros());
    }

    /// A request gets no connection, for this cause.
    pub fn queue_refused(&self, cause: &str) {
        self.worker.counter(&UPSTREAM_QUEUE_REFUSED, &[&self.upstream, cause]).increment();
    }

    /// Requests may wait for a connection: shows that none was refused yet.
    pub fn has_queue(&self) {
        for cause in ["full", "timeout"] {
            self.worker.counter(&UPSTREAM_QUEUE_REFUSED, &[&self.upstream, cause]).add(0);
        }
    }

    /// A request is sent again, for this cause.
    pub fn retried(&self, cause: &str) {
        self.worker.counter(&UPSTREAM_RETRIES, &[&self.upstream, cause]).increment();
    }

    /// A request of this upstream goes to the fallback of its route for this cause, or does not.
    pub fn fell_back(&self, cause: &str, result: &str) {
        let labels = &[&*self.upstream, cause, result];
        self.worker.counter(&UPSTREAM_FALLBACKS, labels).increment();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn bytes_of_all_upstreams_of_a_worker_are_one_sum() {
        let metrics = Metrics::new(100);
        let worker = Rc::new(metrics.worker());
        let upstreams = ["a", "b"].map(|name| UpstreamMetrics::new(&worker, name));
        // A connection that outlives a count.
        let connections = upstreams.each_ref().map(|it| it.traffic().clone());
        let shown = || {
            upstreams.iter().for_each(UpstreamMetrics::count_traffic);
            let text = metrics.render();
            ["received", "sent"].map(|name| {
                let series = format!("tollgate_{name}_bytes_total{{side=\"upstream\"}} ");
                text.lines().find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok())
            })
        };
        assert_eq!(shown(), [Some(0), Some(0)]);
        connections[0].received(100);
        connections[1].received(20);
        connections[1].sent(7);
        assert_eq!(shown(), [Some(120), Some(7)]);
        connections[0].sent(1);
        assert_eq!(shown(), [Some(120), Some(8)]);
    }
}

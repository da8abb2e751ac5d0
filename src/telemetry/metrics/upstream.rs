//! What a worker counts of one upstream.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use http::StatusCode;
use tollgate_limiter::time::Span;

use super::cache::Cache;
use super::cell::{Counter, Histogram};
use super::families::{CLIENT_DURATION, UPSTREAM_CONNECTIONS, UPSTREAM_RETRIES};
use super::worker::WorkerMetrics;

/// What one worker counts of one upstream.
#[derive(Debug)]
pub(crate) struct UpstreamMetrics {
    worker: Rc<WorkerMetrics>,
    upstream: Box<str>,
    durations: RefCell<Cache<Histogram>>,
    /// Attempts over new connections, and over reused ones.
    connections: RefCell<[Option<Counter>; 2]>,
}

impl UpstreamMetrics {
    /// For the upstream with this name.
    pub(crate) fn new(worker: &Rc<WorkerMetrics>, upstream: &str) -> Self {
        Self {
            worker: Rc::clone(worker),
            upstream: upstream.into(),
            durations: RefCell::new(Cache::new(0)),
            connections: RefCell::default(),
        }
    }

    /// An attempt has brought a response with this status.
    pub(crate) fn answered(&self, status: StatusCode, took: Duration) {
        self.ended((0, u64::from(status.as_u16())), status.as_str(), "", took);
    }

    /// An attempt has failed.
    pub(crate) fn failed(&self, error: &'static str, took: Duration) {
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
    pub(crate) fn connected(&self, is_reused: bool) {
        let counter = &mut self.connections.borrow_mut()[usize::from(is_reused)];
        let counter = counter.get_or_insert_with(|| {
            let kind = if is_reused { "reused" } else { "new" };
            self.worker.counter(&UPSTREAM_CONNECTIONS, &[&self.upstream, kind])
        });
        counter.increment();
    }

    /// A request is sent again, for this cause.
    pub(crate) fn retried(&self, cause: &str) {
        self.worker.counter(&UPSTREAM_RETRIES, &[&self.upstream, cause]).increment();
    }
}

//! What a worker counts of the connections of one listener.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::cache::Cache;
use super::cell::Counter;
use super::families::{CONNECTIONS_ENDED, RECEIVED_BYTES, SENT_BYTES, TLS_HANDSHAKES};
use super::worker::WorkerMetrics;

/// The bytes of one connection that are counted in one step. A request then needs no counter
/// for its bytes.
const STEP_BYTES: u64 = 16 * 1024;

/// What one worker counts of the connections of one listener.
#[derive(Debug)]
pub struct ConnectionMetrics {
    worker: Rc<WorkerMetrics>,
    listener: Box<str>,
    ended: RefCell<Cache<Counter>>,
    handshakes: RefCell<Cache<Counter>>,
    received: Counter,
    sent: Counter,
}

impl ConnectionMetrics {
    /// For the listener with this address.
    pub fn new(worker: &Rc<WorkerMetrics>, listener: &str) -> Rc<Self> {
        Rc::new(Self {
            worker: Rc::clone(worker),
            listener: listener.into(),
            ended: RefCell::new(Cache::new(0)),
            handshakes: RefCell::new(Cache::new(0)),
            received: worker.counter(&RECEIVED_BYTES, &["client"]),
            sent: worker.counter(&SENT_BYTES, &["client"]),
        })
    }

    /// A connection has ended for this cause.
    pub fn ended(&self, cause: &'static str) {
        let make = || self.worker.counter(&CONNECTIONS_ENDED, &[&self.listener, cause]);
        self.ended.borrow_mut().get((cause.as_ptr().addr(), 0), make).increment();
    }

    /// A TLS handshake has ended with this result.
    pub fn handshake(&self, result: &'static str) {
        let make = || self.worker.counter(&TLS_HANDSHAKES, &[&self.listener, result]);
        self.handshakes.borrow_mut().get((result.as_ptr().addr(), 0), make).increment();
    }
}

/// The bytes of one connection that are not in the metrics yet. They are counted when they
/// are many, and when this value is dropped.
#[derive(Debug, Default)]
pub struct Traffic {
    metrics: Option<Rc<ConnectionMetrics>>,
    received: Cell<u64>,
    sent: Cell<u64>,
}

impl Traffic {
    /// Counts in `metrics`, if there are any.
    pub fn new(metrics: Option<Rc<ConnectionMetrics>>) -> Self {
        Self { metrics, received: Cell::default(), sent: Cell::default() }
    }

    /// The client has sent these bytes.
    pub fn received(&self, bytes: usize) {
        self.add(&self.received, bytes);
    }

    /// These bytes were sent to the client.
    pub fn sent(&self, bytes: usize) {
        self.add(&self.sent, bytes);
    }

    fn add(&self, kind: &Cell<u64>, bytes: usize) {
        kind.set(kind.get().saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX)));
        if kind.get() >= STEP_BYTES {
            self.flush();
        }
    }

    /// Counts all bytes until now.
    pub fn flush(&self) {
        if let Some(metrics) = &self.metrics {
            for (kind, counter) in
                [(&self.received, &metrics.received), (&self.sent, &metrics.sent)]
            {
                if kind.get() > 0 {
                    counter.add(kind.take());
                }
            }
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn bytes_are_counted_in_steps_and_at_the_end() {
        let metrics = Metrics::new(100);
        let listener = ConnectionMetrics::new(&Rc::new(metrics.worker()), "a");
        let shown = || {
            let text = metrics.render();
            let of = |name: &str| {
                let series = format!("tollgate_{name}_bytes_total{{side=\"client\"}} ");
                text.lines().find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok())
            };
            [of("received"), of("sent")].map(Option::unwrap_or_default)
        };
        let traffic = Traffic::new(Some(Rc::clone(&listener)));
        traffic.received(100);
        traffic.sent(16_383);
        assert_eq!(shown(), [0, 0]);
        traffic.sent(1);
        assert_eq!(shown(), [100, 16_384]);
        let other = Traffic::new(Some(listener));
        other.received(7);
        drop((traffic, other));
        assert_eq!(shown(), [107, 16_384]);
        Traffic::default().received(usize::MAX);
    }

    #[test]
    fn causes_and_results_have_series_of_their_own() {
        let metrics = Metrics::new(100);
        let listener = ConnectionMetrics::new(&Rc::new(metrics.worker()), "a");
        for cause in ["closed", "timeout", "closed"] {
            listener.ended(cause);
        }
        listener.handshake("timeout");
        let text = metrics.render();
        for line in [
            "tollgate_connections_ended_total{cause=\"closed\",listener=\"a\"} 2",
            "tollgate_connections_ended_total{cause=\"timeout\",listener=\"a\"} 1",
            "tollgate_tls_handshakes_total{listener=\"a\",result=\"timeout\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }
}

//! The worker's part of tracing: begins the trace of a request, and passes its record on
//! when the request has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use tokio::sync::mpsc;

use crate::telemetry::metrics::{Samples, Source, families};
use crate::telemetry::record::Record;
use crate::telemetry::trace_context::RequestTrace;

/// The spans of one request at most: the request, its decision, the question to the store,
/// and the request to the upstream.
pub const SPANS_OF_A_REQUEST: usize = 4;
/// The spans that wait for the exporter at most.
const MAX_WAITING_SPANS: usize = 2048;
/// All requests.
const MILLION: u32 = 1_000_000;

/// What has happened to spans.
#[derive(Debug, Default)]
pub struct SpanCounts {
    /// Too many waited.
    pub dropped: AtomicU64,
    /// The collector has accepted them.
    pub exported: AtomicU64,
    /// The collector has refused them, or they did not reach it.
    pub failed: AtomicU64,
}

impl Source for SpanCounts {
    fn collect(&self, samples: &mut Samples) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        samples.set_whole(&families::SPANS_DROPPED, &[], read(&self.dropped));
        for (result, count) in [("ok", &self.exported), ("error", &self.failed)] {
            samples.set_whole(&families::SPANS_EXPORTED, &[result], read(count));
        }
    }
}

/// Makes the traces of all workers.
#[derive(Clone, Debug)]
pub struct Tracer {
    /// How many of a million requests are sampled.
    sample: u32,
    finished: mpsc::Sender<Box<Record>>,
    counts: Arc<SpanCounts>,
}

impl Tracer {
    /// Samples this many of a million requests. The records of those are received by the
    /// exporter.
    pub fn new(sample: u32) -> (Self, mpsc::Receiver<Box<Record>>) {
        let (finished, records) = mpsc::channel(MAX_WAITING_SPANS / SPANS_OF_A_REQUEST);
        (Self { sample, finished, counts: Arc::default() }, records)
    }

    /// What has happened to its spans.
    pub const fn counts(&self) -> &Arc<SpanCounts> {
        &self.counts
    }

    /// Begins the trace of a request with these fields, or continues the trace in which the
    /// client has sent it. The fields then say what the upstream is told. A client that is
    /// trusted decides whether the trace is sampled.
    pub fn begin(
        &self,
        headers: &mut HeaderMap,
        is_trusted: impl FnOnce() -> bool,
    ) -> RequestTrace {
        RequestTrace::begin(headers, |told| match told.filter(|_| is_trusted()) {
            Some(is_sampled) => is_sampled,
            None => fastrand::u32(..MILLION) < self.sample,
        })
    }

    /// Passes the record of a request on, if the request is sampled. It is dropped and
    /// counted if too many wait.
    pub fn write(&self, record: &Record) {
        let Some(trace) = record.trace.filter(|trace| trace.is_sampled) else { return };
        if self.finished.try_send(Box::new(record.clone())).is_err() {
            self.counts
                .dropped
                .fetch_add(trace.spans(record.store_us.is_some()), Ordering::Relaxed);
        }
    }
}

//! The readers of records. Each is a field of [`Sinks`]: a new one needs no change where
//! records are made.

use std::rc::Rc;

use super::access_log::WorkerLog;
use super::record::Record;
use super::trace_context::RequestTrace;
use super::traces::Tracer;

/// All readers of the records of one worker.
#[derive(Debug, Default)]
pub struct Sinks {
    /// The worker's end of the access log.
    pub access_log: Option<WorkerLog>,
    /// What begins traces.
    pub tracer: Option<Tracer>,
}

impl Sinks {
    /// Whether a sink reads the record of a request with this trace.
    pub fn want(&self, trace: Option<&RequestTrace>) -> bool {
        self.access_log.is_some() || trace.is_some_and(|trace| trace.is_sampled)
    }

    /// Passes what has been collected on to the writers. Must be called regularly.
    pub fn flush(&self) {
        if let Some(log) = &self.access_log {
            log.flush();
        }
    }

    fn write(&self, record: &Record) {
        if let Some(log) = &self.access_log {
            log.write(record);
        }
        if let Some(tracer) = &self.tracer {
            tracer.write(record);
        }
    }
}

/// A record in progress. The sinks get it when this value is dropped, which is when the
/// response has been sent or the client has left.
#[derive(Debug)]
pub struct Recording {
    /// The record so far.
    pub record: Box<Record>,
    sinks: Rc<Sinks>,
}

impl Recording {
    /// A record for `sinks`.
    pub fn new(record: Box<Record>, sinks: &Rc<Sinks>) -> Self {
        Self { record, sinks: Rc::clone(sinks) }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.record.finish();
        self.sinks.write(&self.record);
    }
}

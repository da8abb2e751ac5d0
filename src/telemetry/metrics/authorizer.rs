//! What a worker counts of one authorizer.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tollgate_core::time::Span;

use super::cache::Cache;
use super::cell::{Counter, Histogram};
use super::families::{
    AUTHORIZER_DURATION, AUTHORIZER_FAILURES, AUTHORIZER_IGNORED, AUTHORIZER_REUSED,
};
use super::worker::WorkerMetrics;

/// What one worker counts of one authorizer.
#[derive(Debug)]
pub struct AuthorizerMetrics {
    worker: Rc<WorkerMetrics>,
    name: Box<str>,
    passed: Histogram,
    refused: Histogram,
    failed: Histogram,
    kept: Counter,
    shared: Counter,
    failures: RefCell<Cache<Counter>>,
    ignored: RefCell<Option<Counter>>,
}

impl AuthorizerMetrics {
    /// For the authorizer with this name.
    pub fn new(worker: &Rc<WorkerMetrics>, name: &str) -> Self {
        let took = |result| worker.histogram(&AUTHORIZER_DURATION, &[name, result]);
        let reused = |source| worker.counter(&AUTHORIZER_REUSED, &[name, source]);
        Self {
            worker: Rc::clone(worker),
            name: name.into(),
            passed: took("passed"),
            refused: took("refused"),
            failed: took("failed"),
            kept: reused("kept"),
            shared: reused("shared"),
            failures: RefCell::new(Cache::new(0)),
            ignored: RefCell::default(),
        }
    }

    /// A question was answered after this time.
    pub fn answered(&self, passes: bool, took: Duration) {
        let histogram = if passes { &self.passed } else { &self.refused };
        histogram.observe(Span::from(took).as_micros());
    }

    /// A question got no answer within this time. `reason` is one word.
    pub fn failed(&self, reason: &'static str, took: Duration) {
        self.failed.observe(Span::from(took).as_micros());
        let make = || self.worker.counter(&AUTHORIZER_FAILURES, &[&self.name, reason]);
        self.failures.borrow_mut().get((reason.as_ptr().addr(), 0), make).increment();
    }

    /// An answer demands changes that are not made.
    pub fn ignored(&self) {
        let make = || self.worker.counter(&AUTHORIZER_IGNORED, &[&self.name]);
        self.ignored.borrow_mut().get_or_insert_with(make).increment();
    }

    /// A kept answer was used.
    pub fn used_kept(&self) {
        self.kept.increment();
    }

    /// A request waited for the answer to an equal question.
    pub fn used_shared(&self) {
        self.shared.increment();
    }
}

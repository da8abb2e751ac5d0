//! What a worker counts of access lists.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tollgate_core::policy::{AccessList, AccessVerdict, AccessVerdicts, DenialCause};

use super::cache::Cache;
use super::cell::Counter;
use super::families::ACCESS;
use super::worker::WorkerMetrics;

/// What one worker counts of the access lists of one configuration. Lists are found by their
/// addresses, which stay the same as long as the configuration does.
#[derive(Debug)]
pub struct AccessMetrics {
    worker: Rc<WorkerMetrics>,
    results: RefCell<Cache<Counter>>,
}

impl AccessMetrics {
    pub fn new(worker: &Rc<WorkerMetrics>) -> Self {
        Self { worker: Rc::clone(worker), results: RefCell::new(Cache::new(0)) }
    }

    /// Counts what the lists of a route have said of a request.
    pub fn count(&self, lists: &[Arc<AccessList>], verdicts: AccessVerdicts) {
        for (list, verdict) in verdicts.of(lists) {
            let result = word(verdict);
            // The words are static, so the address of a word stands for it.
            let key =
                (Arc::as_ptr(list).addr(), u64::try_from(result.as_ptr().addr()).unwrap_or(0));
            let make = || self.worker.counter(&ACCESS, &[&list.name, result]);
            self.results.borrow_mut().get(key, make).increment();
        }
    }
}

/// One word for what a list has said.
const fn word(verdict: AccessVerdict) -> &'static str {
    match verdict {
        AccessVerdict::Allowed => "allowed",
        AccessVerdict::ShadowDenied => "shadow_denied",
        AccessVerdict::Denied(DenialCause::Rule(_)) => "denied",
        AccessVerdict::Denied(DenialCause::Ambiguous) => "ambiguous",
        AccessVerdict::Denied(DenialCause::Unverifiable) => "unverifiable",
    }
}

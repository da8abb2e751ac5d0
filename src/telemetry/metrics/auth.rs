//! What a worker counts of credentials.

use std::cell::RefCell;
use std::rc::Rc;

use tollgate_core::policy::AuthMethod;

use super::cache::Cache;
use super::cell::Counter;
use super::families::AUTH;
use super::worker::WorkerMetrics;

/// The label of a method that is not known.
const NONE: &str = "none";

/// What one worker counts of credentials.
#[derive(Debug)]
pub struct AuthMetrics {
    worker: Rc<WorkerMetrics>,
    results: RefCell<Cache<Counter>>,
}

impl AuthMetrics {
    /// Counts for this worker.
    pub fn new(worker: &Rc<WorkerMetrics>) -> Self {
        Self { worker: Rc::clone(worker), results: RefCell::new(Cache::new(8)) }
    }

    /// Counts a request on a route that demands a credential. `result` is one of a few words.
    pub fn count(&self, method: Option<AuthMethod>, result: &'static str) {
        // The texts are static, so the address of a text stands for it.
        let key = (result.as_ptr().addr(), method.map_or(0, |method| method as u64 + 1));
        let method = method.map_or(NONE, AuthMethod::word);
        let make = || self.worker.counter(&AUTH, &[method, result]);
        self.results.borrow_mut().get(key, make).increment();
    }
}

//! What a worker counts of credentials.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use tollgate_core::api_keys::KeyLookups;
use tollgate_core::policy::AuthMethod;

use super::cache::Cache;
use super::cell::Counter;
use super::families::{AUTH, KEY_LOOKUPS};
use super::worker::WorkerMetrics;

/// The label of a method that is not known.
const NONE: &str = "none";

/// What one worker counts of credentials.
#[derive(Debug)]
pub struct AuthMetrics {
    worker: Rc<WorkerMetrics>,
    results: RefCell<Cache<Counter>>,
    /// Made with the first numbers, so that gateways without a store of keys have none.
    lookups: OnceCell<[Counter; 5]>,
}

impl AuthMetrics {
    /// Counts for this worker.
    pub fn new(worker: &Rc<WorkerMetrics>) -> Self {
        let results = RefCell::new(Cache::new(8));
        Self { worker: Rc::clone(worker), results, lookups: OnceCell::new() }
    }

    /// Counts a request on a route that demands a credential. `result` is one of a few words.
    pub fn count(&self, method: Option<AuthMethod>, result: &'static str) {
        // The texts are static, so the address of a text stands for it.
        let key = (result.as_ptr().addr(), method.map_or(0, |method| method as u64 + 1));
        let method = method.map_or(NONE, AuthMethod::word);
        let make = || self.worker.counter(&AUTH, &[method, result]);
        self.results.borrow_mut().get(key, make).increment();
    }

    /// The worker has found so many keys in each way.
    pub fn set_lookups(&self, lookups: KeyLookups) {
        let KeyLookups { hit, unknown, asked, stale, away } = lookups;
        let make = || {
            let results = ["hit", "unknown", "asked", "stale", "away"];
            results.map(|result| self.worker.counter(&KEY_LOOKUPS, &[result]))
        };
        let counters = self.lookups.get_or_init(make);
        for (counter, number) in counters.iter().zip([hit, unknown, asked, stale, away]) {
            counter.set(number);
        }
    }
}

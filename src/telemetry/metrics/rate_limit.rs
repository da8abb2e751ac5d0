//! What the rate limit service counts. The names are those of envoyproxy/ratelimit, so that
//! dashboards and alerts stay as they are.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use super::families::{
    RATE_LIMIT_ALONE, RATE_LIMIT_CALL_DURATION, RATE_LIMIT_CALLS, RATE_LIMIT_ERRORS,
    RATE_LIMIT_GLOBAL_SHADOW, RATE_LIMIT_NEAR, RATE_LIMIT_OVER, RATE_LIMIT_SHADOW,
    RATE_LIMIT_TOTAL, RATE_LIMIT_UNKNOWN_DOMAIN, RATE_LIMIT_WITHIN,
};
use super::worker::WorkerMetrics;
use super::{Counter, Histogram};

/// The most series of a domain. Further ones count as `other`.
const MAX_SERIES: usize = 1000;
const OTHER: (&str, &str) = ("other", "");
const METHOD: &str = "ShouldRateLimit";

/// The counters of one descriptor: all hits, those over the limit, near it, within it, and those
/// that only a shadow would have refused.
type Hits = [Counter; 5];
/// The counters of a domain, by the labels of the descriptors.
type BySeries = HashMap<(Box<str>, Box<str>), Hits>;

/// A counter for each domain and policy.
type ByPolicy = HashMap<(Box<str>, Box<str>), Counter>;

/// What one worker counts.
#[derive(Debug)]
pub struct RateLimitMetrics {
    worker: Rc<WorkerMetrics>,
    /// By domain.
    series: RefCell<HashMap<Box<str>, BySeries>>,
    calls: Counter,
    errors: Counter,
    duration: Histogram,
    shadowed: Counter,
    domain_not_found: Counter,
    /// Descriptors that share no counter with the gateway, by domain and policy. The configuration
    /// bounds both.
    alone: RefCell<ByPolicy>,
}

impl RateLimitMetrics {
    /// Counts among what the worker counts.
    pub fn new(worker: &Rc<WorkerMetrics>) -> Self {
        Self {
            series: RefCell::default(),
            calls: worker.counter(&RATE_LIMIT_CALLS, &[METHOD]),
            errors: worker.counter(&RATE_LIMIT_ERRORS, &["service_error"]),
            duration: worker.histogram(&RATE_LIMIT_CALL_DURATION, &[METHOD]),
            shadowed: worker.counter(&RATE_LIMIT_GLOBAL_SHADOW, &[]),
            domain_not_found: worker.counter(&RATE_LIMIT_UNKNOWN_DOMAIN, &[]),
            alone: RefCell::default(),
            worker: Rc::clone(worker),
        }
    }

    /// A call took this long.
    pub fn called(&self, took: Duration, failed: bool) {
        self.calls.increment();
        self.duration.observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if failed {
            self.errors.increment();
        }
    }

    /// All limits were in shadow mode, and one of them was exceeded.
    pub fn shadowed(&self) {
        self.shadowed.increment();
    }

    /// A question named a domain that is not configured.
    pub fn domain_not_found(&self) {
        self.domain_not_found.increment();
    }

    /// The values of a descriptor cannot be the key of its policy. Returns whether that is the
    /// first of this domain and policy.
    pub fn counts_alone(&self, domain: &str, policy: &str) -> bool {
        let mut all = self.alone.borrow_mut();
        let known = all.len();
        let counter = all
            .entry((domain.into(), policy.into()))
            .or_insert_with(|| self.worker.counter(&RATE_LIMIT_ALONE, &[domain, policy]));
        counter.increment();
        all.len() > known
    }

    /// Hits on the descriptor with these labels: domain, first and second key.
    pub fn hits(&self, domain: &str, key1: &str, key2: &str, hits: [u64; 5]) {
        let mut all = self.series.borrow_mut();
        if !all.contains_key(domain) {
            all.insert(domain.into(), HashMap::new());
        }
        let Some(known) = all.get_mut(domain) else { return };
        let own = (Box::from(key1), Box::from(key2));
        let labels = match known.contains_key(&own) || known.len() < MAX_SERIES {
            true => own,
            false => (OTHER.0.into(), OTHER.1.into()),
        };
        let counters = known.entry(labels).or_insert_with_key(|(key1, key2)| {
            [
                &RATE_LIMIT_TOTAL,
                &RATE_LIMIT_OVER,
                &RATE_LIMIT_NEAR,
                &RATE_LIMIT_WITHIN,
                &RATE_LIMIT_SHADOW,
            ]
            .map(|family| self.worker.counter(family, &[domain, key1, key2]))
        });
        for (counter, hits) in counters.iter().zip(hits) {
            if hits > 0 {
                counter.add(hits);
            }
        }
    }
}

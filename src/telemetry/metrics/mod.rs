//! Metrics: counters and histograms of the workers, summed at each scrape.
//!
//! Each worker has series of its own, see [`WorkerMetrics`], and finds them by small
//! tables without a lock. [`Metrics`] sums them at a scrape, adds the state that others
//! know ([`Source`]), and writes the text format 0.0.4 of Prometheus. No worker takes part
//! in a scrape. Labels never have a value that a client chooses: methods are the nine
//! standard ones and `_OTHER`, and there are no clients, paths or hosts. The number of
//! series is bounded all the same, because clients choose methods, and upstreams statuses.

mod access;
mod admin;
mod auth;
mod authorizer;
mod bans;
mod bounds;
mod cache;
mod cell;
mod compression;
mod connections;
mod counts;
mod decisions;
mod exposition;
pub mod families;
mod family;
mod latest;
mod mirror;
pub mod model_families;
mod rate_limit;
mod requests;
mod sample;
mod store;
mod totals;
mod units;
mod upstream;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

pub use admin::AdminMetrics;
pub use auth::AuthMetrics;
pub use authorizer::AuthorizerMetrics;
pub use bans::BanMetrics;
pub use bounds::decision_bounds_s;
pub use cell::{Counter, Histogram};
pub use compression::CompressionMetrics;
pub use connections::{ConnectionMetrics, Traffic};
pub use counts::{Bucket, Buckets, ByOutcome, NodeCounts, PolicyCounts};
pub use decisions::{DecisionTimer, plan_name};
pub use mirror::MirrorMetrics;
pub use rate_limit::RateLimitMetrics;
pub use requests::{Measurement, RequestMetrics, RouteLabels};
pub use sample::Samples;
pub use store::StoreMetrics;
pub use totals::Totals;
pub use units::UnitMetrics;
pub use upstream::{UpstreamMetrics, UpstreamTraffic};
pub use worker::WorkerMetrics;

use family::{Family, Kind};
use latest::Latest;
use worker::{KnownSeries, Series, WorkerSeries};

/// Knows a state that is read at each scrape.
pub trait Source: Send + Sync {
    /// Adds the state to `samples`. It runs on the thread that renders.
    fn collect(&self, samples: &mut Samples);
}

/// The metrics of the process. Clones are handles to the same metrics.
#[derive(Clone)]
pub struct Metrics(Arc<State>);

struct State {
    known: Arc<KnownSeries>,
    /// The series of all workers that there have been: counts are never lost.
    workers: Mutex<Vec<Arc<WorkerSeries>>>,
    sources: Mutex<Vec<Arc<dyn Source>>>,
    latest: Arc<Latest>,
}

impl Metrics {
    /// Metrics with at most `max_series` series that have labels whose values clients or
    /// upstreams choose.
    pub fn new(max_series: usize) -> Self {
        Self(Arc::new(State {
            known: Arc::new(KnownSeries::new(max_series)),
            workers: Mutex::default(),
            sources: Mutex::default(),
            latest: Arc::default(),
        }))
    }

    /// The part of one more worker.
    pub fn worker(&self) -> WorkerMetrics {
        let series = Arc::new(WorkerSeries::default());
        self.0.workers.lock().push(Arc::clone(&series));
        let known = Arc::clone(&self.0.known);
        let latest = Arc::clone(&self.0.latest);
        WorkerMetrics::new(series, known, latest)
    }

    /// Reads this state at each scrape, too.
    pub fn add_source(&self, source: Arc<dyn Source>) {
        self.0.sources.lock().push(source);
    }

    /// The sums of the series of a counter or gauge, each with its labels: of all series, or
    /// those whose first label has this value.
    pub fn counts(&self, family: &Family, first: Option<&str>) -> Vec<(Box<[Box<str>]>, u64)> {
        let mut counts = BTreeMap::<Box<[Box<str>]>, u64>::new();
        for series in self.series(family) {
            let labels = &series.id.labels;
            if first.is_none_or(|first| labels.first().is_some_and(|it| **it == *first)) {
                let count = counts.entry(labels.clone()).or_default();
                *count = count.wrapping_add(series.cells.get(0));
            }
        }
        counts.into_iter().collect()
    }

    /// The number of values that all series of a histogram have observed.
    pub fn observations(&self, family: &Family) -> u64 {
        let Kind::Histogram(bounds) = family.kind else { return 0 };
        let buckets = 0..=bounds.upper.len();
        let of_series = |it: &Arc<Series>| buckets.clone().map(|at| it.cells.get(at)).sum::<u64>();
        self.series(family).iter().map(of_series).sum()
    }

    fn series(&self, family: &Family) -> Vec<Arc<Series>> {
        let workers = self.0.workers.lock().clone();
        let series = workers.iter().flat_map(|worker| worker.all());
        series.filter(|series| series.family.name == family.name).collect()
    }

    /// All metrics as they are now.
    pub fn samples(&self) -> Samples {
        self.0.samples()
    }

    /// All metrics as text, in Prometheus' format 0.0.4.
    pub fn render(&self) -> String {
        exposition::text(&self.samples())
    }
}

impl State {
    fn samples(&self) -> Samples {
        let mut samples = Samples::default();
        samples.set_whole(&families::BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1);
        samples.set_whole(&families::SERIES_FULL, &[], self.known.is_full().into());
        let sources = self.sources.lock().clone();
        sources.iter().for_each(|source| source.collect(&mut samples));
        for (family, label, value) in self.latest.all() {
            samples.set(family, &[&label], value);
        }
        let workers = self.workers.lock().clone();
        for series in workers.iter().flat_map(|worker| worker.all()) {
            samples.add(&series);
        }
        samples
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

//! The sums of the figures that operators watch, read from the cells of all workers.
//!
//! Reading takes no worker's time: it reads each cell once, and holds the lock of a worker
//! for the copy of its list of series.

use std::collections::BTreeMap;

use super::Metrics;
use super::counts::{ByOutcome, BySource, NodeCounts, PolicyCounts, by_name};
use super::families::{
    ACTIVE_REQUESTS, DECISION_DURATION, DECISIONS, DECISIONS_BY_SOURCE, OWN_DURATION,
    REFUSED_REQUESTS, REQUEST_DURATION, UTILISATION, WORKER_BUSY,
};
use super::family::Family;
use super::worker::Series;

/// The sums over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests in progress.
    pub active: u64,
    /// The figures of the node.
    pub node: NodeCounts,
    /// The figures of each policy, by its name.
    pub policies: BTreeMap<Box<str>, PolicyCounts>,
    /// The processor time of each worker in microseconds, by its number.
    pub busy_us: BTreeMap<Box<str>, u64>,
}

impl Metrics {
    /// The sums at this moment.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let workers = self.0.workers.lock().clone();
        workers.iter().flat_map(|worker| worker.all()).for_each(|series| totals.read(&series));
        totals
    }
}

impl Totals {
    fn read(&mut self, series: &Series) {
        let is = |family: &'static Family| std::ptr::eq(series.family, family);
        let labels = &series.id.labels;
        let increase = |sum: &mut u64| *sum = sum.wrapping_add(series.cells.get(0));
        if is(&REQUEST_DURATION) {
            let requests = self.node.whole_us.read(series);
            let sum = self.node.by_class.of_status(&labels[1]);
            *sum = sum.wrapping_add(requests);
        } else if is(&OWN_DURATION) {
            self.node.own_us.read(series);
        } else if is(&DECISION_DURATION) {
            self.node.decision_ns.read(series);
        } else if is(&REFUSED_REQUESTS) {
            increase(&mut self.node.refused);
        } else if is(&ACTIVE_REQUESTS) {
            increase(&mut self.active);
        } else if is(&DECISIONS_BY_SOURCE) {
            let numbers = self.node.by_source.numbers_mut();
            by_name(BySource::NAMES, numbers, &labels[1]).map(increase);
        } else if is(&DECISIONS) {
            let numbers = self.policy(&labels[0]).by_outcome.numbers_mut();
            by_name(ByOutcome::NAMES, numbers, &labels[2]).map(increase);
        } else if is(&UTILISATION) {
            self.policy(&labels[0]).used.read(series);
        } else if is(&WORKER_BUSY) {
            self.busy_us.insert(labels[0].clone(), series.cells.get(0));
        }
    }

    fn policy(&mut self, name: &str) -> &mut PolicyCounts {
        if !self.policies.contains_key(name) {
            self.policies.insert(name.into(), PolicyCounts::default());
        }
        self.policies.get_mut(name).expect("it was inserted just now")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn the_sums_are_those_of_all_workers() {
        let metrics = Metrics::new(100);
        for (worker, busy) in [("0", 5_u64), ("1", 7)] {
            let own = metrics.worker();
            let whole = |status| {
                own.histogram(&REQUEST_DURATION, &["GET", status, "/*", "r", ""]).observe(7_000);
            };
            ["200", "204", "429", "503", "", "777"].into_iter().for_each(whole);
            own.counter(&REFUSED_REQUESTS, &[]).add(2);
            own.counter(&ACTIVE_REQUESTS, &[]).add(3);
            own.counter(&DECISIONS, &["p", "pro", "refused"]).add(4);
            own.counter(&DECISIONS, &["p", "", "refused"]).add(1);
            own.counter(&DECISIONS, &["p", "", "admitted"]).add(9);
            own.counter(&DECISIONS_BY_SOURCE, &["p", "local"]).add(6);
            own.histogram(&UTILISATION, &["p"]).observe(850);
            own.counter(&WORKER_BUSY, &[worker]).set(busy);
        }
        let totals = metrics.totals();
        assert_eq!(totals.node.by_class.numbers(), [0, 4, 0, 2, 2, 2, 2]);
        assert_eq!((totals.node.refused, totals.active), (4, 6));
        assert_eq!(totals.node.by_source.numbers(), [0, 12, 0, 0]);
        assert_eq!(totals.node.whole_us.sum(), 12);
        let policy = &totals.policies["p"];
        assert_eq!((policy.by_outcome.admitted, policy.by_outcome.refused), (18, 10));
        assert_eq!(policy.used.above(800), 2);
        assert_eq!(policy.used.above(900), 0);
        assert_eq!(totals.busy_us.values().copied().collect::<Vec<_>>(), [5, 7]);
    }
}

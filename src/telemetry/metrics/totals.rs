//! The sums of the figures that operators watch, read from the cells of all workers.
//!
//! Reading takes no worker's time: it reads each cell once, and holds the lock of a worker
//! for the copy of its list of series.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Metrics;
use super::families::{
    ACTIVE_REQUESTS, DECISION_DURATION, DECISIONS, DECISIONS_BY_SOURCE, OWN_DURATION,
    REFUSED_REQUESTS, REQUEST_DURATION, UTILISATION, WORKER_BUSY,
};
use super::family::{Bounds, Family, Kind};
use super::worker::Series;

/// The classes of statuses. A request without a status was left by its client.
pub(crate) const CLASSES: [&str; 7] = ["1xx", "2xx", "3xx", "4xx", "5xx", "unanswered", "other"];
/// What has judged.
pub(crate) const SOURCES: [&str; 4] = ["store", "local", "none", "unasked"];
/// The outcomes of a policy.
pub(crate) const OUTCOMES: [&str; 12] = [
    "admitted",
    "soft",
    "elastic",
    "exempt",
    "refused",
    "banned",
    "failed_closed",
    "lacking_key",
    "unverifiable",
    "ambiguous",
    "shadow_refused",
    "failed_open",
];

/// Numbers that only grow, or their growth over a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts<const N: usize>([u64; N]);

/// The figures of a whole node, in the order of the constants below.
pub(crate) type NodeCounts = Counts<60>;
/// The figures of a policy.
pub(crate) type PolicyCounts = Counts<20>;

/// Where the figures of [`NodeCounts`] are: requests by [`CLASSES`].
pub(crate) const BY_CLASS: Range<usize> = 0..7;
/// Requests that a policy has refused.
pub(crate) const REFUSED: usize = 7;
/// Decisions of policies by [`SOURCES`].
pub(crate) const BY_SOURCE: Range<usize> = 8..12;
const WHOLE: Range<usize> = 12..27;
const OWN: Range<usize> = 27..42;
const DECISION: Range<usize> = 42..60;

/// Where the figures of [`PolicyCounts`] are: decisions by [`OUTCOMES`].
pub(crate) const BY_OUTCOME: Range<usize> = 0..12;
/// Of these, those that are refusals.
pub(crate) const REFUSALS: Range<usize> = 4..10;
/// Those that would be refusals if the policy were not in shadow.
pub(crate) const SHADOW_REFUSED: usize = 10;
const USE: Range<usize> = 12..20;

/// A histogram within counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// Durations of requests, in microseconds.
    Whole,
    /// The part of these that the gateway itself took, in microseconds.
    Own,
    /// Durations of decisions, in nanoseconds.
    Decision,
    /// Of a policy: used units by limit, in thousandths.
    Use,
}

impl Distribution {
    const fn place(self) -> (&'static Family, Range<usize>) {
        match self {
            Self::Whole => (&REQUEST_DURATION, WHOLE),
            Self::Own => (&OWN_DURATION, OWN),
            Self::Decision => (&DECISION_DURATION, DECISION),
            Self::Use => (&UTILISATION, USE),
        }
    }

    const fn bounds(self) -> &'static [u64] {
        match self.place().0.kind {
            Kind::Histogram(Bounds { upper, .. }) => upper,
            Kind::Counter { .. } | Kind::Gauge => &[],
        }
    }
}

/// The bucket of a histogram in which a quantile lies. Nothing more is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// The quantile is above this, or at least 0.
    pub(crate) over: u64,
    /// It is this at most. None: there is no upper bound.
    pub(crate) to: Option<u64>,
}

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Counts<N> {
    /// The number at this place.
    pub(crate) const fn get(&self, place: usize) -> u64 {
        self.0[place]
    }

    /// The numbers at these places.
    pub(crate) fn range(&self, places: Range<usize>) -> &[u64] {
        &self.0[places]
    }

    /// Adds the numbers of another time.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
    }

    /// How much the numbers have grown since they were `before`.
    pub(crate) fn growth(&self, before: &Self) -> Self {
        let mut growth = self.clone();
        growth.0.iter_mut().zip(before.0).for_each(|(now, old)| *now = now.wrapping_sub(old));
        growth
    }

    /// Whether nothing was counted.
    pub(crate) fn is_zero(&self) -> bool {
        self.0.iter().all(|number| *number == 0)
    }

    /// How many values a histogram has.
    pub(crate) fn measured(&self, of: Distribution) -> u64 {
        self.range(of.place().1).iter().sum()
    }

    /// The values of a histogram that lie in buckets above `bound`, which is one of its
    /// bounds.
    pub(crate) fn above(&self, of: Distribution, bound: u64) -> u64 {
        let first = of.bounds().partition_point(|upper| *upper <= bound);
        self.range(of.place().1)[first..].iter().sum()
    }

    /// The bucket of the value that `thousandths` of the values do not exceed. None: there
    /// are no values.
    pub(crate) fn quantile(&self, of: Distribution, thousandths: u64) -> Option<Bucket> {
        let (numbers, upper) = (self.range(of.place().1), of.bounds());
        let count: u64 = numbers.iter().sum();
        let rank = count.saturating_mul(thousandths).div_ceil(1000).max(1);
        let mut seen = 0_u64;
        let found = numbers.iter().position(|number| {
            seen = seen.saturating_add(*number);
            seen >= rank
        })?;
        let over = found.checked_sub(1).and_then(|below| upper.get(below)).copied();
        Some(Bucket { over: over.unwrap_or(0), to: upper.get(found).copied() })
    }

    fn read(&mut self, of: Distribution, series: &Series) {
        for (index, place) in of.place().1.enumerate() {
            self.increase(place, series.cells.get(index));
        }
    }

    fn increase(&mut self, place: usize, by: u64) {
        self.0[place] = self.0[place].wrapping_add(by);
    }
}

/// The sums over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Requests in progress.
    pub(crate) active: u64,
    /// The figures of the node.
    pub(crate) node: NodeCounts,
    /// The figures of each policy, by its name.
    pub(crate) policies: BTreeMap<Box<str>, PolicyCounts>,
    /// The processor time of each worker in microseconds, by its number.
    pub(crate) busy_us: BTreeMap<Box<str>, u64>,
}

impl Metrics {
    /// The sums at this moment.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let workers = self.state.workers.lock().clone();
        workers.iter().flat_map(|worker| worker.all()).for_each(|series| totals.read(&series));
        totals
    }
}

impl Totals {
    fn read(&mut self, series: &Series) {
        let is = |family: &'static Family| std::ptr::eq(series.family, family);
        let labels = &series.id.labels;
        let number = || series.cells.get(0);
        if is(&REQUEST_DURATION) {
            let class = class_of(&labels[1]);
            let requests = (WHOLE).map(|place| series.cells.get(place - WHOLE.start)).sum();
            self.node.increase(BY_CLASS.start + class, requests);
            self.node.read(Distribution::Whole, series);
        } else if is(&OWN_DURATION) {
            self.node.read(Distribution::Own, series);
        } else if is(&DECISION_DURATION) {
            self.node.read(Distribution::Decision, series);
        } else if is(&REFUSED_REQUESTS) {
            self.node.increase(REFUSED, number());
        } else if is(&ACTIVE_REQUESTS) {
            self.active = self.active.wrapping_add(number());
        } else if is(&DECISIONS_BY_SOURCE) {
            if let Some(source) = SOURCES.iter().position(|it| **it == *labels[1]) {
                self.node.increase(BY_SOURCE.start + source, number());
            }
        } else if is(&DECISIONS) {
            if let Some(outcome) = OUTCOMES.iter().position(|it| **it == *labels[2]) {
                self.policy(&labels[0]).increase(BY_OUTCOME.start + outcome, number());
            }
        } else if is(&UTILISATION) {
            self.policy(&labels[0]).read(Distribution::Use, series);
        } else if is(&WORKER_BUSY) {
            self.busy_us.insert(labels[0].clone(), number());
        }
    }

    fn policy(&mut self, name: &str) -> &mut PolicyCounts {
        if !self.policies.contains_key(name) {
            self.policies.insert(name.into(), PolicyCounts::default());
        }
        self.policies.get_mut(name).expect("it was inserted just now")
    }
}

/// The index of the class of a status.
fn class_of(status: &str) -> usize {
    match status.as_bytes() {
        [digit @ b'1'..=b'5', _, _] => usize::from(digit - b'1'),
        [] => 5,
        _ => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn each_histogram_has_a_place_for_each_bucket() {
        for of in
            [Distribution::Whole, Distribution::Own, Distribution::Decision, Distribution::Use]
        {
            assert_eq!(of.place().1.len(), of.bounds().len() + 1, "{of:?}");
        }
        assert_eq!((BY_CLASS.len(), BY_SOURCE.len()), (CLASSES.len(), SOURCES.len()));
        assert_eq!(BY_OUTCOME.len(), OUTCOMES.len());
        assert_eq!(
            (OUTCOMES[REFUSALS.start], OUTCOMES[REFUSALS.end - 1]),
            ("refused", "ambiguous")
        );
        assert_eq!(OUTCOMES[SHADOW_REFUSED], "shadow_refused");
    }

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
        assert_eq!(totals.node.range(BY_CLASS), [0, 4, 0, 2, 2, 2, 2]);
        assert_eq!((totals.node.get(REFUSED), totals.active), (4, 6));
        assert_eq!(totals.node.range(BY_SOURCE), [0, 12, 0, 0]);
        assert_eq!(totals.node.measured(Distribution::Whole), 12);
        let policy = &totals.policies["p"];
        assert_eq!((policy.get(0), policy.get(4)), (18, 10));
        assert_eq!(policy.above(Distribution::Use, 800), 2);
        assert_eq!(policy.above(Distribution::Use, 900), 0);
        assert_eq!(totals.busy_us.values().copied().collect::<Vec<_>>(), [5, 7]);
    }

    #[test]
    fn a_quantile_is_known_as_well_as_the_buckets_are() {
        let metrics = Metrics::new(100);
        let worker = metrics.worker();
        let own = worker.histogram(&OWN_DURATION, &[]);
        let quantile = |thousandths| metrics.totals().node.quantile(Distribution::Own, thousandths);
        assert_eq!(quantile(500), None);
        (0..98).for_each(|_| own.observe(60));
        [300, 2_000_000].into_iter().for_each(|value| own.observe(value));
        assert_eq!(quantile(500), Some(Bucket { over: 50, to: Some(100) }));
        assert_eq!(quantile(980), Some(Bucket { over: 50, to: Some(100) }));
        assert_eq!(quantile(990), Some(Bucket { over: 250, to: Some(500) }));
        assert_eq!(quantile(1000), Some(Bucket { over: 1_000_000, to: None }));
        (0..1000).for_each(|_| own.observe(1));
        assert_eq!(quantile(500), Some(Bucket { over: 0, to: Some(10) }));
    }
}

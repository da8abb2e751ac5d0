//! What one scrape has found: the sums of all workers, and the state of the process.

use std::collections::BTreeMap;

use tollgate_core::time::Span;

use super::family::{Family, Kind};
use super::worker::Series;

/// The values of all metrics at one scrape.
#[derive(Debug, Default)]
pub struct Samples(BTreeMap<&'static str, (&'static Family, BySeries)>);

/// The values of the series of one metric, by the values of their labels.
pub type BySeries = BTreeMap<Box<[Box<str>]>, Value>;

/// The value of one series.
#[derive(Debug)]
pub enum Value {
    /// Of a gauge or a counter, in the unit that is shown.
    Shown(f64),
    /// As the workers count.
    Counted(Vec<u64>),
}

impl Samples {
    /// Sets the value of one series, in the unit that is shown.
    pub fn set(&mut self, family: &'static Family, labels: &[&str], value: f64) {
        debug_assert_eq!(family.labels.len(), labels.len(), "{}", family.name);
        let labels = labels.iter().map(|label| (*label).into()).collect();
        self.family(family).insert(labels, Value::Shown(value));
    }

    /// The same of a whole number.
    pub fn set_whole(&mut self, family: &'static Family, labels: &[&str], value: u64) {
        self.set(family, labels, float(value));
    }

    /// The same of a time, in seconds.
    pub fn set_seconds(&mut self, family: &'static Family, labels: &[&str], time: Span) {
        self.set(family, labels, float(time.as_micros()) / 1_000_000.0);
    }

    /// Begins the series of a counter of workers at 0, so that a query for its growth sees the
    /// first time that it grows. To be called before the numbers of workers are added.
    pub fn begin(&mut self, family: &'static Family, labels: &[&str]) {
        debug_assert_eq!(family.labels.len(), labels.len(), "{}", family.name);
        let labels = labels.iter().map(|label| (*label).into()).collect();
        self.family(family).entry(labels).or_insert_with(|| Value::Counted(vec![0]));
    }

    /// Adds the numbers of one worker.
    pub fn add(&mut self, series: &Series) {
        let by_series = self.family(series.family);
        if !by_series.contains_key(&series.id.labels) {
            by_series.insert(series.id.labels.clone(), Value::Counted(Vec::new()));
        }
        let numbers = match series.family.kind {
            Kind::Counter { .. } | Kind::Gauge => 1,
            Kind::Histogram(bounds) => bounds.upper.len() + 2,
        };
        if let Some(Value::Counted(sums)) = by_series.get_mut(&series.id.labels) {
            sums.resize(numbers, 0);
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum = sum.wrapping_add(series.cells.get(index));
            }
        }
    }

    /// Gives `see` the labels of each series of a family with its number as workers count; of
    /// a histogram the number of each bucket, and then the sum.
    pub fn each(&self, family: &Family, mut see: impl FnMut(&[Box<str>], &[f64])) {
        let Some((_, by_series)) = self.0.get(family.name) else { return };
        for (labels, value) in by_series {
            match value {
                Value::Shown(number) => see(labels, &[*number]),
                Value::Counted(numbers) => {
                    see(labels, &numbers.iter().copied().map(float).collect::<Vec<_>>());
                }
            }
        }
    }

    fn family(&mut self, family: &'static Family) -> &mut BySeries {
        &mut self.0.entry(family.name).or_insert((family, BTreeMap::new())).1
    }

    /// Each metric that has a series, by name.
    pub fn families(&self) -> impl Iterator<Item = &(&'static Family, BySeries)> {
        self.0.values()
    }
}

impl Value {
    /// The number of a counter or gauge in the unit that is shown.
    pub fn shown(&self, per_unit: u64) -> f64 {
        match self {
            Self::Shown(value) => *value,
            Self::Counted(numbers) => {
                float(numbers.first().copied().unwrap_or_default()) / float(per_unit)
            }
        }
    }
}

/// Prometheus has 64-bit floating-point numbers only.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, and rounded beyond")]
pub fn float(number: u64) -> f64 {
    number as f64
}

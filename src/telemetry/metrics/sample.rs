//! What one scrape has found: the sums of all workers, and the state of the process.

use std::collections::BTreeMap;

use prometheus::proto;
use tollgate_core::time::Span;

use super::family::{Bounds, Family, Kind};
use super::worker::Series;

/// The values of all metrics at one scrape.
#[derive(Debug, Default)]
pub(crate) struct Samples(BTreeMap<&'static str, (&'static Family, BySeries)>);

type BySeries = BTreeMap<Box<[Box<str>]>, Value>;

#[derive(Debug)]
enum Value {
    /// Of a gauge or a counter, in the unit that is shown.
    Shown(f64),
    /// As the workers count.
    Counted(Vec<u64>),
}

impl Samples {
    /// Sets the value of one series, in the unit that is shown.
    pub(crate) fn set(&mut self, family: &'static Family, labels: &[&str], value: f64) {
        debug_assert_eq!(family.labels.len(), labels.len(), "{}", family.name);
        let labels = labels.iter().map(|label| (*label).into()).collect();
        self.family(family).insert(labels, Value::Shown(value));
    }

    /// The same of a whole number.
    pub(crate) fn set_whole(&mut self, family: &'static Family, labels: &[&str], value: u64) {
        self.set(family, labels, float(value));
    }

    /// The same of a time, in seconds.
    pub(crate) fn set_seconds(&mut self, family: &'static Family, labels: &[&str], time: Span) {
        self.set(family, labels, float(time.as_micros()) / 1_000_000.0);
    }

    /// Begins the series of a counter of workers at 0, so that a query for its growth sees the
    /// first time that it grows. To be called before the numbers of workers are added.
    pub(crate) fn begin(&mut self, family: &'static Family, labels: &[&str]) {
        debug_assert_eq!(family.labels.len(), labels.len(), "{}", family.name);
        let labels = labels.iter().map(|label| (*label).into()).collect();
        self.family(family).entry(labels).or_insert_with(|| Value::Counted(vec![0]));
    }

    /// Adds the numbers of one worker.
    pub(super) fn add(&mut self, series: &Series) {
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
    pub(crate) fn each(&self, family: &Family, mut see: impl FnMut(&[Box<str>], &[f64])) {
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

    /// As the encoder takes it.
    pub(super) fn into_proto(self) -> Vec<proto::MetricFamily> {
        let families = self.0.into_values().map(|(family, by_series)| {
            let mut out = proto::MetricFamily::default();
            out.set_name(family.name.to_owned());
            out.set_help(family.help.to_owned());
            out.set_field_type(match family.kind {
                Kind::Counter { .. } => proto::MetricType::COUNTER,
                Kind::Gauge => proto::MetricType::GAUGE,
                Kind::Histogram(_) => proto::MetricType::HISTOGRAM,
            });
            let metrics = by_series.into_iter();
            out.set_metric(
                metrics.map(|(labels, value)| metric(family, &labels, &value)).collect(),
            );
            out
        });
        families.collect()
    }
}

fn metric(family: &Family, labels: &[Box<str>], value: &Value) -> proto::Metric {
    let labels = family.labels.iter().zip(labels).map(|(name, value)| {
        let mut pair = proto::LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value(value.as_ref().to_owned());
        pair
    });
    let mut labels: Vec<proto::LabelPair> = labels.collect();
    labels.sort_by(|a, b| a.name().cmp(b.name()));
    let mut metric = proto::Metric::from_label(labels);
    let shown = |per_unit: u64| match value {
        Value::Shown(value) => *value,
        Value::Counted(numbers) => {
            float(numbers.first().copied().unwrap_or_default()) / float(per_unit)
        }
    };
    match (family.kind, value) {
        (Kind::Counter { per_unit }, _) => {
            let mut counter = proto::Counter::default();
            counter.set_value(shown(per_unit));
            metric.set_counter(counter);
        }
        (Kind::Gauge, _) => {
            let mut gauge = proto::Gauge::default();
            gauge.set_value(shown(1));
            metric.set_gauge(gauge);
        }
        (Kind::Histogram(bounds), Value::Counted(numbers)) => {
            metric.set_histogram(histogram(bounds, numbers));
        }
        // Only workers count in histograms.
        (Kind::Histogram(_), Value::Shown(_)) => {}
    }
    metric
}

/// The cumulative form of a histogram.
fn histogram(bounds: Bounds, numbers: &[u64]) -> proto::Histogram {
    let mut count = 0_u64;
    let buckets = bounds.upper.iter().zip(numbers).map(|(upper, number)| {
        count = count.wrapping_add(*number);
        let mut bucket = proto::Bucket::default();
        bucket.set_cumulative_count(count);
        bucket.set_upper_bound(float(*upper) / float(bounds.per_unit));
        bucket
    });
    let buckets = buckets.collect();
    let [.., last, sum] = numbers else { return proto::Histogram::default() };
    let mut histogram = proto::Histogram::default();
    histogram.set_bucket(buckets);
    histogram.set_sample_count(count.wrapping_add(*last));
    histogram.set_sample_sum(float(*sum) / float(bounds.per_unit));
    histogram
}

/// Prometheus has 64-bit floating-point numbers only.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, and rounded beyond")]
fn float(number: u64) -> f64 {
    number as f64
}

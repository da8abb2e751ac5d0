//! The text format of Prometheus, version 0.0.4:
//! <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>.
//!
//! Metrics are in the order of their names, the labels of a series in the order of theirs, and
//! the series of a metric in the order of the values of their labels. Two scrapes can be compared
//! line by line.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::family::{Bounds, Family, Kind};
use super::sample::{BySeries, Samples, Value, float};

/// All samples as text.
pub fn text(samples: &Samples) -> String {
    let mut text = String::new();
    for (family, by_series) in samples.families() {
        write_family(&mut text, family, by_series);
    }
    text
}

fn write_family(text: &mut String, family: &Family, by_series: &BySeries) {
    let Family { name, help, .. } = family;
    let help = escaped(help, &['\\', '\n']);
    push(text, format_args!("# HELP {name} {help}\n# TYPE {name} {}\n", family.type_name()));
    let mut series: Vec<_> =
        by_series.iter().map(|(values, value)| (labels(family, values), value)).collect();
    series.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (labels, value) in series {
        let labels: Vec<String> = labels
            .into_iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value, &['\\', '\n', '"'])))
            .collect();
        let labels = labels.join(",");
        match (family.kind, value) {
            (Kind::Counter { per_unit }, _) => {
                write_sample(text, name, &labels, value.shown(per_unit));
            }
            (Kind::Gauge, _) => write_sample(text, name, &labels, value.shown(1)),
            (Kind::Histogram(bounds), Value::Counted(numbers)) => {
                write_histogram(text, name, &labels, bounds, numbers);
            }
            // Only workers count in histograms.
            (Kind::Histogram(_), Value::Shown(_)) => {}
        }
    }
}

/// The labels of a series with their values, in the order of their names.
fn labels<'s>(family: &Family, values: &'s [Box<str>]) -> Vec<(&'static str, &'s str)> {
    let values = values.iter().map(|value| &**value);
    let mut labels: Vec<_> = family.labels.iter().copied().zip(values).collect();
    labels.sort_by_key(|(name, _)| *name);
    labels
}

/// The buckets of a histogram in their cumulative form, the sum of its values, and their number.
fn write_histogram(text: &mut String, name: &str, labels: &str, bounds: Bounds, numbers: &[u64]) {
    let [in_buckets @ .., last, sum] = numbers else { return };
    let comma = if labels.is_empty() { "" } else { "," };
    let mut count = 0_u64;
    for (upper, number) in bounds.upper.iter().zip(in_buckets) {
        count = count.wrapping_add(*number);
        let upper = float(*upper) / float(bounds.per_unit);
        let name = format!("{name}_bucket");
        let labels = format!("{labels}{comma}le=\"{upper}\"");
        write_sample(text, &name, &labels, float(count));
    }
    let count = float(count.wrapping_add(*last));
    write_sample(text, &format!("{name}_bucket"), &format!("{labels}{comma}le=\"+Inf\""), count);
    write_sample(text, &format!("{name}_sum"), labels, float(*sum) / float(bounds.per_unit));
    write_sample(text, &format!("{name}_count"), labels, count);
}

fn write_sample(text: &mut String, name: &str, labels: &str, value: f64) {
    match labels {
        "" => push(text, format_args!("{name} {value}\n")),
        _ => push(text, format_args!("{name}{{{labels}}} {value}\n")),
    }
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.write_fmt(line).expect("a text has room for more");
}

/// `text` with a backslash before each of `characters`.
fn escaped<'t>(text: &'t str, characters: &[char]) -> Cow<'t, str> {
    if !text.contains(characters) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\n' => escaped.push_str("\\n"),
            it if characters.contains(&it) => escaped.extend(['\\', it]),
            it => escaped.push(it),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::Metrics;
    use crate::telemetry::metrics::families::{DECISIONS, NODES, UTILISATION, WORKER_BUSY};

    #[test]
    fn metrics_labels_and_series_are_in_their_order() {
        let metrics = Metrics::new(100);
        let worker = metrics.worker();
        // By the values of `outcome`, `plan` and `policy`, in this order.
        worker.counter(&DECISIONS, &["a", "pro", "refused"]).add(1);
        worker.counter(&DECISIONS, &["b", "", "admitted"]).add(1_500_000_000_000_000_000);
        worker.counter(&DECISIONS, &["a \"q\"\\\nz", "pro", "admitted"]).add(2);
        worker.counter(&WORKER_BUSY, &["0"]).add(1_250_001);
        worker.histogram(&UTILISATION, &["p"]).observe(850);
        worker.histogram(&UTILISATION, &["p"]).observe(2_000);
        let mut samples = metrics.samples();
        samples.set(&NODES, &[], 0.1);
        let text = text(&samples);
        let (_, text) = text.split_once("# HELP tollgate_decisions_total ").expect("it is there");
        let expected = r#"Decisions of each policy.
# TYPE tollgate_decisions_total counter
tollgate_decisions_total{outcome="admitted",plan="",policy="b"} 1500000000000000000
tollgate_decisions_total{outcome="admitted",plan="pro",policy="a \"q\"\\\nz"} 2
tollgate_decisions_total{outcome="refused",plan="pro",policy="a"} 1
# HELP tollgate_nodes Nodes that share the store and are alive, with this one.
# TYPE tollgate_nodes gauge
tollgate_nodes 0.1
# HELP tollgate_series_full 1 if a series had no room (telemetry.metrics.max_series), otherwise 0. Such requests count in series with `_overflow` and with classes of statuses.
# TYPE tollgate_series_full gauge
tollgate_series_full 0
# HELP tollgate_utilisation_ratio Used units by limit after a decision. One request of 16 is measured.
# TYPE tollgate_utilisation_ratio histogram
tollgate_utilisation_ratio_bucket{policy="p",le="0.1"} 0
tollgate_utilisation_ratio_bucket{policy="p",le="0.25"} 0
tollgate_utilisation_ratio_bucket{policy="p",le="0.5"} 0
tollgate_utilisation_ratio_bucket{policy="p",le="0.75"} 0
tollgate_utilisation_ratio_bucket{policy="p",le="0.8"} 0
tollgate_utilisation_ratio_bucket{policy="p",le="0.9"} 1
tollgate_utilisation_ratio_bucket{policy="p",le="1"} 1
tollgate_utilisation_ratio_bucket{policy="p",le="+Inf"} 2
tollgate_utilisation_ratio_sum{policy="p"} 2.85
tollgate_utilisation_ratio_count{policy="p"} 2
# HELP tollgate_worker_busy_seconds_total Processor time of a worker.
# TYPE tollgate_worker_busy_seconds_total counter
tollgate_worker_busy_seconds_total{worker="0"} 1.250001
"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn help_keeps_its_quotes() {
        assert_eq!(escaped("a \"b\"\\\n", &['\\', '\n']), "a \"b\"\\\\\\n");
        assert!(matches!(escaped("plain", &['\\', '\n', '"']), Cow::Borrowed("plain")));
    }
}

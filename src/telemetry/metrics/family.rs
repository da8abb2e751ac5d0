//! What a metric is: its name, type, labels, unit and meaning.

/// One metric with all its series.
#[derive(Debug)]
pub struct Family {
    /// Its name, as Prometheus shows it.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The unit of its values.
    #[cfg_attr(not(test), expect(dead_code, reason = "the test of docs/metrics.md reads it"))]
    pub unit: &'static str,
    /// What it measures, in one sentence.
    pub help: &'static str,
    /// When its first series begins.
    #[cfg_attr(not(test), expect(dead_code, reason = "the test of docs/metrics.md reads it"))]
    pub appears: Appears,
    /// The labels whose values clients or upstreams choose, so that they can begin many
    /// series. The configuration bounds the values of the others.
    pub chosen: &'static [&'static str],
}

/// The type of a metric. Workers count in whole numbers; `per_unit` of these make one
/// unit of the values that are shown.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A number that only grows.
    Counter { per_unit: u64 },
    /// A number that grows and shrinks.
    Gauge,
    /// How many values lie below each of several bounds.
    Histogram(Bounds),
}

/// The upper bounds of the buckets of a histogram, in ascending order. A value that
/// equals a bound is in its bucket. The last bucket, without a bound, is not listed.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The bounds, as the workers count.
    pub upper: &'static [u64],
    /// See [`Kind`].
    pub per_unit: u64,
}

/// When the first series of a metric begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appears {
    /// With the first requests of a gateway that forwards, and stays.
    InUse,
    /// When something happens that not every gateway sees, such as a retry.
    OnEvent,
}

impl Family {
    /// A counter of whole things.
    pub const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        unit: &'static str,
        help: &'static str,
    ) -> Self {
        let kind = Kind::Counter { per_unit: 1 };
        Self { name, kind, labels, unit, help, appears: Appears::InUse, chosen: &[] }
    }

    /// A gauge.
    pub const fn gauge(
        name: &'static str,
        labels: &'static [&'static str],
        unit: &'static str,
        help: &'static str,
    ) -> Self {
        Self { kind: Kind::Gauge, ..Self::counter(name, labels, unit, help) }
    }

    /// A counter of seconds, which the workers count in microseconds.
    pub const fn seconds(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        let kind = Kind::Counter { per_unit: 1_000_000 };
        Self { kind, ..Self::counter(name, labels, "seconds", help) }
    }

    /// A histogram.
    pub const fn histogram(
        name: &'static str,
        bounds: Bounds,
        labels: &'static [&'static str],
        unit: &'static str,
        help: &'static str,
    ) -> Self {
        Self { kind: Kind::Histogram(bounds), ..Self::counter(name, labels, unit, help) }
    }

    /// The same, for a metric that appears with an event.
    pub const fn on_event(self) -> Self {
        Self { appears: Appears::OnEvent, ..self }
    }

    /// The same, if clients or upstreams choose the values of these labels.
    pub const fn chosen(self, chosen: &'static [&'static str]) -> Self {
        Self { chosen, ..self }
    }

    /// Whether it appears in every gateway that has requests.
    #[cfg(test)]
    pub fn is_always_in_use(&self) -> bool {
        self.appears == Appears::InUse
    }

    /// Its type, as Prometheus names it.
    pub const fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Counter { .. } => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        }
    }
}
